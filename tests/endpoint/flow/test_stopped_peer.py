"""A stopped process holds up publishers of what it reads for five seconds, and no others.

How long the round trips of others take meanwhile is measured by ``benchmarks.latency``.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio

from endpoint import Endpoint, StatusCode
from peermesh.testing.processes import open_program
from peermesh.testing.time_limits import limit
from tests.endpoint.flow.flows import own_clocks, publish_numbers, read_numbers
from wire.errors import ErrorCode, OutboxFull
from wire.identifiers import EndpointId
from wire.limits import KIB, MIB

STALL = 5
"""The seconds of ``link_stall_seconds``, unless it is set."""

SIZE = 10 * KIB
COUNT = 50 * MIB // SIZE

READER = """
import sys, trio
from endpoint import Endpoint

async def main(host, port):
    async with Endpoint() as endpoint:
        its = endpoint.subscribe("/its")
        assert await endpoint.peer(host, port)
        print(endpoint.node_id(), flush=True)
        async for _, data in its:
            if data[4:] == b"end":
                print("end", flush=True)

trio.run(main, sys.argv[1], int(sys.argv[2]))
"""


async def test_one_of_five_that_is_stopped_holds_up_its_own_topics_for_the_stall_time(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        hub, *others = await world.grow(4, [(other, 0) for other in range(1, 4)])
        subscribers = [other.subscribe("/others") for other in others]
        command = [sys.executable, "-c", READER, kit.host, str(world.ports[hub])]
        async with open_program(command) as program:
            stopped = EndpointId.parse(await program.hear())
            assert await hub.await_subscribed("/its", timeout=limit())
            assert await hub.await_subscribed("/others", count=3, timeout=limit())
            status, clocks = hub.subscribe_status(), own_clocks(kit, world.endpoints)
            await program.pause()

            published = 0

            async def publish_its() -> None:
                nonlocal published
                for number in range(COUNT):
                    await hub.publish("/its", number.to_bytes(4) + bytes(SIZE))
                    published += 1

            nursery.start_soon(publish_its)
            link = hub.loop.peerings[stopped].connection.link
            await kit.until(lambda: link.is_writing and not link.has_room)
            # No more than what is allowed to wait waits for it.
            with pytest.raises(OutboxFull, match=str(stopped)):
                fill(hub)
            assert link.is_full
            # 50 MB to the others, in parts: in each, a second passes.
            for second in range(STALL - 1):
                part = range(second * COUNT // (STALL - 1), (second + 1) * COUNT // (STALL - 1))
                async with trio.open_nursery() as part_nursery:
                    part_nursery.start_soon(publish_numbers, hub, "/others", part, SIZE)
                    for subscriber in subscribers:
                        part_nursery.start_soon(read_numbers, subscriber, part)
                for clock in clocks:
                    await clock.advance(1, stopped)
            assert published < COUNT, "nothing had to wait for the process that is stopped"
            assert stopped in hub.loop.peerings
            # Its system still took something in the first of these seconds, which are short.
            await until_removed(hub, stopped, clocks[0])
            events = await kit.events_until(status, StatusCode.PEER_REMOVED)
            assert events[-1].endpoint == stopped
            assert events[-1].code is ErrorCode.OUTBOX_OVERFLOW
            await kit.until(lambda: published == COUNT)
            # Of the others nothing is told, and nothing is lost.
            await publish_numbers(hub, "/others", range(10))
            for subscriber in subscribers:
                await read_numbers(subscriber, range(10))
            events += status.poll()
            assert {event.endpoint for event in events} == {stopped}
            assert [info.node_id for info in hub.peers()] == sorted(o.node_id() for o in others)
            assert hub.statistics().messages_dropped > 0, "what waited for it is counted"


async def test_one_that_is_stopped_for_less_loses_nothing(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        hub = await world.add()
        command = [sys.executable, "-c", READER, kit.host, str(world.ports[hub])]
        async with open_program(command) as program:
            stopped = EndpointId.parse(await program.hear())
            assert await hub.await_subscribed("/its", timeout=limit())
            (clock,) = own_clocks(kit, [hub])
            await program.pause()
            nursery.start_soon(publish_then_end, hub)
            link = hub.loop.peerings[stopped].connection.link
            await kit.until(lambda: link.is_writing and not link.has_room)
            await clock.advance(3, stopped)
            await program.resume()
            assert await program.hear() == "end"
            assert hub.statistics().messages_dropped == 0


def fill(hub: Endpoint) -> None:
    """Publish for a peer until there is no room; raises ``OutboxFull``."""
    while True:
        hub.publish_nowait("/its", bytes(SIZE))
        hub.loop.publication.cut()


async def until_removed(hub: Endpoint, stopped: EndpointId, clock: Any) -> None:
    """Let seconds pass until a peer is removed; raises ``AssertionError`` if it stays."""
    for _ in range(3 * STALL):
        if stopped not in hub.loop.peerings:
            return
        await clock.advance(1, stopped)
    raise AssertionError("it is a peer still")


async def publish_then_end(hub: Endpoint) -> None:
    await publish_numbers(hub, "/its", range(COUNT), SIZE)
    await hub.publish("/its", bytes(4) + b"end")
