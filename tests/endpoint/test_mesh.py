"""The real engine: endpoints in one process, sockets on loopback, any shape, and how it heals."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest
import trio

from endpoint import Endpoint, Outcome, StatusCode, Subscriber
from handshake.credentials import Credentials, PeerNotTrusted
from handshake.secret import ClusterSecret
from wire.errors import (
    AddressInUse,
    EncodeError,
    EndpointClosed,
    ErrorCode,
    InsecureAddress,
    InvalidTopic,
    LocalProtocolError,
    PeerIncompatible,
    PeerUnavailable,
)
from wire.framing import encode_preamble
from wire.messages import Preamble

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


def distances(root: int, links: list[tuple[int, int]]) -> dict[int, int]:
    found, frontier = {root: 0}, deque([root])
    while frontier:
        here = frontier.popleft()
        for pair in links:
            if here in pair:
                there = pair[1] if pair[0] == here else pair[0]
                if there not in found:
                    found[there] = found[here] + 1
                    frontier.append(there)
    return found


async def gather(subscriber: Subscriber, count: int) -> list:
    return [await subscriber.get() for _ in range(count)]


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
            got = [data for _, data in await gather(subscriber, 20 * (count - 1))]
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
            found = distances(place, links)
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
            got = Counter(data for _, data in await gather(subscriber, 3 * 49))
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
    return core.is_reachable(node) and topic in core.topology.announcements[node].subscriptions


async def test_forward_and_leaf_change_who_carries_what(kit) -> None:
    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        leaf = await world.add(forwarding=False)
        relay = await world.add()
        await world.peer(leaf, left)
        await world.peer(leaf, right)
        ears = {endpoint: endpoint.subscribe("/t") for endpoint in (left, right, leaf)}
        await kit.until(lambda: leaf.loop.core.is_reachable(right.node_id()))
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
        with pytest.raises(trio.EndOfChannel):
            await subscriber.get()


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
        assert all(not endpoint.loop.core._subscribers for endpoint in (first, second, third))


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
        assert await dialler.peer(kit.host, world.ports[listener])
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


# Healing.


def kill(endpoint: Endpoint, other: Endpoint) -> None:
    """Break the connection between two endpoints, without a word."""
    endpoint.loop.peerings[other.node_id()].connection.transport.close()


async def test_routes_heal_after_a_link_dies(kit) -> None:
    async with kit.world() as world:
        endpoints = await world.grow(6, SHAPES["ring"])
        subscriber = endpoints[1].subscribe("/t")
        await world.known()
        await endpoints[0].publish("/t", "direct")
        assert await subscriber.get() == ("/t", "direct")
        # Nobody dials again while we look: the dialler of this link gives up.
        assert await endpoints[0].unpeer(kit.host, world.ports[endpoints[1]])
        await kit.until(lambda: endpoints[1].node_id() not in endpoints[0].loop.peerings)
        await world.known()
        await endpoints[0].publish("/t", "the long way round")
        assert await subscriber.get() == ("/t", "the long way round")
        for endpoint in endpoints:
            assert len(endpoint.loop.core.topology.reachable()) == 5


async def test_routes_heal_after_an_endpoint_dies(kit) -> None:
    async with kit.world() as world:
        endpoints = await world.grow(6, SHAPES["ring"])
        dead, living = endpoints[0], endpoints[1:]
        subscribers = [endpoint.subscribe("/t") for endpoint in living]
        await world.known()
        for peering in list(dead.loop.peerings.values()):
            peering.connection.transport.close()
        await dead.shutdown()
        del world.ports[dead]
        await kit.until(
            lambda: all(len(each.loop.core.topology.reachable()) == 4 for each in living)
        )
        await world.known()
        await living[0].publish("/t", "past the gap")
        for subscriber in subscribers[1:]:
            assert await subscriber.get() == ("/t", "past the gap")


@pytest.mark.parametrize("seed", range(3))
async def test_any_sequence_of_peerings_and_partings_leaves_the_right_routes(
    kit, seed: int
) -> None:
    chance = random.Random(seed)
    async with kit.world() as world:
        endpoints = [await world.add() for _ in range(8)]
        links: set[tuple[int, int]] = set()
        for _ in range(40):
            left, right = sorted(chance.sample(range(8), 2))
            pair = (endpoints[left], endpoints[right])
            if (left, right) in links:
                assert await pair[0].unpeer(kit.host, world.ports[pair[1]])
                links.discard((left, right))
            else:
                await world.peer(*pair)
                links.add((left, right))
        for place, endpoint in enumerate(endpoints):
            found = distances(place, sorted(links))
            expected = {endpoints[number].node_id() for number in found if number != place}
            topology = endpoint.loop.core.topology
            await kit.until(lambda t=topology, e=expected: set(t.reachable()) == e)


async def test_the_dialler_dials_again_when_the_connection_dies(kit) -> None:
    async with kit.world() as world:
        dialler, listener = await world.add(), await world.add()
        status = dialler.subscribe_status()
        subscriber = listener.subscribe("/t")
        await world.peer(dialler, listener)
        await kit.events_until(status, StatusCode.PEER_ADDED)
        kill(listener, dialler)
        events = await kit.events_until(status, StatusCode.PEER_ADDED)
        assert [event.status for event in events] == [
            StatusCode.PEER_LOST,
            StatusCode.ENDPOINT_UNREACHABLE,
            StatusCode.ENDPOINT_DISCOVERED,
            StatusCode.PEER_ADDED,
        ]
        await dialler.publish("/t", "again")
        assert await subscriber.get() == ("/t", "again")


async def test_the_dialler_finds_a_listener_that_comes_late_and_comes_back(kit) -> None:
    async with kit.world() as world:
        dialler = await world.add()
        status = dialler.subscribe_status()
        blocker = await trio.open_tcp_listeners(0, host=kit.host)
        port = blocker[0].socket.getsockname()[1]
        await blocker[0].aclose()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dialler.peer, kit.host, port)
            await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
            late = await world.add()
            await late.listen(kit.host, port)
        assert dialler.peers()[0].node_id == late.node_id()
        await late.shutdown()
        await kit.events_until(status, StatusCode.PEER_LOST)
        back = await world.add()
        await back.listen(kit.host, port)
        events = await kit.events_until(status, StatusCode.PEER_ADDED)
        assert events[-1].endpoint == back.node_id()


async def test_a_second_call_of_peer_waits_while_the_first_ones_peering_is_lost(kit) -> None:
    async with kit.world() as world:
        dialler, listener = await world.add(), await world.add()
        subscriber = listener.subscribe("/t")
        await world.peer(dialler, listener)
        await world.peer(dialler, listener)
        assert len(dialler.peers()) == 1
        status = dialler.subscribe_status()
        kill(dialler, listener)
        await kit.events_until(status, StatusCode.PEER_LOST)
        assert await dialler.peer(kit.host, world.ports[listener])
        dialler.publish_nowait("/t", "peered indeed")
        assert await subscriber.get() == ("/t", "peered indeed")


async def test_unpeer_ends_it_on_both_sides_and_nobody_dials_again(kit) -> None:
    async with kit.world() as world:
        dialler, listener = await world.add(), await world.add()
        here, there = dialler.subscribe_status(), listener.subscribe_status()
        subscriber = listener.subscribe("/t")
        await world.peer(dialler, listener)
        for number in range(1_000):
            await dialler.publish("/t", number)
        assert await dialler.unpeer(kit.host, world.ports[listener])
        assert [data for _, data in await gather(subscriber, 1_000)] == list(range(1_000))
        events = await kit.events_until(here, StatusCode.ENDPOINT_UNREACHABLE)
        assert [event.status for event in events[-2:]] == [
            StatusCode.PEER_REMOVED,
            StatusCode.ENDPOINT_UNREACHABLE,
        ]
        events = await kit.events_until(there, StatusCode.ENDPOINT_UNREACHABLE)
        assert events[-2].status is StatusCode.PEER_LOST
        assert events[-2].reason == "the peer ended it: unpeered"
        assert dialler.peers() == listener.peers() == []
        assert dialler._dialers == {}


async def test_unpeer_of_nobody_is_an_event_and_false(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        status = endpoint.subscribe_status()
        outcome = await endpoint.unpeer(kit.host, 9)
        assert not outcome
        assert "see peers()" in str(outcome)
        event = await status.get()
        assert (event.status, event.code) == (StatusCode.CANNOT_REMOVE_PEER, ErrorCode.PEER_INVALID)
        assert event.address == (kit.host, 9)
        assert event.is_error


async def test_an_inbound_peer_is_unpeered_by_the_address_that_peers_shows(kit) -> None:
    async with kit.world() as world:
        dialler, listener = await world.add(), await world.add()
        assert await dialler.peer(kit.host, world.ports[listener], retry=0)
        (info,) = listener.peers()
        assert not info.is_outbound
        assert await listener.unpeer(*info.address)
        await kit.until(lambda: not dialler.peers())


async def test_peer_right_after_unpeer_dials_anew(kit) -> None:
    async with kit.world() as world:
        endpoint, listener = await world.add(), await world.add()
        for _ in range(5):
            await world.peer(endpoint, listener)
            assert await endpoint.unpeer(kit.host, world.ports[listener])
        async with trio.open_nursery() as nursery:
            outcomes: list[Outcome] = []

            async def ask() -> None:
                outcomes.append(await endpoint.peer(kit.host, world.ports[listener]))

            nursery.start_soon(ask)
            await kit.until(lambda: endpoint._dialers)
            await endpoint.unpeer(kit.host, world.ports[listener])
            assert await endpoint.peer(kit.host, world.ports[listener])
        assert len(endpoint.peers()) == 1


async def test_crossing_dials_make_one_peering_and_both_succeed(kit) -> None:
    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        outcomes = []

        async def dial(here: Endpoint, there: Endpoint) -> None:
            outcomes.append(await here.peer(kit.host, world.ports[there]))

        async with trio.open_nursery() as nursery:
            for here, there in ((left, right), (right, left), (left, right)):
                nursery.start_soon(dial, here, there)
        assert outcomes == [True, True, True]
        await kit.until(lambda: len(left.loop._connections) == len(right.loop._connections) == 1)
        assert [info.node_id for info in left.peers()] == [right.node_id()]
        subscriber = right.subscribe("/t")
        await world.known()
        await left.publish("/t", 1)
        assert await subscriber.get() == ("/t", 1)


# Status.


async def test_status_events_come_in_order_with_their_data(kit) -> None:
    async with kit.world() as world:
        dialler, listener, beyond = [await world.add() for _ in range(3)]
        await world.peer(listener, beyond)
        here, there = dialler.subscribe_status(), listener.subscribe_status()
        await world.peer(dialler, listener)
        events = await kit.events_until(here, StatusCode.PEER_ADDED)
        assert [(event.status, event.endpoint) for event in events] == [
            (StatusCode.ENDPOINT_DISCOVERED, listener.node_id()),
            (StatusCode.ENDPOINT_DISCOVERED, beyond.node_id()),
            (StatusCode.PEER_ADDED, listener.node_id()),
        ]
        added = events[-1]
        assert added.address == (kit.host, world.ports[listener])
        assert not added.is_error
        assert str(listener.node_id()) in str(added)
        added = (await kit.events_until(there, StatusCode.PEER_ADDED))[-1]
        assert added.endpoint == dialler.node_id()
        assert added.address == listener.peers()[0].address or added.address is not None
        await dialler.shutdown()
        events = await kit.events_until(there, StatusCode.ENDPOINT_UNREACHABLE)
        assert [event.status for event in events] == [
            StatusCode.PEER_LOST,
            StatusCode.ENDPOINT_UNREACHABLE,
        ]
        assert events[0].code is ErrorCode.SHUTTING_DOWN
        rest = [event.status async for event in here]
        assert rest == [
            StatusCode.PEER_REMOVED,
            StatusCode.ENDPOINT_UNREACHABLE,
            StatusCode.ENDPOINT_UNREACHABLE,
        ]


async def test_a_status_subscriber_can_be_polled_waits_and_ends(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        with endpoint.subscribe_status() as status:
            with pytest.raises(TimeoutError, match="no status event within"):
                await status.get(timeout=0)
            await endpoint.unpeer(kit.host, 9)
            assert status.available() == 1
            assert len(status.poll()) == 1
        await endpoint.unpeer(kit.host, 9)
        assert status.poll() == []
        with pytest.raises(trio.EndOfChannel):
            await status.get()


# The end.


async def test_what_was_published_before_the_end_arrives_everywhere(kit) -> None:
    async with kit.world() as world:
        first, *_, last = await world.grow(4, LINE)
        subscriber = last.subscribe("/t", queue_size=100_000)
        await world.known()
        for number in range(20_000):
            await first.publish("/t", number)
        await first.shutdown()
        for number in range(20_000):
            assert await subscriber.get() == ("/t", number)
        await kit.until(lambda: not last.loop.core.is_reachable(first.node_id()))
        assert "no path" in str(await last.await_peer(first.node_id(), timeout=0))


async def test_shutdown_twice_at_once_loses_nothing(kit) -> None:
    async with kit.world() as world:
        first, second = await world.grow(2, [(0, 1)])
        subscriber = second.subscribe("/t", queue_size=100_000)
        await world.known()
        for number in range(20_000):
            await first.publish("/t", number)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.shutdown)
            nursery.start_soon(first.shutdown)
        assert len(await gather(subscriber, 20_000)) == 20_000


async def test_the_end_of_an_endpoint_ends_what_waits_for_it(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        subscriber, status = endpoint.subscribe("/t"), endpoint.subscribe_status()
        outcomes: list[object] = []

        async def wait_for_peer() -> None:
            outcomes.append(str(await endpoint.await_peer(kit.great_id)))

        async def read(source) -> None:
            outcomes.append([item async for item in source])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_for_peer)
            nursery.start_soon(read, subscriber)
            nursery.start_soon(read, status)
            await trio.testing.wait_all_tasks_blocked()
            await endpoint.shutdown()
        assert "the endpoint was shut down" in outcomes
        assert outcomes.count([]) == 2


async def test_cancelling_an_endpoint_still_ends_its_readers(kit) -> None:
    async with kit.world(), trio.open_nursery() as nursery:
        ended, scope, opened = trio.Event(), trio.CancelScope(), []

        async def live() -> None:
            with scope:
                async with Endpoint() as endpoint:
                    opened.append(endpoint.subscribe("/t"))
                    await trio.sleep_forever()

        async def read() -> None:
            await kit.until(lambda: opened)
            assert [message async for message in opened[0]] == []
            ended.set()

        nursery.start_soon(live)
        nursery.start_soon(read)
        await kit.until(lambda: opened)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await ended.wait()


async def test_silent_strangers_do_not_delay_the_end(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        async with kit.raw(endpoint, world.ports[endpoint], greets=False) as raw:
            await kit.until(lambda: len(endpoint.loop.greeter) == 1)
            with trio.fail_after(5):
                await endpoint.shutdown()
            message = await raw.receive_some(object)
            assert message is not None


async def test_an_error_in_the_block_comes_out_as_itself_and_everything_is_closed(kit) -> None:
    async with kit.world() as world:
        other = await world.add()

        async def fail() -> None:
            async with Endpoint() as endpoint:
                assert await endpoint.peer(kit.host, world.ports[other])
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await fail()
        await kit.until(lambda: not other.peers())


# Calls that cannot be done.


async def test_a_closed_endpoint_refuses_every_call_and_says_why(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        await endpoint.publish("/t", b"nobody wants it")
        publisher = endpoint.publisher("/t")
        await endpoint.shutdown()
        calls = [
            lambda: endpoint.publish("/t", 1),
            lambda: endpoint.publish("/t", b"nobody wants it"),
            lambda: endpoint.publish_batch([("/t", 1)]),
            lambda: publisher.publish(1),
            lambda: publisher.publish_batch([1]),
            lambda: endpoint.peer(kit.host, 1),
            lambda: endpoint.unpeer(kit.host, 1),
            lambda: endpoint.listen(),
            lambda: endpoint.await_peer(kit.small_id),
        ]
        for call in calls:
            with pytest.raises(EndpointClosed, match="async with"):
                await call()
        for call in (
            lambda: endpoint.publish_nowait("/t", 1),
            lambda: publisher.publish_nowait(b"nobody wants it"),
            lambda: endpoint.subscribe("/t"),
            lambda: endpoint.subscribe_status(),
            lambda: endpoint.forward("/t"),
            lambda: endpoint.publisher("/t"),
        ):
            with pytest.raises(EndpointClosed, match="async with"):
                call()
        await endpoint.shutdown()
        assert endpoint.statistics().peers == ()


async def test_an_endpoint_that_was_never_opened_says_so() -> None:
    endpoint = Endpoint()
    with pytest.raises(EndpointClosed, match="async with"):
        await endpoint.publish("/t", 1)
    with pytest.raises(EndpointClosed, match="async with"):
        await endpoint.listen()


async def test_reserved_topics_and_values_without_a_place_are_refused(kit) -> None:
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        subscriber = right.subscribe("/")
        await world.known()
        for topic in ("/a/<$>/b", "<$>", "\ud800", 7):
            with pytest.raises(InvalidTopic):
                await left.publish(topic, 1)
            with pytest.raises(InvalidTopic):
                left.publish_nowait(topic, 1)
            with pytest.raises(InvalidTopic):
                left.publisher(topic)
            with pytest.raises(InvalidTopic):
                left.subscribe(topic)
            with pytest.raises(InvalidTopic):
                left.forward(topic)
            with pytest.raises(InvalidTopic):
                subscriber.add_topic(topic)
        for value in (2**64, object(), (1, {2: object()})):
            with pytest.raises(EncodeError):
                await left.publish("/t", value)
        with pytest.raises(EncodeError, match="in parts"):
            await left.publish("/t", bytes(17 * 2**20))
        await left.publish("/<$>not/a/segment", 1)
        assert await subscriber.get() == ("/<$>not/a/segment", 1)


async def test_a_port_in_use_is_an_error_of_its_own_that_says_what_to_do(kit) -> None:
    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        with pytest.raises(AddressInUse, match="choose another port, or 0"):
            await left.listen(kit.host, world.ports[right])


async def test_an_endpoint_may_listen_at_several_ports(kit) -> None:
    async with kit.world() as world:
        listener = await world.add()
        second = await listener.listen(kit.host)
        for port in (world.ports[listener], second):
            other = await world.add()
            assert await other.peer(kit.host, port, retry=0)
        assert len(listener.peers()) == 2


@pytest.mark.parametrize("port", [-1, 70_000])
async def test_a_port_that_cannot_be_is_refused_and_harms_nobody(kit, port: int) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        outcome = await endpoint.peer(kit.host, port, retry=0)
        assert not outcome
        assert isinstance(outcome.error, PeerUnavailable)
        with pytest.raises(AddressInUse):
            await endpoint.listen(port=port)
        assert endpoint._is_open


async def test_one_attempt_at_a_closed_port_is_false_with_an_event(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        status = endpoint.subscribe_status()
        listeners = await trio.open_tcp_listeners(0, host=kit.host)
        port = listeners[0].socket.getsockname()[1]
        await listeners[0].aclose()
        outcome = await endpoint.peer(kit.host, port, retry=0)
        assert not outcome
        assert isinstance(outcome.error, PeerUnavailable)
        assert "check the address" in str(outcome)
        event = await status.get()
        assert (event.status, event.address) == (StatusCode.PEER_UNAVAILABLE, (kit.host, port))
        assert event.code is ErrorCode.PEER_UNAVAILABLE
        assert endpoint._dialers == {}


async def test_names_that_mean_nothing_are_unavailable_too(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add(allow_plain=True)
        for name in ("", "a..b", "\x00", "::ffff:1.2.3.4.5"):
            outcome = await endpoint.peer(name, 1, retry=0)
            assert isinstance(outcome.error, PeerUnavailable), name


async def test_an_endpoint_cannot_peer_with_itself(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        outcome = await endpoint.peer(kit.host, world.ports[endpoint], retry=0)
        assert not outcome
        assert outcome.error.code is ErrorCode.SELF_PEERING
        assert endpoint.peers() == []


async def serve_once(listener: trio.SocketListener, said: bytes) -> None:
    async with listener, await listener.accept() as stream:
        await stream.send_all(said)
        while await stream.receive_some(65_536):
            pass


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (encode_preamble(Preamble(7, 9)), "7 to 9"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no peermesh peer"),
    ],
    ids=["version", "protocol"],
)
async def test_another_version_or_protocol_is_an_error_of_its_own(kit, said, words) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        endpoint = await world.add()
        (listener,) = await trio.open_tcp_listeners(0, host=kit.host)
        nursery.start_soon(serve_once, listener, said)
        port = listener.socket.getsockname()[1]
        outcome = await endpoint.peer(kit.host, port, retry=0)
        assert not outcome
        assert isinstance(outcome.error, PeerIncompatible)
        assert words in str(outcome)


# Barriers.


async def test_await_peer_is_true_over_any_number_of_hops(kit) -> None:
    async with kit.world() as world:
        endpoints = await world.grow(4, LINE)
        assert await endpoints[0].await_peer(endpoints[3].node_id())
        assert await endpoints[3].await_peer(endpoints[0].node_id())
        subscriber = endpoints[3].subscribe("/t")
        await world.known()
        await endpoints[0].publish("/t", 1)
        assert await subscriber.get() == ("/t", 1)


async def test_await_peer_waits_for_one_who_comes_later(kit) -> None:
    async with kit.world() as world:
        first, second, third = await world.grow(3, [(0, 1)])
        outcomes = []

        async def wait() -> None:
            outcomes.append(await first.await_peer(third.node_id()))

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
        assert await first.await_peer(second.node_id(), told.append)
        assert await first.await_peer(kit.great_id, told.append, timeout=0)
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


# Trust.


def secured(secret: ClusterSecret, name: str) -> dict[str, object]:
    return {"credentials": Credentials.from_secret(secret, name)}


async def test_a_mesh_with_one_secret_works_like_any_other(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        first, second, third = [await world.add(**secured(secret, name)) for name in "abc"]
        assert await first.listen("0.0.0.0")
        subscriber = third.subscribe("/t")
        await world.peer(first, second)
        await world.peer(third, second)
        await world.known()
        for number in range(2_000):
            await first.publish("/t", number)
        await first.publish("/t", bytes(3 * 2**20))
        got = [data for _, data in await gather(subscriber, 2_001)]
        assert got[:-1] == list(range(2_000))
        assert len(got[-1]) == 3 * 2**20
        await first.shutdown()
        await kit.until(lambda: len(third.loop.core.topology.reachable()) == 1)


async def test_another_secret_no_secret_and_noise_are_refused_and_harm_nobody(kit) -> None:
    secret = ClusterSecret.generate()
    async with kit.world() as world:
        member = await world.add(**secured(secret, "member"))
        friend = await world.add(**secured(secret, "friend"))
        stranger = await world.add(**secured(ClusterSecret.generate(), "stranger"))
        plain = await world.add()
        status = member.subscribe_status()
        port = world.ports[member]
        for intruder in (stranger, plain):
            outcome = await intruder.peer(kit.host, port, retry=0)
            assert not outcome
            assert isinstance(outcome.error, (PeerNotTrusted, PeerIncompatible, PeerUnavailable))
        assert "secret" in str(await stranger.peer(kit.host, port, retry=0))
        outcome = await member.peer(kit.host, world.ports[plain], retry=0)
        assert not outcome
        async with await trio.open_tcp_stream(kit.host, port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
        assert await friend.peer(kit.host, port, retry=0)
        assert [info.node_id for info in member.peers()] == [friend.node_id()]


async def test_plain_tcp_beyond_loopback_is_refused_unless_it_is_allowed_by_name(kit) -> None:
    async with kit.world() as world:
        endpoint = await world.add()
        with pytest.raises(InsecureAddress, match="allow_plain"):
            await endpoint.listen("0.0.0.0")
        with pytest.raises(InsecureAddress, match="credentials"):
            await endpoint.peer("192.0.2.1", 4040, retry=0)
        bold = await world.add(allow_plain=True)
        assert await bold.listen("0.0.0.0")
