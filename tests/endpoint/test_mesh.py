"""The real engine in any shape: endpoints in one process, real sockets on loopback."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
import trio

from endpoint import Endpoint, Outcome, StatusCode, Subscriber
from endpoint.pubsub.publishing import BATCH_COUNT
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed, LocalProtocolError
from wire.limits import GROUP_SIZE

LINE = [(0, 1), (1, 2), (2, 3)]
SHAPES = {
    "line": LINE,
    "star": [(0, other) for other in range(1, 6)],
    "ring": [(number, (number + 1) % 6) for number in range(6)],
    "triangle": [(0, 1), (1, 2), (2, 0)],
    "full mesh of 8": [(left, right) for right in range(8) for left in range(right)],
}


def size_of(links: list[tuple[int, int]]) -> int:
    return 1 + max(max(pair) for pair in links)


def random_links(count: int, extra: int, seed: int) -> list[tuple[int, int]]:
    """Give a random tree, and some links more."""
    chance = random.Random(seed)
    links = {(chance.randrange(number), number) for number in range(1, count)}
    while len(links) < count - 1 + extra:
        left, right = sorted(chance.sample(range(count), 2))
        links.add((left, right))
    return sorted(links)


def carried(endpoints: list[Endpoint]) -> int:
    """Count the messages that all links have carried."""
    return sum(peer.messages_received for endpoint in endpoints for peer in endpoint.peers())


# Shapes.


@pytest.mark.parametrize("links", SHAPES.values(), ids=SHAPES)
async def test_every_subscriber_gets_every_message_once_and_in_order(kit, links) -> None:
    async with kit.world() as world:
        endpoints = await world.grow(size_of(links), links)
        subscribers = [endpoint.subscribe("/t") for endpoint in endpoints]
        await world.known()
        for number in range(20):
            for place, endpoint in enumerate(endpoints):
                await endpoint.publish("/t", (place, number))
        count = len(endpoints)
        for place, subscriber in enumerate(subscribers):
            got = [data for _, data in await kit.gather(subscriber, 20 * (count - 1))]
            for sender in range(count):
                expected = [] if sender == place else [(sender, number) for number in range(20)]
                assert [data for data in got if data[0] == sender] == expected
        # One more round, seen by all, proves that nothing came twice before it.
        await endpoints[0].publish("/t", "last")
        for subscriber in subscribers[1:]:
            assert await subscriber.get() == ("/t", "last")
        # A tree of n nodes has n - 1 links: so many crossings for each message, and no more.
        assert carried(endpoints) == (20 * count + 1) * (count - 1)
        assert sum(endpoint.statistics().messages_duplicate for endpoint in endpoints) == 0


@pytest.mark.parametrize("seed", [1, 2])
async def test_fifty_endpoints_in_a_random_graph(kit, seed: int) -> None:
    links = random_links(50, 30, seed)
    async with kit.world() as world:
        endpoints = await world.grow(50, links)
        wanting = endpoints[::3]
        subscribers = {endpoint: endpoint.subscribe("/t") for endpoint in wanting}
        await world.known()
        for place, endpoint in enumerate(endpoints):
            found = kit.distances(place, links)
            reachable = endpoint.loop.core.topology.reachable()
            assert set(reachable) == {other.node_id() for other in endpoints} - {endpoint.node_id()}
            tree = endpoint.loop.core.topology.tree(endpoint.node_id())
            for number, other in enumerate(endpoints):
                depth, step = 0, other.node_id()
                while step in tree.parents:
                    depth, step = depth + 1, tree.parents[step]
                assert depth == found[number]
        for place, endpoint in enumerate(endpoints):
            for number in range(3):
                await endpoint.publish("/t", (place, number))
        for endpoint, subscriber in subscribers.items():
            got = Counter(data for _, data in await kit.gather(subscriber, 3 * 49))
            me = endpoints.index(endpoint)
            assert got == Counter(
                (place, number) for place in range(50) if place != me for number in range(3)
            )
        assert all(endpoint.statistics().messages_duplicate == 0 for endpoint in endpoints)


async def test_ttl_two_on_a_line_of_four_reaches_nodes_two_and_three(kit) -> None:
    async with kit.world() as world:
        first = await world.add(ttl=2)
        second, third, fourth = [await world.add() for _ in range(3)]
        for left, right in ((first, second), (second, third), (third, fourth)):
            await world.peer(left, right)
        subscribers = [endpoint.subscribe("/t") for endpoint in (second, third, fourth)]
        await world.known()
        await first.publish("/t", 1)
        assert await subscribers[0].get() == ("/t", 1)
        assert await subscribers[1].get() == ("/t", 1)
        await second.publish("/t", 2)  # takes the same links later, with hops to spare
        assert await subscribers[2].get() == ("/t", 2)


async def test_unicast_reaches_one_endpoint_across_hops_if_it_has_subscribed(kit) -> None:
    async with kit.world() as world:
        first, second, third, fourth = endpoints = await world.grow(4, LINE)
        subscribers = [endpoint.subscribe("/t") for endpoint in endpoints]
        await world.known()
        await first.publish("/t", "for the last", to=fourth.node_id())
        await first.publish("/other", "not wanted", to=fourth.node_id())
        await first.publish("/t", "for all")
        assert await subscribers[3].get() == ("/t", "for the last")
        for subscriber in subscribers[1:]:
            assert await subscriber.get() == ("/t", "for all")
        assert subscribers[0].available() == 0
        assert third.peers()[0].messages_received + third.peers()[1].messages_received == 3
        assert second.statistics().messages_waiting == 0


async def test_messages_do_not_return_to_their_own_endpoint(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        own, other = left.subscribe(""), right.subscribe("")
        await world.known()
        await left.publish("/t", 1)
        assert await other.get() == ("/t", 1)
        assert own.poll() == []


def wants(here: Endpoint, there: Endpoint, topic: str) -> bool:
    """Tell whether one endpoint can reach another, and has heard that it wants a topic."""
    core, node = here.loop.core, there.node_id()
    return core.reach.includes(node) and topic in core.topology.announcements[node].subscriptions


async def test_forward_and_leaf_change_who_carries_what(kit) -> None:
    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        leaf = await world.add(forwarding=False)
        relay = await world.add()
        await world.peer(leaf, left)
        await world.peer(leaf, right)
        ears = {endpoint: endpoint.subscribe("/t") for endpoint in (left, right, leaf)}
        await kit.until(lambda: leaf.loop.core.reach.includes(right.node_id()))
        await kit.until(lambda: wants(left, leaf, "/t"))
        outcome = await left.await_peer(right.node_id(), timeout=0)
        assert not outcome, "nobody routes through a leaf"
        assert str(right.node_id()) in str(outcome)
        await left.publish("/t", "to the leaf only")
        assert await ears[leaf].get() == ("/t", "to the leaf only")
        # With a relay beside the leaf there is a way.
        await world.peer(left, relay)
        await world.peer(relay, right)
        await kit.until(lambda: wants(left, right, "/t"))
        await left.publish("/t", "to both")
        assert await ears[right].get() == ("/t", "to both")
        assert await ears[leaf].get() == ("/t", "to both")
        relay.forward("/relay")
        await kit.until(lambda: wants(left, relay, "/relay"))
        await left.publish("/relay/x", "seen by nobody")
        await left.publish("/t", "end")
        assert await ears[right].get() == ("/t", "end")
        carried_by_relay = {info.node_id: info.messages_received for info in relay.peers()}
        assert carried_by_relay[left.node_id()] == 3


# Topics.


async def test_prefixes_topics_and_readers(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/a", "/a/b", "/c") as subscriber:
            await world.known()
            publisher = left.publisher("/c")
            await left.publish_batch([("/a/b/c", 1), ("/b", 2), ("/ab", 3)])
            await publisher.publish(b"4")
            await publisher.publish_batch([b"5", 6.5])
            publisher.publish_nowait("7")
            left.publish_nowait("/a", (8,))
            await kit.until(lambda: subscriber.available() == 7)
            assert subscriber.poll() == [
                ("/a/b/c", 1),
                ("/ab", 3),
                ("/c", b"4"),
                ("/c", b"5"),
                ("/c", 6.5),
                ("/c", "7"),
                ("/a", (8,)),
            ]
            with pytest.raises(TimeoutError, match="no message within"):
                await subscriber.get(timeout=0)
            subscriber.add_topic("/new")
            subscriber.remove_topic("/c")
            await world.known()
            await left.publish_batch([("/c", 9), ("/new/s", 10)])
            await left.publish("/new", 11)
            assert [message async for message in take(subscriber, 2)] == [
                ("/new/s", 10),
                ("/new", 11),
            ]
        assert [message async for message in subscriber] == []
        with pytest.raises(EndpointClosed):
            await subscriber.get()


async def test_batches_of_any_mixture_arrive_in_order_and_are_read_as_batches(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/a") as subscriber:
            await world.known()
            values = [bytes([n]) * n * 40 if n % 5 else n for n in range(200)] * 10
            pairs = [("/a" if n % 7 < 4 else "/a/b", value) for n, value in enumerate(values)]

            async def publish() -> None:
                await left.publisher("/a").publish_batch(iter(values))
                await left.publish_batch(iter(pairs))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish)
                read = []
                while len(read) < 2 * len(values):
                    batch = await subscriber.get_batch()
                    assert batch
                    read += batch
            assert read == [*(("/a", value) for value in values), *pairs]
            with pytest.raises(TimeoutError, match="no message within"):
                await subscriber.get_batch(timeout=0)


async def take(subscriber: Subscriber, count: int):
    async for message in subscriber:
        yield message
        count -= 1
        if not count:
            return


async def test_subscriptions_shrink_and_then_nothing_crosses_the_link(kit) -> None:
    async with kit.world() as world:
        first, second, third = await world.grow(3, [(0, 1), (1, 2)])
        wide, narrow = third.subscribe("/a"), third.subscribe("/a/b")
        await world.known()
        wide.close()
        await world.known()
        await first.publish("/a/x", "wanted no more")
        await first.publish("/a/b", "wanted")
        assert await narrow.get() == ("/a/b", "wanted")
        narrow.close()
        await world.known()
        await first.publish("/a/b", "wanted no more")
        assert carried([first, second, third]) == 2
        assert all(
            not endpoint.loop.core.topology.announcements[endpoint.node_id()].subscriptions
            for endpoint in (first, second, third)
        )


async def test_a_closed_subscriber_takes_no_topics_and_harms_nobody(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        closed, living = right.subscribe("/a"), right.subscribe("/t")
        closed.close()
        with pytest.raises(LocalProtocolError, match="subscribe anew"):
            closed.add_topic("/t")
        closed.remove_topic("/a")
        closed.close()
        await world.known()
        await left.publish("/t", 1)
        assert await living.get() == ("/t", 1)


async def test_two_tasks_may_read_one_subscriber(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        subscriber, got = right.subscribe("/t"), []
        await world.known()

        async def read() -> None:
            got.append(await subscriber.get())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await left.publish_batch([("/t", 1), ("/t", 2), ("/t", 3)])
        assert sorted(data for _, data in got) == [1, 2, 3]


# Right after peer().


@pytest.mark.parametrize("dialler_is_smaller", [True, False])
async def test_a_publish_right_after_peer_arrives_both_ways_and_beyond(
    kit, dialler_is_smaller: bool
) -> None:
    ids = (kit.small_id, kit.great_id)
    dialler_id, listener_id = ids if dialler_is_smaller else reversed(ids)
    async with kit.world() as world:
        beyond = await world.add()
        listener = await world.add(endpoint_id=listener_id)
        dialler = await world.add(endpoint_id=dialler_id)
        ears = {each: each.subscribe("/t") for each in (dialler, listener, beyond)}
        await world.peer(listener, beyond)
        assert await dialler.peer(kit.host, world.ports[listener], timeout=limit())
        dialler.publish_nowait("/t", "there")
        listener.publish_nowait("/t", "and back")
        assert await ears[listener].get() == ("/t", "there")
        both = [await ears[beyond].get(), await ears[beyond].get()]
        assert sorted(both) == [("/t", "and back"), ("/t", "there")]
        assert await ears[dialler].get() == ("/t", "and back")


async def test_a_publish_right_after_the_event_of_a_new_peer_arrives(kit) -> None:
    async with kit.world() as world:
        listener, dialler = await world.add(), await world.add()
        subscriber, status = dialler.subscribe("/t"), listener.subscribe_status()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.peer, dialler, listener)
            await kit.events_until(status, StatusCode.PEER_ADDED)
            listener.publish_nowait("/t", 1)
        assert await subscriber.get() == ("/t", 1)


# Barriers.


async def test_await_peer_is_true_over_any_number_of_hops(kit) -> None:
    async with kit.world() as world:
        endpoints = await world.grow(4, LINE)
        assert await endpoints[0].await_peer(endpoints[3].node_id(), timeout=limit())
        assert await endpoints[3].await_peer(endpoints[0].node_id(), timeout=limit())
        subscriber = endpoints[3].subscribe("/t")
        await world.known()
        await endpoints[0].publish("/t", 1)
        assert await subscriber.get() == ("/t", 1)


async def test_await_peer_waits_for_one_who_comes_later(kit) -> None:
    async with kit.world() as world:
        first, second, third = await world.grow(3, [(0, 1)])
        outcomes = []

        async def wait() -> None:
            outcomes.append(await first.await_peer(third.node_id(), timeout=limit()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await world.peer(second, third)
        assert outcomes == [True]
        assert str(third.node_id()) in str(outcomes[0])


async def test_await_peer_is_false_with_its_reason(kit) -> None:
    async with kit.world() as world:
        first = await world.add()
        outcome = await first.await_peer(kit.great_id, timeout=0)
        assert not outcome
        assert "call peer() first" in str(outcome)
        assert outcome == False  # noqa: E712 - it equals the truth that it stands for
        second = await world.add()
        await world.peer(first, second)
        outcome = await first.await_peer(kit.great_id, timeout=0.01)
        assert str(second.node_id()) in str(outcome)


async def test_await_peer_with_a_callback_returns_at_once_and_tells_later(kit) -> None:
    async with kit.world() as world:
        first, second = await world.add(), await world.add()
        told: list[Outcome] = []
        await first.await_peer(second.node_id(), told.append, timeout=None)
        await first.await_peer(kit.great_id, told.append, timeout=0)
        await kit.until(lambda: told)
        assert not told[0]
        await world.peer(first, second)
        await kit.until(lambda: len(told) == 2)
        assert told[1]


async def test_a_callback_is_told_of_the_end_even_if_it_had_no_time_to_wait(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        told: list[Outcome] = []
        await endpoint.await_peer(kit.great_id, told.append)
        await endpoint.shutdown()
        await kit.until(lambda: told)
        assert not told[0]
        assert "shut down" in str(told[0])


async def test_a_batch_that_breaks_off_harms_nothing_that_is_published_later(kit) -> None:
    def batch(topic: str) -> Iterator[tuple[str, bytes]]:
        for _ in range(BATCH_COUNT + 1_000):
            yield topic, b"x"
        raise KeyError("what the batch is read from broke")

    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        heard = right.subscribe("/")
        await world.peer(left, right)
        for _ in range(3):
            with pytest.raises(KeyError):
                await left.publish_batch(batch("/a"))
        await left.publish("/b", 1)
        assert await kit.gather(heard, 3 * BATCH_COUNT) == [("/a", b"x")] * 3 * BATCH_COUNT
        assert await heard.get() == ("/b", 1)
        assert left.peers()


async def test_what_get_left_comes_first_in_the_next_batch(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/") as subscriber:
            await world.known()
            await left.publish_batch([("/t", number.to_bytes(2)) for number in range(300)])
            assert await subscriber.get() == ("/t", bytes(2))
            await left.publish("/t", "last")
            await kit.until(lambda: subscriber.available() == 300)
            batch = await subscriber.get_batch()
            assert batch == [
                *(("/t", number.to_bytes(2)) for number in range(1, 300)),
                ("/t", "last"),
            ]
            assert subscriber.available() == 0


async def test_frames_stay_within_their_size_whatever_the_lengths_in_a_batch(kit) -> None:
    batch = [b"", *[bytes(1_000)] * 99]
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/") as subscriber:
            await world.known()
            (peering,) = left.loop.peerings.values()
            publisher = left.publisher("/t")
            for _ in range(5):
                await publisher.publish_batch(batch)
            left.loop.publication.cut()
            frames = list(peering.connection.link.data.frames)
            assert frames
            assert all(frame.size <= GROUP_SIZE for frame in frames)
            assert await kit.gather(subscriber, 500) == [("/t", each) for each in batch] * 5


async def test_tasks_that_read_one_subscriber_leave_each_other_the_order(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/") as subscriber:
            await world.known()
            for _ in range(20):  # Which of the two runs first is left to chance.
                single: list[object] = []
                batch: list[object] = []

                async def read_one(found: list[object] = single) -> None:
                    found.append((await subscriber.get())[1])

                async def read_many(found: list[object] = batch) -> None:
                    found += [number for _, number in await subscriber.get_batch()]

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read_one)
                    nursery.start_soon(read_many)
                    await trio.testing.wait_all_tasks_blocked()
                    pairs = [("/a", number) for number in range(3)]
                    await left.publish_batch([*pairs, ("/b", 3), ("/b", 4)])
                    await kit.until(lambda one=single, many=batch: one or many)
                    await left.publish("/c", 5)
                batch += [number for _, number in subscriber.poll()]
                while len(single) + len(batch) < 6:
                    batch.append((await subscriber.get())[1])
                assert batch == sorted(batch)
                assert sorted(single + batch) == list(range(6))


async def test_a_list_may_change_while_its_messages_wait_for_room(kit) -> None:
    count, size = BATCH_COUNT - 1, 10_000
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/", queue_size=10) as slow:
            await world.known()
            batch = [number.to_bytes(size) for number in range(count)]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(left.publisher("/t").publish_batch, batch)
                await kit.until(lambda: kit.is_held(left))
                batch[:] = [b"changed"] * 3
                read = [await slow.get() for _ in range(count)]
            assert read == [("/t", number.to_bytes(size)) for number in range(count)]


@pytest.mark.parametrize("is_batch", [True, False])
async def test_who_changes_the_topic_with_each_message_waits_for_room_too(kit, is_batch) -> None:
    count, published = 20_000, 0
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/", queue_size=10) as slow:
            await world.known()
            async with trio.open_nursery() as nursery:

                async def publish() -> None:
                    nonlocal published
                    for published in range(count):
                        topic, data = f"/{published % 2}", published.to_bytes(1_000)
                        if is_batch:
                            await left.publish_batch([(topic, data)])
                        else:
                            await left.publish(topic, data)

                nursery.start_soon(publish)
                await kit.until(lambda: kit.is_held(left, "/0") and kit.is_held(left, "/1"))
                assert published < count - 1
                for number in range(count):
                    assert await slow.get() == (f"/{number % 2}", number.to_bytes(1_000))


async def test_what_tasks_publish_at_once_stays_on_its_topic(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        with right.subscribe("/") as subscriber:
            await world.known()
            topics = {f"/{name}": name.encode() * 50 for name in "abc"}
            async with trio.open_nursery() as nursery:
                for topic, data in topics.items():
                    for _ in range(5):
                        batch = [data] * 1_500
                        nursery.start_soon(left.publisher(topic).publish_batch, batch)
                read: Counter[tuple[str, bytes]] = Counter()
                while read.total() < 3 * 5 * 1_500:
                    read.update(await subscriber.get_batch())
            assert read == dict.fromkeys(topics.items(), 5 * 1500)
