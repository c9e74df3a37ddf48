"""A client that does not read loses messages, and then its connection; other clients lose none."""

from __future__ import annotations

from dataclasses import replace

import trio

from peermesh.gateways.websocket import carrying, server
from peermesh.testing.time_limits import limit
from tests.peermesh.gateways.websocket.conftest import open_client, open_socket
from tests.waiting import until

COUNT = 400
TEXT = "x" * 64 * 1024
"""So many of these are more than sockets and a queue of ``SMALL`` hold."""

SMALL = replace(carrying.QUEUEING, queue_size=16, queue_bytes=1024 * 1024)


async def test_a_slow_client_makes_no_other_wait_and_is_told_what_it_missed(line, monkeypatch):
    monkeypatch.setattr(server, "QUEUEING", SMALL)
    heard = []

    async def read(client, until: str) -> None:
        while (message := await client.hear()).get("data") != until:
            heard.append(message)

    with line.far.subscribe("/t") as innocent:
        assert await line.near.await_subscribed("/t")
        async with open_client(line.gateway, "/t") as slow:
            with trio.fail_after(limit(60)):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(line.near.publish_batch, [("/t", TEXT)] * COUNT)
                    for _ in range(COUNT):
                        assert await innocent.get(limit(20)) == ("/t", TEXT)
            await line.near.publish("/t", "end")
            await read(slow, "end")
    told = [each for each in heard if each["type"] == "error"]
    missed = sum(int(each["context"].split()[0]) for each in told)
    assert {each["code"] for each in told} == {"messages_dropped"}
    assert missed == line.gateway.statistics().dropped > 0
    assert missed + len(heard) - len(told) == COUNT


async def test_a_client_that_takes_nothing_is_cut_off_and_its_neighbour_is_not(line, monkeypatch):
    monkeypatch.setattr(server, "QUEUEING", SMALL)
    monkeypatch.setattr(carrying, "STALL_SECONDS", 0.5)
    monkeypatch.setattr(carrying, "PING_SECONDS", 1e9)  # Which would notice it, too.
    async with (
        open_client(line.gateway, "/t/small") as neighbour,
        open_socket(line.gateway) as slow,
    ):
        await slow.say(["/t"])
        with trio.fail_after(limit(60)):
            await until(lambda: line.gateway.statistics().clients >= 2)
            while not line.gateway.statistics().refused.get("stalled"):
                await line.near.publish("/t/large", TEXT)
                await line.near.publish("/t/small", "x")
                assert (await neighbour.hear())["data"] == "x"
        assert line.gateway.statistics().clients == 1
        await line.near.publish("/t/small", "still there")
        assert (await neighbour.hear())["data"] == "still there"
