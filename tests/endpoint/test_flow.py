"""Flow: one slow or stopped peer, or reader, never stops the rest, and costs bounded memory.

Nothing here waits for time: the seconds of an endpoint's watch pass when the test says so.
"""

from __future__ import annotations

import signal
import sys
from itertools import pairwise
from subprocess import PIPE

import pytest
import trio
import trio.testing

from endpoint import Endpoint, Missed, OverflowPolicy, StatusCode
from endpoint.link.limits import OWN_MARK, TRANSIT_MARK, WINDOW_SIZE, LinkLimits, Mark
from endpoint.pubsub.messages import MISSED_TOPIC
from endpoint.pubsub.queueing import Queueing
from peermesh.testing.time_limits import limit
from wire.errors import ErrorCode, OutboxFull
from wire.identifiers import EndpointId
from wire.limits import GROUP_SIZE, KIB, MIB
from wire.messages import Credit

STALL = int(LinkLimits().stall_seconds) + 1
"""After so many seconds a peer that takes nothing is stalled."""

LOSSY = int(Queueing().stall_seconds or 0) + 1
"""After so many seconds a full queue that is not read drops what is oldest."""


def fill(endpoint: Endpoint, payload: bytes) -> int:
    """Publish until somebody would have to wait; give the number of messages."""
    count = 0
    while True:
        try:
            endpoint.publish_nowait("/t", payload)
        except OutboxFull:
            return count
        count += 1


async def test_one_stopped_peer_of_five_delays_nobody_and_is_removed_alone(kit) -> None:
    async with kit.world() as world:
        hub, *others = await world.grow(5, [(other, 0) for other in range(1, 5)])
        subscribers = [other.subscribe("/t") for other in others]
        status, clock = hub.subscribe_status(), kit.clock(hub)
        async with kit.raw(hub, world.ports[hub]) as raw:
            await kit.until(lambda: len(hub.peers()) == 5)
            await kit.until(lambda: len({each.loop.core.digest() for each in world.endpoints}) == 1)
            # It reads nothing from now on. What it lacks waits in the system and in its link.
            for number in range(900):
                await hub.publish("/t", bytes(KIB) + number.to_bytes(4))
            for subscriber in subscribers:
                for number in range(900):
                    _, data = await subscriber.get()
                    assert data[KIB:] == number.to_bytes(4)
            # As soon as there is too much of it, publishers wait, for the stall time at most.
            done = trio.Event()

            async def publish_more() -> None:
                for number in range(20_000):
                    await hub.publish("/t", bytes(KIB) + number.to_bytes(4))
                done.set()

            async with trio.open_nursery() as nursery:
                for subscriber in subscribers:
                    nursery.start_soon(read_all, subscriber, 20_000)
                nursery.start_soon(publish_more)
                link = hub.loop.peerings[raw.local].connection.link
                await kit.until(lambda: link.is_full)
                # A frame is charged twice its size at most, and two may come on top.
                assert link.data.own <= OWN_MARK.high + 2 * 2 * GROUP_SIZE
                # What the system's buffers still take counts as taken, and begins the time anew.
                while not done.is_set():
                    await clock.advance(1, raw.local)
            events = await kit.events_until(status, StatusCode.PEER_REMOVED)
            assert events[-1].endpoint == raw.local
            assert events[-1].code is ErrorCode.OUTBOX_OVERFLOW
            assert "taken nothing for" in events[-1].reason
        assert [info.node_id for info in hub.peers()] == sorted(o.node_id() for o in others)


async def read_all(subscriber, count: int) -> None:
    for _ in range(count):
        await subscriber.get()


