"""No publish that is taken ends a peering, whatever frames the next endpoints take."""

from __future__ import annotations

import pytest

from endpoint import StatusCode
from wire.errors import EncodeError
from wire.limits import (
    FRAME_SIZE_MAX,
    FRAME_SIZE_MIN,
    KIB,
    PAYLOAD_SIZE_MAX,
    TOPIC_SIZE_MAX,
)

LONG = "/" + "t" * (TOPIC_SIZE_MAX - 1)
"""A topic with the longest name that there may be."""

ROOM = 2**30
"""Bytes that may wait for a reader which begins when all is published."""

SIZES = [1, 100_000, PAYLOAD_SIZE_MAX, 130_814, 130_815, PAYLOAD_SIZE_MAX, 0]
"""With a group of messages before a large one, and with one that just fits beside others."""


@pytest.mark.parametrize("length", [2, 300, TOPIC_SIZE_MAX])
async def test_the_largest_payload_after_any_others_on_the_longest_topic_arrives(
    kit, length: int
) -> None:
    topic = LONG[:length]
    async with kit.world() as world:
        left, middle, right = await world.grow(3, [(0, 1), (1, 2)])
        subscriber = right.subscribe("", queue_bytes=ROOM)
        await world.known()
        statuses = [each.subscribe_status() for each in world.endpoints]
        for size in SIZES:
            left.loop.publication.cut()
            await left.publish(topic, b"before")
            await left.publish(topic, bytes(size))
        with pytest.raises(EncodeError, match="publish it in parts"):
            await left.publish(topic, bytes(PAYLOAD_SIZE_MAX + 1))
        await left.publish("/last", b"")
        for size in SIZES:
            assert await subscriber.get() == (topic, b"before")
            found, data = await subscriber.get()
            assert (found, len(data)) == (topic, size)
        assert await subscriber.get() == ("/last", b"")
        assert [status.poll() for status in statuses] == [[], [], []]
        assert len(middle.peers()) == 2


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("size_max", [FRAME_SIZE_MIN, FRAME_SIZE_MAX // 4])
async def test_what_does_not_fit_into_the_frames_of_one_end_is_told_and_all_else_arrives(
    kit, hops: int, size_max: int
) -> None:
    async with kit.world() as world:
        publisher, *relays = await world.grow(hops, [(0, 1)] if hops > 1 else [])
        last = [publisher, *relays][-1]
        small, large = await world.add(frame_size_max=size_max), await world.add()
        await world.peer(small, last)
        await world.peer(large, last)
        subscribers = [each.subscribe("", queue_bytes=ROOM) for each in (small, large)]
        await world.known()
        statuses = {each: each.subscribe_status() for each in world.endpoints}
        # Groups of small ones are as large as the frames of others.
        await publisher.publish_batch([("/small", bytes(400))] * 1_000)
        for number in range(100):
            await publisher.publish(f"/small/{number}", bytes(3 * KIB))
        await publisher.publish(LONG, bytes(FRAME_SIZE_MIN // 3))
        await publisher.publish("/large", bytes(size_max))
        await publisher.publish("/large/too", bytes(PAYLOAD_SIZE_MAX))
        await publisher.publish(LONG, bytes(PAYLOAD_SIZE_MAX))
        await publisher.publish("/last", b"")
        fitting = [("/small", 400)] * 1_000
        fitting += [(f"/small/{number}", 3 * KIB) for number in range(100)]
        fitting += [(LONG, FRAME_SIZE_MIN // 3)]
        others = [("/large", size_max), ("/large/too", PAYLOAD_SIZE_MAX), (LONG, PAYLOAD_SIZE_MAX)]
        for subscriber, wanted in zip(subscribers, ([], others), strict=True):
            for topic, size in [*fitting, *wanted, ("/last", 0)]:
                found, data = await subscriber.get()
                assert (found[:40], len(found), len(data)) == (topic[:40], len(topic), size)
        # The last endpoint that had them says so.
        told = []
        while sum(map(count_of, told)) < len(others):
            told.append(await statuses[last].get())
        assert {event.status for event in told} == {StatusCode.MESSAGE_TOO_LARGE}
        assert {event.endpoint for event in told} == {small.node_id()}
        reasons = " ".join(event.reason for event in told)
        for words in (f"{size_max} bytes that it takes", "'/large'", "'/large/too'", "/ttt"):
            assert words in reasons
        assert not [e for each in world.endpoints for e in statuses[each].poll()]
        assert {each.node_id() for each in (small, large)} <= {
            info.node_id for info in last.peers()
        }


async def test_a_message_alone_that_does_not_fit_into_a_frame_is_told_too(kit) -> None:
    async with kit.world() as world:
        publisher, small = await world.add(), await world.add(frame_size_max=FRAME_SIZE_MIN)
        await world.peer(publisher, small)
        subscriber, status = small.subscribe(""), publisher.subscribe_status()
        await world.known()
        connection = publisher.loop.peerings[small.node_id()].connection
        await kit.until(connection.may_send_single)
        await publisher.publish("/large", bytes(FRAME_SIZE_MIN))
        await publisher.publish("/last", b"")
        assert await subscriber.get() == ("/last", b"")
        *_, event = await kit.events_until(status, StatusCode.MESSAGE_TOO_LARGE)
        assert "'/large'" in event.reason
        assert publisher.peers()


def count_of(event) -> int:
    """Give how many messages an event tells of."""
    return int(event.reason.rpartition("(")[2].split()[0])
