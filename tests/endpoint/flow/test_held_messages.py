"""What waits for a full place: for how long, what becomes of it then, and what it waits for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import trio

from endpoint import Missed, StatusCode, Subscriber
from endpoint.pubsub.messages import MISSED_TOPIC
from endpoint.pubsub.queueing import Queueing
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from tests.endpoint.flow.flows import (
    has_holder,
    header_of,
    is_held,
    own_clocks,
    publish_numbers,
)
from wire.errors import EncodeError, ErrorCode, OutboxFull
from wire.limits import KIB, PAYLOAD_SIZE_MAX
from wire.messages import Hold

QUEUE_SIZE = 64

SECRET = ClusterSecret.generate()

ROLES = {
    "names": {"core-*": "core", "branch-*": "branch", "watcher-*": "watcher"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""]},
        "branch": {"relay": True, "subscribe": [""], "hold": False},
        "watcher": {"subscribe": [""], "hold": False},
    },
}


def read_all(subscriber: Subscriber) -> tuple[list[int], list[int]]:
    """Give the numbers that wait for a reader, and how many are missed, gap by gap."""
    batch = subscriber.poll()
    missed = [data.count for topic, data in batch if topic == MISSED_TOPIC]
    assert all(isinstance(data, Missed) == (topic == MISSED_TOPIC) for topic, data in batch)
    return [int.from_bytes(data[:4]) for topic, data in batch if topic != MISSED_TOPIC], missed


@pytest.mark.parametrize("hops", [1, 2])
async def test_what_may_not_wait_goes_and_a_full_queue_drops_its_oldest_for_it(
    kit, hops: int
) -> None:
    async with kit.world() as world:
        publisher = await world.add(hold_seconds_max=0)
        others = await world.grow(hops, [(0, 1)] if hops > 1 else [])
        await world.peer(publisher, others[0])
        reader = others[-1]
        subscriber = reader.subscribe("/t", queue_size=QUEUE_SIZE)
        await world.known()
        count = 0
        while not has_holder(publisher, "/t"):
            await publish_numbers(publisher, "/t", [count])
            await trio.lowlevel.checkpoint()
            count += 1
        came = lambda: sum(peer.messages_received for peer in reader.peers())  # noqa: E731 - asked again and again
        await kit.until(lambda: came() == count)
        fullest = subscriber.available()
        assert fullest >= QUEUE_SIZE
        await publish_numbers(publisher, "/t", range(count, count + 1_000))
        await kit.until(lambda: came() == count + 1_000)
        assert subscriber.available() <= fullest
        got, missed = read_all(subscriber)
        assert got == list(range(count + 1_000 - len(got), count + 1_000))
        assert missed == [count + 1_000 - len(got)]
        assert subscriber.dropped == missed[0] == reader.statistics().messages_dropped


@pytest.mark.parametrize("count", [0, 1, 2], ids=["publish", "batch of one", "batch of two"])
async def test_a_message_waits_for_as_long_as_is_set_and_is_marked_then(kit, count: int) -> None:
    async with kit.world() as world:
        publisher = await world.add(hold_seconds_max=0.05)
        async with kit.raw(publisher, world.ports[publisher], subscriptions=("/t",)) as raw:
            assert await publisher.await_subscribed("/t", timeout=limit())
            header = header_of(publisher, "/t")
            await publisher.publish("/t", b"free")
            await raw.send(Hold(publisher.node_id(), raw.local, 1, "it", (header,), is_all=False))
            await kit.until(lambda: is_held(publisher, "/t"))
            with pytest.raises(OutboxFull, match=r"'it' at .* has no room for messages on /t"):
                publisher.publish_nowait("/t", b"not sent")
            began = trio.current_time()
            if count:
                await publisher.publish_batch([("/t", b"let out")] * count)
            else:
                await publisher.publish("/t", b"let out")
            assert trio.current_time() - began >= 0.05
            await raw.send(Hold(publisher.node_id(), raw.local, 1, "it", (), is_all=False))
            await kit.until(lambda: not is_held(publisher, "/t"))
            await publisher.publish("/t", b"free again")
            got = {}
            while len(got) < 3:
                frame = await raw.receive()
                if kit.is_node(frame):
                    got.update(dict.fromkeys(frame.payloads(), frame.is_forced))
            assert got == {b"free": False, b"let out": True, b"free again": False}


async def test_what_may_not_wait_is_heard_at_its_own_endpoint_and_checked_too(kit) -> None:
    async with kit.world() as world:
        publisher = await world.add(hold_seconds_max=0)
        async with kit.raw(publisher, world.ports[publisher], subscriptions=("/t",)) as raw:
            assert await publisher.await_subscribed("/t", timeout=limit())
            here = publisher.subscribe("/t", local=True)
            header = header_of(publisher, "/t")
            await raw.send(Hold(publisher.node_id(), raw.local, 1, "it", (header,), is_all=False))
            await kit.until(lambda: has_holder(publisher, "/t"))
            await publisher.publish("/t", b"one")
            await publisher.publish_batch([("/t", b"two"), ("/other", b"three")])
            assert [await here.get() for _ in range(2)] == [("/t", b"one"), ("/t", b"two")]
            for publish in (
                partial(publisher.publish, "/t", bytes(PAYLOAD_SIZE_MAX + 1)),
                partial(publisher.publish_batch, [("/t", bytes(PAYLOAD_SIZE_MAX + 1))]),
            ):
                with pytest.raises(EncodeError, match="publish it in parts"):
                    await publish()


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


async def test_a_role_without_hold_makes_no_publisher_wait(kit) -> None:
    async with kit.world() as world:
        publisher = await world.add(credentials=called("core-1"), roles=ROLES)
        reader = await world.add(credentials=called("watcher-1"), roles=ROLES)
        await world.peer(reader, publisher)
        queueing = Queueing(queue_size=QUEUE_SIZE)
        clocks = own_clocks(kit, [publisher, reader])  # So from its beginning, with no tick.
        subscriber = reader.subscribe("/t", queue_size=queueing.queue_size)
        await world.known()
        size, count = 4 * KIB, 10_000
        with trio.fail_after(limit()):
            await publish_numbers(publisher, "/t", range(count), size)
            await kit.until(lambda: reader.peers()[0].messages_received == count)
        for clock in clocks:
            await clock.advance(2)
        assert not is_held(publisher, "/t")
        # Its queue holds what it may, and no more than the reserve besides.
        assert subscriber.available() * size <= queueing.queue_bytes + queueing.reserve
        got, missed = read_all(subscriber)
        assert got == list(range(count - len(got), count))
        assert missed == [count - len(got)]
        assert missed[0] > 0


async def test_a_word_of_a_role_without_hold_is_not_believed(kit) -> None:
    async with kit.world() as world:
        publisher = await world.add(credentials=called("core-1"), roles=ROLES)
        # It knows nothing of its role, and asks its publishers to wait.
        reader = await world.add(credentials=called("watcher-1"), forwarding=False)
        await world.peer(reader, publisher)
        reader.subscribe("/t", queue_size=QUEUE_SIZE)
        await world.known()
        await publish_numbers(publisher, "/t", range(2_000))
        await kit.until(lambda: reader.peers()[0].messages_received == 2_000)
        (clock,) = own_clocks(kit, [reader])
        await clock.advance(2)
        assert not is_held(publisher, "/t")


async def test_one_without_hold_that_grants_nothing_is_stalled(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher = await world.add(credentials=called("core-1"), roles=ROLES)
        # It knows nothing of its role, and withholds the credit of its link.
        reader = await world.add(credentials=called("watcher-1"), forwarding=False)
        await world.peer(reader, publisher)
        reader.subscribe("/t", queue_size=QUEUE_SIZE)
        await world.known()
        status = publisher.subscribe_status()
        clocks = own_clocks(kit, [reader, publisher])
        nursery.start_soon(publish_numbers, publisher, "/t", range(10_000), 4 * KIB)
        link = publisher.loop.peerings[reader.node_id()].connection.link
        await kit.until(lambda: link.sent >= link.credit and not link.has_room)
        # These seconds are short: its system may still take something in the first of them.
        for _ in range(20):
            for clock in clocks:
                await clock.advance(1)
        assert reader.node_id() not in publisher.loop.peerings
        *_, event = await kit.events_until(status, StatusCode.PEER_REMOVED)
        assert event.endpoint == reader.node_id()
        assert event.code is ErrorCode.OUTBOX_OVERFLOW
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("relay", "reader"), [("branch-1", "core-2"), ("core-2", "watcher-1")])
async def test_a_link_behind_a_relay_holds_nothing_if_either_end_may_not(
    kit, relay: str, reader: str
) -> None:
    async with kit.world() as world:
        near = await world.add(credentials=called(relay), roles=ROLES)
        far = await world.add(credentials=called(reader), roles=ROLES)
        await world.peer(far, near)
        link = near.loop.peerings[far.node_id()].connection.link
        assert not link.data.may_hold
        same = await world.add(credentials=called("core-3"), roles=ROLES)
        await world.peer(same, near)
        may_hold = near.loop.peerings[same.node_id()].connection.link.data.may_hold
        assert may_hold == relay.startswith("core")