PEER_PROCESS = """
import sys, trio
from endpoint import Endpoint

async def main():
    async with Endpoint() as endpoint:
        endpoint.subscribe("/t")
        await endpoint.peer(sys.argv[1], int(sys.argv[2]))
        print(endpoint.node_id(), flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_stopped_process_is_removed_and_comes_back_when_it_goes_on(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        hub, other = await world.grow(2, [(1, 0)])
        subscriber = other.subscribe("/t")
        status, clock = hub.subscribe_status(), kit.clock(hub)
        command = [sys.executable, "-c", PEER_PROCESS, kit.host, str(world.ports[hub])]
        process = await nursery.start(lambda task_status: run(command, task_status))
        line = await process.stdout.receive_some()
        await kit.until(lambda: len(hub.peers()) == 2)
        process.send_signal(signal.SIGSTOP)
        while not any(info.outbox.data_bytes >= OWN_MARK.high for info in hub.peers()):
            try:
                hub.publish_nowait("/t", bytes(8 * KIB))
            except OutboxFull:
                break
            await subscriber.get()
        # What its system still takes in is progress, and comes to an end.
        stopped = EndpointId.parse(line.decode().strip())
        while stopped in hub.loop.peerings:
            await clock.advance(1, stopped)
        events = await kit.events_until(status, StatusCode.PEER_REMOVED)
        assert str(events[-1].endpoint) == line.decode().strip()
        await hub.publish("/t", "the rest goes on")
        while (await subscriber.get()) != ("/t", "the rest goes on"):
            pass
        process.send_signal(signal.SIGCONT)
        events = await kit.events_until(status, StatusCode.PEER_ADDED)
        assert str(events[-1].endpoint) == line.decode().strip()
        process.kill()


async def run(command: list[str], task_status: trio.TaskStatus) -> None:
    await trio.run_process(command, stdout=PIPE, check=False, task_status=task_status)


@pytest.mark.parametrize("policy", [OverflowPolicy.DROP_OLDEST, OverflowPolicy.DROP_NEWEST])
async def test_a_stalled_peer_with_a_drop_policy_stays_and_every_drop_is_counted(
    kit, policy: OverflowPolicy
) -> None:
    async with kit.world() as world:
        hub = await world.add(overflow_policy=policy)
        clock = kit.clock(hub)
        async with kit.raw(hub, world.ports[hub]) as raw:
            link = hub.loop.peerings[raw.local].connection.link
            published = fill(hub, bytes(4 * KIB))
            await clock.advance(STALL, raw.local)
            for _ in range(2_000):
                await hub.publish("/t", bytes(4 * KIB))
            published += 2_000
            assert link.data.own <= OWN_MARK.high + 2 * GROUP_SIZE
            await hub.publish("/t", b"the last")
            hub.loop.publication.cut()
            (info,) = hub.peers()
            assert info.outbox.dropped_messages > 1_000
            assert hub.statistics().messages_dropped == info.outbox.dropped_messages
            # When it reads again, what was kept comes in order, and the policy rests.
            got = []
            wanted = published + 1 - info.outbox.dropped_messages
            while sum(frame.count for frame in got) < wanted:
                frame = await raw.receive()
                if kit.is_node(frame):
                    got.append(frame)
                    await raw.send(Credit(2**40))
            missing = [after.first - before.first - before.count for before, after in pairwise(got)]
            gaps = [place for place, count in enumerate(missing) if count]
            kept_after = len(missing) - gaps[0] if gaps else 0
            assert (kept_after > 5) == (policy is OverflowPolicy.DROP_OLDEST), "the wrong end went"
            await kit.until(lambda: not link.has_backlog)
            await clock.advance(1, raw.local)
            assert not link.is_lossy


async def test_publish_nowait_without_room_sends_nothing_to_anybody(kit) -> None:
    async with kit.world() as world:
        hub, other = await world.grow(2, [(1, 0)])
        subscriber = other.subscribe("/t", queue_size=10**6, queue_bytes=2**30)
        kit.clock(hub)
        async with kit.raw(hub, world.ports[hub]):
            await kit.until(lambda: len({each.loop.core.digest() for each in world.endpoints}) == 1)
            count = 0
            try:
                while True:
                    hub.publish_nowait("/t", bytes(4 * KIB))
                    count += 1
                    if count % 16 == 0:
                        await trio.lowlevel.checkpoint()
            except OutboxFull:
                pass
            with pytest.raises(OutboxFull, match="await publish"):
                hub.publish_nowait("/t", b"not sent")
            hub.publish_nowait("/t", b"to the one with room", to=other.node_id())
            for _ in range(count):
                assert (await subscriber.get())[1] == bytes(4 * KIB)
            assert (await subscriber.get())[1] == b"to the one with room"


async def test_a_slow_reader_slows_its_publisher_and_loses_nothing_while_commands_flow(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher, reader = await world.grow(2, [(0, 1)])
        clocks = [kit.clock(publisher), kit.clock(reader)]
        subscriber = reader.subscribe("/t", queue_size=64)
        await world.known()
        async with publisher.attach_master("s") as master, reader.attach_clone("s") as clone:
            assert await clone.await_idle(timeout=limit())
            sent = 0

            async def publish() -> None:
                nonlocal sent
                for number in range(3_000):
                    await publisher.publish("/t", number.to_bytes(4) + bytes(8 * KIB))
                    sent += 1

            nursery.start_soon(publish)
            await kit.until(lambda: kit.is_held(publisher))
            await trio.testing.wait_all_tasks_blocked()
            assert sent < 3_000, "the reader has not read anything"
            under_way = WINDOW_SIZE + OWN_MARK.high + 2 * GROUP_SIZE
            assert subscriber.available() * 8 * KIB <= 64 * 8 * KIB + under_way
            for number in range(100):
                await clone.put(number, "written while data waits")
            assert await clone.await_idle(timeout=limit())
            assert await master.get(99) == "written while data waits"
            # It reads now and then for longer than any clock runs; nobody gives up.
            seconds = 2 * max(LOSSY, int(LinkLimits().stand_seconds_max))
            for number in range(seconds):
                assert (await subscriber.get())[1][:4] == number.to_bytes(4)
                await clocks[1].advance(1)
                await clocks[0].advance(1)
            assert len(publisher.peers()) == 1
            for number in range(seconds, 3_000):
                assert (await subscriber.get())[1][:4] == number.to_bytes(4)
        assert publisher.statistics().messages_dropped == 0
        assert reader.statistics().messages_dropped == 0


async def test_an_unread_subscriber_holds_up_others_once_and_finds_what_it_missed(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher, reader = await world.grow(2, [(0, 1)])
        clock = kit.clock(reader)
        kit.clock(publisher)
        unread, read = reader.subscribe("/t", queue_size=50), reader.subscribe("/t")
        await world.known()
        count, got = 4_000, []

        async def publish() -> None:
            for number in range(count):
                await publisher.publish("/t", number.to_bytes(4) + bytes(4 * KIB))

        async def read_along() -> None:
            while len(got) < count:
                got.append((await read.get())[1][:4])

        nursery.start_soon(read_along)
        nursery.start_soon(publish)
        await kit.until(lambda: kit.is_held(publisher))
        assert len(got) < count
        await clock.advance(LOSSY)
        await kit.until(lambda: len(got) == count)
        assert got == [number.to_bytes(4) for number in range(count)]
        assert unread.available() <= 50 + 256
        # Nobody has read it since, so that it holds up nobody again, however much time passes.
        await clock.advance(2 * LOSSY)
        got.clear()
        nursery.start_soon(publish)
        nursery.start_soon(read_along)
        await kit.until(lambda: len(got) == count)
        await clock.advance(1)
        topic, missed = await unread.get()
        assert topic == MISSED_TOPIC
        assert isinstance(missed, Missed)
        rest = [data[:4] for _, data in unread.poll()]
        assert missed.count + len(rest) == 2 * count
        assert rest == [number.to_bytes(4) for number in range(missed.count - count, count)]
        assert unread.dropped == missed.count == reader.statistics().messages_dropped
        # It is read again: it holds publishers up again, and loses nothing.
        await clock.advance(1)
        got.clear()
        nursery.start_soon(publish)
        nursery.start_soon(read_along)
        for number in range(count):
            assert (await unread.get())[1][:4] == number.to_bytes(4)


async def test_a_relay_holds_bounded_data_for_a_stopped_peer_and_then_gives_it_up(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        first, relay, last = await world.grow(3, [(0, 1), (2, 1)])
        subscriber = last.subscribe("/t")
        clock = kit.clock(relay)
        kit.clock(first)
        async with kit.raw(relay, world.ports[relay]) as raw:
            await kit.until(lambda: len({each.loop.core.digest() for each in world.endpoints}) == 1)
            count = 0

            async def publish() -> None:
                nonlocal count
                for _ in range(900):
                    await first.publish("/t", bytes(64 * KIB))
                    count += 1

            nursery.start_soon(read_all, subscriber, 900)
            nursery.start_soon(publish)
            link = relay.loop.peerings[raw.local].connection.link
            await kit.until(lambda: kit.is_held(first))
            await trio.testing.wait_all_tasks_blocked()
            under_way = WINDOW_SIZE + OWN_MARK.high + 3 * GROUP_SIZE
            assert link.data.transit <= TRANSIT_MARK.high + under_way
            assert count < 900
            while raw.local in relay.loop.peerings:
                await clock.advance(1, raw.local)
            await kit.until(lambda: count == 900)
        assert raw.local not in relay.loop.peerings


async def test_what_a_relay_holds_keeps_nothing_else_in_memory(kit) -> None:
    async with kit.world() as world:
        first, relay = await world.grow(2, [(0, 1)])
        kit.clock(relay)
        async with kit.raw(relay, world.ports[relay], subscriptions=("/rare",)) as raw:
            busy = relay.subscribe("/busy", queue_size=10**6)
            await world.known()
            link = relay.loop.peerings[raw.local].connection.link
            link.credit = 0  # It waits.
            for _ in range(10):
                await first.publish("/busy", bytes(20 * KIB))
                await first.publish("/rare", b"a little")
                first.loop.publication.cut()
            await first.publish("/rare/large", bytes(100 * KIB))
            await kit.until(lambda: busy.available() == 10 and len(link.data.frames) == 11)
            *small, _ = [frame.pieces for frame in link.data.frames]
            assert all(type(piece) is bytes for pieces in small for piece in pieces)


async def publish_all(endpoint: Endpoint, count: int) -> None:
    for number in range(count):
        await endpoint.publish("/t", number.to_bytes(4) + bytes(4 * KIB))


async def let_time_pass(endpoints: list[Endpoint], clocks: list) -> None:
    """Let a second pass whenever nothing has moved for a while."""

    def moved() -> int:
        peers = [peer for endpoint in endpoints for peer in endpoint.peers()]
        return sum(peer.messages_received for peer in peers)

    while True:
        before = moved()
        for _ in range(2_000):
            await trio.lowlevel.checkpoint()
        if moved() == before:
            for clock in clocks:
                await clock.advance(1)


async def test_a_ring_in_which_everybody_publishes_flat_out_keeps_moving(kit, monkeypatch) -> None:
    # A ring of small pipes jams as a ring of large ones would, but sooner: all is a 64th.
    window, usual = WINDOW_SIZE // 64, LinkLimits()
    monkeypatch.setattr("endpoint.link.link.WINDOW_SIZE", window)
    small = LinkLimits(
        own=Mark(*(size // 64 for size in OWN_MARK)),
        transit=Mark(*(size // 64 for size in TRANSIT_MARK)),
        reserve=usual.reserve // 64,
        window=window,
    )
    monkeypatch.setattr("endpoint.loop.LinkLimits", lambda **_: small)
    size, count = 8, 150
    async with kit.world() as world:
        ring = [(number, (number + 1) % size) for number in range(size)]
        endpoints = await world.grow(size, ring)
        subscribers = [endpoint.subscribe("/t") for endpoint in endpoints]
        clocks = [kit.clock(endpoint) for endpoint in endpoints]
        await world.known()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(let_time_pass, endpoints, clocks)
            async with trio.open_nursery() as work:
                for endpoint, subscriber in zip(endpoints, subscribers, strict=True):
                    work.start_soon(publish_all, endpoint, count)
                    work.start_soon(read_all, subscriber, count * (size - 1))
            nursery.cancel_scope.cancel()
        assert all(subscriber.available() == 0 for subscriber in subscribers)
        assert sum(endpoint.statistics().messages_dropped for endpoint in endpoints) == 0


async def test_large_messages_pass_and_are_not_held_against_a_peer(kit) -> None:
    async with kit.world() as world:
        left, middle, right = await world.grow(3, [(0, 1), (1, 2)])
        subscriber = right.subscribe("/t")
        await world.known()
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(left.publish, "/t", bytes([number]) * (16 * MIB))
            got = sorted([(await subscriber.get())[1][:1] for _ in range(4)])
        assert got == [b"\0", b"\1", b"\2", b"\3"]
        assert len(middle.peers()) == 2


async def test_a_cancelled_publisher_leaves_everything_in_order(kit) -> None:
    async with kit.world() as world:
        hub = await world.add()
        kit.clock(hub)
        async with kit.raw(hub, world.ports[hub]) as raw:
            fill(hub, bytes(4 * KIB))
            with trio.move_on_after(0.01) as scope:
                while True:
                    await hub.publish("/t", bytes(4 * KIB))
            assert scope.cancelled_caught
            link = hub.loop.peerings[raw.local].connection.link
            await raw.send(Credit(2**40))
            sequences = []
            while link.has_backlog:
                frame = await raw.receive()
                if kit.is_node(frame):
                    sequences += range(frame.first, frame.first + frame.count)
            assert all(after == before + 1 for before, after in pairwise(sequences))
            await hub.publish("/t", b"and it goes on")


async def test_reading_with_a_timeout_or_cancelled_loses_no_message(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        left, right = await world.grow(2, [(0, 1)])
        subscriber = right.subscribe("/t")
        await world.known()

        async def publish() -> None:
            for number in range(500):
                await left.publish("/t", number)
                await trio.lowlevel.checkpoint()

        nursery.start_soon(publish)
        got = []
        while len(got) < 500:
            with trio.move_on_after(0.0001):
                got.append((await subscriber.get())[1])
            try:
                got.append((await subscriber.get(timeout=0.0001))[1])
            except TimeoutError:
                continue
        assert got[:500] == list(range(500))


async def test_a_peer_that_falls_silent_is_lost(kit) -> None:
    async with kit.world() as world:
        hub = await world.add()
        status, clock = hub.subscribe_status(), kit.clock(hub)
        async with kit.raw(hub, world.ports[hub], subscriptions=()) as raw:
            await clock.advance(14, raw.local)
            (before,) = hub.peers()
            await raw.send(Credit(WINDOW_SIZE))
            await kit.until(lambda: hub.peers()[0].bytes_received > before.bytes_received)
            await clock.advance(14, raw.local)
            assert hub.peers()
            await clock.advance(2, raw.local)
            events = await kit.events_until(status, StatusCode.PEER_LOST)
            assert events[-1].code is ErrorCode.CONNECTION_TIMEOUT
            assert "silent" in events[-1].reason
