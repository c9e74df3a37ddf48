"""A reader that pauses holds up publishers of what it reads, loses nothing, and stops nothing else.

The seconds of the pauses pass when the test says so, so that there is something to see in each.
"""

from __future__ import annotations

import sys
import threading
from functools import partial

import pytest
import trio

from endpoint import Endpoint
from peermesh import blocking
from peermesh.testing.processes import open_program
from peermesh.testing.time_limits import limit
from tests.endpoint.flow.flows import (
    SECONDS,
    is_held,
    own_clocks,
    pass_numbers,
    pass_second,
    publish_numbers,
    read_numbers,
)

COUNT = 60_000
"""Many times what the queue of a subscriber and its reserve hold of small messages."""

FAST_COUNT = 1_000
"""Messages of the topic beside it in each second of a pause: more than any queue but its own."""

LINKS = {
    "its own link": [(0, 1)],
    "another link": [(0, 1), (0, 2)],
    "a relay": [(0, 3), (1, 3), (2, 3)],
}


def ends(way: str, endpoints: list[Endpoint]) -> tuple[Endpoint, Endpoint]:
    """Give who publishes on the fast topic, and where it is read."""
    match way:
        case "its own link":
            return endpoints[0], endpoints[1]
        case "another link":
            return endpoints[0], endpoints[2]
        case _:
            return endpoints[2], endpoints[1]


@pytest.mark.parametrize("seconds", [7, 20])
@pytest.mark.parametrize("way", LINKS)
async def test_a_reader_that_pauses_loses_nothing_and_another_topic_goes_on(
    kit, way: str, seconds: int
) -> None:
    links = LINKS[way]
    async with kit.world() as world, trio.open_nursery() as nursery:
        endpoints = await world.grow(1 + max(map(max, links)), links)
        publisher, reader = endpoints[:2]
        fast_publisher, fast_reader = ends(way, endpoints)
        slow, fast = reader.subscribe("/slow"), fast_reader.subscribe("/fast")
        heard = publisher.subscribe(SECONDS)
        await world.known()
        clocks = own_clocks(kit, endpoints)
        nursery.start_soon(publish_numbers, publisher, "/slow", range(COUNT), 100)
        await read_numbers(slow, range(10_000))
        await kit.until(lambda: is_held(publisher, "/slow"))
        for second in range(seconds):
            numbers = range(second * FAST_COUNT, (second + 1) * FAST_COUNT)
            await pass_numbers(fast_publisher, "/fast", fast, numbers, 100)
            await pass_second(clocks, reader, heard)
            assert is_held(publisher, "/slow")
        assert slow.available() < COUNT - 10_000, "nothing had to wait for the reader"
        await read_numbers(slow, range(10_000, COUNT))
        assert [each.statistics().messages_dropped for each in endpoints] == [0] * len(endpoints)
        assert all(each.peers() for each in endpoints)


async def test_a_blocking_reader_that_pauses_loses_nothing_and_another_topic_goes_on(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher = await world.add()
        go_on, is_paused, got = threading.Event(), threading.Event(), []
        fast_read = 0

        def read_slow(subscriber: blocking.Subscriber) -> None:
            while len(got) < COUNT:
                if len(got) >= 10_000 and not go_on.is_set():
                    is_paused.set()
                    go_on.wait(limit())
                got.extend(int.from_bytes(data[:4]) for _, data in subscriber.get_batch(limit()))

        def read_fast(subscriber: blocking.Subscriber, count: int) -> None:
            nonlocal fast_read
            while fast_read < count:
                _, data = subscriber.get(limit())
                assert int.from_bytes(data[:4]) == fast_read
                fast_read += 1

        run = partial(trio.to_thread.run_sync, abandon_on_cancel=True)
        reader = await run(blocking.Endpoint)
        try:
            slow, fast = await run(reader.subscribe, "/slow"), await run(reader.subscribe, "/fast")
            assert await run(reader.peer, kit.host, world.ports[publisher])
            assert await publisher.await_subscribed("/fast", timeout=limit())
            nursery.start_soon(run, read_slow, slow)
            nursery.start_soon(publish_numbers, publisher, "/slow", range(COUNT), 100)
            await kit.until(lambda: is_paused.is_set() and is_held(publisher, "/slow"))
            nursery.start_soon(publish_numbers, publisher, "/fast", range(20_000), 100)
            await run(read_fast, fast, 20_000)
            assert is_held(publisher, "/slow")
            assert not go_on.is_set()
            go_on.set()
            await kit.until(lambda: len(got) == COUNT)
            assert got == list(range(COUNT))
        finally:
            go_on.set()
            await run(reader.shutdown)


READERS = {
    "trio": """
import sys, trio
from endpoint import Endpoint, Missed

async def main(host, port):
    async with Endpoint() as endpoint:
        slow, fast = endpoint.subscribe("/slow"), endpoint.subscribe("/fast")
        assert await endpoint.peer(host, port)

        async def read_fast():
            async for _, data in fast:
                if data == b"end":
                    print("fast", flush=True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_fast)
            got = missed = 0
            has_paused = False
            while got + missed < 60_000:
                for _, data in await slow.get_batch():
                    if isinstance(data, Missed):
                        missed += data.count
                    else:
                        assert int.from_bytes(data[:4]) == got + missed
                        got += 1
                if got > 10_000 and not has_paused:
                    has_paused = True
                    print("pauses", flush=True)
                    await trio.to_thread.run_sync(sys.stdin.readline)
            print("missed", missed, flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)
            nursery.cancel_scope.cancel()

trio.run(main, sys.argv[1], int(sys.argv[2]))
""",
    "blocking": """
import sys, threading, time
from peermesh import blocking
from peermesh import Missed

host, port = sys.argv[1], int(sys.argv[2])
with blocking.Endpoint() as endpoint:
    slow, fast = endpoint.subscribe("/slow"), endpoint.subscribe("/fast")
    assert endpoint.peer(host, port)

    def read_fast():
        for _, data in fast:
            if data == b"end":
                print("fast", flush=True)

    threading.Thread(target=read_fast, daemon=True).start()
    got = missed = 0
    has_paused = False
    while got + missed < 60_000:
        for _, data in slow.get_batch():
            if isinstance(data, Missed):
                missed += data.count
            else:
                assert int.from_bytes(data[:4]) == got + missed
                got += 1
        if got > 10_000 and not has_paused:
            has_paused = True
            print("pauses", flush=True)
            sys.stdin.readline()
    print("missed", missed, flush=True)
    sys.stdin.read()
""",
}


@pytest.mark.long
@pytest.mark.parametrize("seconds", [7, 20])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("way", ["its own link", "a relay"])
async def test_a_process_that_reads_nothing_for_many_seconds_loses_nothing(
    kit, way: str, reader: str, seconds: int
) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher = await world.add()
        hop = publisher
        if way == "a relay":
            hop = await world.add()
            await world.peer(publisher, hop)
        command = [sys.executable, "-c", READERS[reader], kit.host, str(world.ports[hop])]
        async with open_program(command) as program:
            assert await publisher.await_subscribed("/slow", timeout=limit())
            nursery.start_soon(publish_numbers, publisher, "/slow", range(COUNT), 100)
            assert await program.hear() == "pauses"
            await kit.until(lambda: is_held(publisher, "/slow"))
            began = trio.current_time()
            while trio.current_time() < began + seconds:
                await publish_numbers(publisher, "/fast", range(FAST_COUNT), 100)
                await publisher.publish("/fast", b"end")
                assert await program.hear() == "fast"
            await program.say("go on")
            assert await program.hear() == "missed 0"
