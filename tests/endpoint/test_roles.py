"""Roles at work: what the first endpoint on the way takes of a limited one, and gives to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoint import Endpoint, StatusCode
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from wire.clocks import LamportTime
from wire.codec import encode_header
from wire.errors import ErrorCode, NotAllowed, RolesError
from wire.framing import encode_single
from wire.messages import Announcement, Announcements, NodeHeader, PackedType

ROLES = {
    "names": {"core-*": "core", "sensor-*": "sensor", "guest-*": "guest"},
    "roles": {
        "core": {"relay": True, "publish": [""], "subscribe": [""], "lead": ["*"]},
        "sensor": {"publish": ["/sensors/"], "write": ["readings"]},
        "guest": {"subscribe": ["/public/"], "read": ["readings"]},
    },
}

SECRET = ClusterSecret.generate()


def called(name: str) -> Credentials:
    """Give a certificate of an authority whose key none of the endpoints has."""
    return replace(Credentials.from_secret(SECRET, name), can_trust_names=True)


async def core(world, name: str = "core-1") -> Endpoint:
    return await world.add(credentials=called(name), roles=ROLES)


async def unknowing(world, name: str, *, forwarding: bool = False) -> Endpoint:
    """Start an endpoint that knows nothing of its limits: nobody relies on it."""
    return await world.add(credentials=called(name), forwarding=forwarding)


async def refused_until(kit, status, words: str) -> object:
    while True:
        *_, event = await kit.events_until(status, StatusCode.NOT_ALLOWED)
        if words in event.reason:
            return event


async def test_what_a_role_may_not_publish_goes_no_further_than_the_first_endpoint(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world), await core(world, "core-2")
        sensor = await unknowing(world, "sensor-1")
        status = first.subscribe_status()
        everything = [each.subscribe("") for each in (first, second)]
        await world.peer(first, second)
        await world.peer(sensor, first)
        await world.known()
        await sensor.publish("/alarms/fire", 1)
        await sensor.publish("/sensors/heat", 2)
        got = [await kit.gather(each, 1) for each in everything]
        assert [[topic for topic, _ in each] for each in got] == [["/sensors/heat"]] * 2
        event = await refused_until(kit, status, "publish on '/alarms/fire'")
        assert (event.endpoint, event.code) == (sensor.node_id(), ErrorCode.NOT_AUTHORIZED)
        assert "'sensor-1' (role sensor)" in event.reason
        assert first.statistics().messages_refused == 1
        assert second.statistics().messages_refused == 0


async def test_what_a_role_may_not_hear_is_not_sent_to_it(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world), await core(world, "core-2")
        guest = await unknowing(world, "guest-1")
        heard = guest.subscribe("")
        await world.peer(first, second)
        await world.peer(guest, first)
        await world.known()
        for topic in ("/secret/1", "/public/1"):
            await second.publish(topic, 1)
            await second.publish(topic, 2, to=guest.node_id())
        got = await kit.gather(heard, 2)
        assert [topic for topic, _ in got] == ["/public/1", "/public/1"]


async def test_whoever_has_no_role_is_refused_and_learns_why(kit) -> None:
    async with kit.world() as world:
        first = await core(world)
        stranger = await unknowing(world, "stranger")
        outcome = await stranger.peer(kit.host, world.ports[first], retry=0)
        assert not outcome
        assert "there is no role for the name 'stranger'" in outcome.reason
        assert not first.peers()


async def test_a_leaf_by_its_role_that_would_relay_is_refused(kit) -> None:
    async with kit.world() as world:
        first = await core(world)
        status = first.subscribe_status()
        sensor = await unknowing(world, "sensor-1", forwarding=True)
        outcome = await sensor.peer(kit.host, world.ports[first], retry=0)
        assert not outcome
        assert "set forwarding=False" in outcome.reason
        *_, event = await kit.events_until(status, StatusCode.PEER_UNAVAILABLE)
        assert event.code is ErrorCode.NOT_AUTHORIZED


async def test_an_endpoint_that_knows_its_role_is_a_leaf_and_says_what_it_may_not(kit) -> None:
    async with kit.world() as world:
        first = await core(world)
        sensor = await core(world, "sensor-1")
        await world.peer(sensor, first)
        with pytest.raises(NotAllowed, match=r"role sensor\) may not publish on '/alarms'"):
            await sensor.publish("/alarms", 1)
        with pytest.raises(NotAllowed, match="may not subscribe to '/sensors'"):
            sensor.subscribe("/sensors")
        await sensor.publish("/sensors/heat", 1)
        assert not first.loop.core.topology.announcements[sensor.node_id()].forwarding


async def test_a_leaf_is_heard_about_itself_alone(kit) -> None:
    async with kit.world() as world:
        first = await core(world)
        sensor = await unknowing(world, "sensor-1")
        await world.peer(sensor, first)
        peering = sensor.loop.peerings[first.node_id()]
        made_up = Announcement(kit.great_id, LamportTime(1), (sensor.node_id(),), ("",), (), True)
        ours = Announcement(first.node_id(), LamportTime(2**61), (), (), (), True)
        peering.connection.say(Announcements((ours, made_up)))
        heard = first.subscribe("/sensors/")
        await world.known()
        await sensor.publish("/sensors/heat", 1)
        await heard.get()
        known = first.loop.core.topology.announcements
        assert kit.great_id not in known
        assert known[first.node_id()].time < 2**61


async def test_messages_of_others_are_not_taken_from_a_leaf(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world), await core(world, "core-2")
        sensor = await unknowing(world, "sensor-1")
        status, heard = first.subscribe_status(), first.subscribe("")
        await world.peer(first, second)
        await world.peer(sensor, first)
        await world.known()
        header = encode_header(NodeHeader(PackedType.BYTES, second.node_id(), None, "/orders"))
        connection = sensor.loop.peerings[first.node_id()].connection
        connection.send_first(encode_single(second.node_id(), header, 16, 0, b"fire"))
        await refused_until(kit, status, f"sent messages of {second.node_id()}")
        await sensor.publish("/sensors/heat", 1)
        assert (await heard.get())[0] == "/sensors/heat"


async def test_a_peer_that_becomes_another_by_what_it_announces_is_dropped(kit) -> None:
    async with kit.world() as world:
        first = await core(world)
        sensor = await unknowing(world, "sensor-1")
        status = first.subscribe_status()
        await world.peer(sensor, first)
        own = sensor.loop.core.topology.announcements[sensor.node_id()]
        lie = replace(own, time=LamportTime(own.time + 9), name="core-9")
        sensor.loop.peerings[first.node_id()].connection.say(Announcements((lie,)), lie.origin)
        *_, event = await kit.events_until(status, StatusCode.PEER_REMOVED)
        assert event.code is ErrorCode.NOT_AUTHORIZED
        assert "an id belongs to one name" in event.reason


async def test_nobody_takes_an_id_that_belongs_to_another_name(kit) -> None:
    async with kit.world() as world:
        first, second = await core(world), await core(world, "core-2")
        await world.peer(first, second)
        impostor = await world.add(
            credentials=called("sensor-1"), endpoint_id=second.node_id(), forwarding=False
        )
        # Which of them originates is up to their ids: it fails with one reason or another.
        assert not await impostor.peer(kit.host, world.ports[first], retry=0)
        (peer,) = first.peers()
        assert (peer.node_id, peer.certificate_name) == (second.node_id(), "core-2")


async def test_an_id_stays_with_its_name_when_its_owner_has_left(kit) -> None:
    async with kit.world() as world:
        first = await core(world)
        async with Endpoint(credentials=called("core-2"), roles=ROLES) as second:
            assert await second.peer(kit.host, world.ports[first], timeout=limit())
            await world.known()
        await kit.until(lambda: not first.peers())
        impostor = await world.add(
            credentials=called("sensor-1"), endpoint_id=second.node_id(), forwarding=False
        )
        outcome = await impostor.peer(kit.host, world.ports[first], retry=0)
        assert "an id belongs to one name" in outcome.reason
        assert not first.peers()


async def test_roles_without_names_that_prove_something_are_refused() -> None:
    for credentials in (None, Credentials.from_secret(SECRET, "core-1")):
        with pytest.raises(RolesError, match="nobody vouches"):
            Endpoint(credentials=credentials, roles=ROLES)
    with pytest.raises(RolesError, match="none for this endpoint itself"):
        Endpoint(credentials=called("stranger"), roles=ROLES)
