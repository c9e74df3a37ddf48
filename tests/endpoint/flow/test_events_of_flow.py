"""What is slow or lost is told, with the names of the endpoint, the subscriber and the topic."""

from __future__ import annotations

import pytest
import trio

from endpoint import Missed, StatusCode
from endpoint.mesh.status import StatusEvent
from peermesh.testing.time_limits import limit
from tests.endpoint.flow.flows import (
    SECONDS,
    has_holder,
    is_held,
    own_clocks,
    pass_second,
    publish_numbers,
)
from wire.limits import KIB

FLOW = {
    StatusCode.SUBSCRIBER_SLOW,
    StatusCode.SUBSCRIBER_LOSSY,
    StatusCode.PEER_SLOW,
    StatusCode.MESSAGE_TOO_LARGE,
}


def of_flow(events: list[StatusEvent]) -> list[StatusEvent]:
    return [event for event in events if event.status in FLOW]


@pytest.mark.parametrize("hold_seconds_max", [None, 0], ids=["waits", "is let out"])
async def test_a_slow_subscriber_is_told_of_at_both_ends_and_nowhere_else(
    kit, hold_seconds_max: float | None
) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher = await world.add(name="source", hold_seconds_max=hold_seconds_max)
        relay, reader = await world.add(name="between"), await world.add(name="sink")
        await world.peer(publisher, relay)
        await world.peer(reader, relay)
        # It is called by its name, and the other one by its topic.
        subscriber = reader.subscribe("/topic", queue_size=16, name="archive")
        heard = publisher.subscribe(SECONDS)
        await world.known()
        endpoints = [publisher, relay, reader]
        statuses = [each.subscribe_status() for each in endpoints]
        clocks = own_clocks(kit, endpoints)
        nursery.start_soon(publish_numbers, publisher, "/topic/1", range(1_000))
        await kit.until(lambda: subscriber.available() >= 16)
        await kit.until(lambda: has_holder(publisher, "/topic/1"))
        for _ in range(4):
            await pass_second(clocks, reader, heard)
        assert [of_flow(status.poll()) for status in statuses] == [[], [], []]
        for _ in range(3):
            await pass_second(clocks, reader, heard)
        at_publisher, at_relay, at_reader = [of_flow(status.poll()) for status in statuses]
        assert at_relay == []
        for (event,), topic in ((at_publisher, "/topic/1"), (at_reader, "/topic")):
            assert event.status is StatusCode.SUBSCRIBER_SLOW
            assert event.endpoint == reader.node_id()
            assert event.name is not None
            assert event.name.startswith("sink")
            assert "archive" in event.reason
            assert topic in event.reason
        nursery.cancel_scope.cancel()


async def test_a_subscriber_that_is_not_read_is_told_of_where_it_loses(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher, reader = await world.grow(2, [(0, 1)])
        subscriber = reader.subscribe("/topic", queue_size=16, name="archive", stall_seconds=10)
        await world.known()
        status = reader.subscribe_status()
        publisher_clock, reader_clock = own_clocks(kit, [publisher, reader])
        nursery.start_soon(publish_numbers, publisher, "/topic", range(1_000))
        await kit.until(lambda: is_held(publisher, "/topic"))
        for _ in range(9):
            await reader_clock.advance(1)
            await publisher_clock.advance(1)
        assert subscriber.dropped == 0
        await reader_clock.advance(3)
        events = await kit.events_until(status, StatusCode.SUBSCRIBER_LOSSY)
        assert events[-1].endpoint == reader.node_id()
        assert "archive" in events[-1].reason
        assert "/topic" in events[-1].reason
        # Its publisher goes on, and what is missing is said where it is.
        await kit.until(lambda: reader.peers()[0].messages_received == 1_000)
        _, missed = await subscriber.get()
        assert isinstance(missed, Missed)
        assert missed.count == subscriber.dropped == 1_000 - subscriber.available()
        assert reader.statistics().messages_dropped == missed.count


async def test_a_peer_that_takes_little_is_told_of_before_it_is_removed(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher = await world.add(link_stall_seconds=60)
        status = publisher.subscribe_status()
        async with kit.raw(publisher, world.ports[publisher], subscriptions=("/t",)) as raw:
            assert await publisher.await_subscribed("/t", timeout=limit())
            (clock,) = own_clocks(kit, [publisher])
            nursery.start_soon(publish_numbers, publisher, "/t", range(10_000), 16 * KIB)
            link = publisher.loop.peerings[raw.local].connection.link
            await kit.until(lambda: link.is_writing and not link.has_room)
            await clock.advance(12, raw.local)
            (event,) = of_flow(status.poll())
            assert event.status is StatusCode.PEER_SLOW
            assert event.endpoint == raw.local
            assert "the network or the peer is slow" in event.reason
            assert raw.local in publisher.loop.peerings
            nursery.cancel_scope.cancel()
