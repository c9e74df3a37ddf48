"""Peerings come and go, on purpose and by accident, and what was published still arrives."""

from __future__ import annotations

import random

import pytest
import trio

from endpoint import Endpoint, Outcome, StatusCode
from peermesh.testing.time_limits import limit
from wire.errors import EndpointClosed, ErrorCode
from wire.messages import DropConn

LINE = [(0, 1), (1, 2), (2, 3)]
RING = [(number, (number + 1) % 6) for number in range(6)]


# Healing.


def kill(endpoint: Endpoint, other: Endpoint) -> None:
    """Break the connection between two endpoints, without a word."""
    endpoint.loop.peerings[other.node_id()].connection.transport.close()


async def test_routes_heal_after_a_link_dies(kit) -> None:
    async with kit.world() as world:
        endpoints = await world.grow(6, RING)
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
        endpoints = await world.grow(6, RING)
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
            found = kit.distances(place, sorted(links))
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
        assert await dialler.peer(kit.host, world.ports[listener], timeout=limit())
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
        assert [data for _, data in await kit.gather(subscriber, 1_000)] == list(range(1_000))
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
            assert await endpoint.peer(kit.host, world.ports[listener], timeout=limit())
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
        with pytest.raises(EndpointClosed):
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
        await kit.until(lambda: not last.loop.core.reach.includes(first.node_id()))
        assert "no path" in str(await last.await_peer(first.node_id(), timeout=0))


async def test_leaving_the_block_while_somebody_shuts_down_loses_nothing(kit) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        other = await world.add()
        subscriber = other.subscribe("/t", queue_size=100_000)
        async with Endpoint() as endpoint:
            assert await endpoint.peer(kit.host, world.ports[other], timeout=limit())
            nursery.start_soon(kit.gather, subscriber, 200)
            for _ in range(200):
                await endpoint.publish("/t", bytes(100_000))
            nursery.start_soon(endpoint.shutdown)
            await kit.until(lambda: not endpoint.loop.is_open)
        assert endpoint.peers() == []


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
            with trio.fail_after(limit(5)):
                await endpoint.shutdown()
            assert (await raw.receive_some(DropConn)).code is ErrorCode.SHUTTING_DOWN


async def test_an_error_in_the_block_comes_out_as_itself_and_everything_is_closed(kit) -> None:
    async with kit.world() as world:
        other = await world.add()

        async def fail() -> None:
            async with Endpoint() as endpoint:
                assert await endpoint.peer(kit.host, world.ports[other], timeout=limit())
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await fail()
        await kit.until(lambda: not other.peers())
