"""The flight recorder: bounded, and with all that causal order needs."""

from __future__ import annotations

from endpoint.flight import ANNOUNCED, FlightRecorder
from endpoint.mesh.status import StatusCode
from wire.clocks import LamportTime
from wire.identifiers import EndpointId
from wire.messages import Announcement

HERE, THERE = EndpointId(bytes(16)), EndpointId(b"\x01" * 16)


def said(origin: EndpointId, time: int, *topics: str) -> Announcement:
    return Announcement(origin, LamportTime(time), (), topics, (), True)


def test_what_was_heard_is_noted_once_with_the_next_record():
    flight = FlightRecorder(HERE)
    flight.hear([said(THERE, 3), said(THERE, 2)])
    flight.meet({THERE: 9})
    first, second = (flight.note(at, "peer_added", "") for at in (1.0, 2.0))
    assert first.heard == ((THERE, 3),)
    assert first.met == ((THERE, 9),)
    assert second.heard == second.met == ()
    assert (first.number, second.number) == (1, 2)


def test_the_same_announcement_is_noted_once():
    flight = FlightRecorder(HERE)
    for at in (1.0, 2.0):
        flight.announce(at, said(HERE, 5, *map(str, range(9))))
    (record,) = flight.records()
    assert (record.kind, record.announced) == (ANNOUNCED, 5)
    assert "'7', … 9 in all" in record.text


def test_a_full_recorder_loses_its_oldest_but_not_what_they_followed_from():
    flight = FlightRecorder(HERE, size_max=2)
    for time in (4, 6, 5):
        flight.hear([said(THERE, time)])
        flight.note(0.0, "note", "")
    flight.note(0.0, "note", "")
    kept = flight.records()
    assert [record.number for record in kept] == [3, 4]
    assert kept[0].heard == ((THERE, 6),)


def test_a_tap_is_given_each_record_as_it_is_made():
    flight, given = FlightRecorder(HERE), []
    flight.tap = given.append
    flight.note(1.0, "store", "s: closed")
    assert given == flight.records()


async def test_an_endpoint_notes_peers_announcements_and_barriers_but_no_messages(kit):
    async with kit.world() as world:
        here, there = await world.grow(2, [(1, 0)])
        subscriber = there.subscribe("/x")
        await world.known()
        for number in range(100):
            await here.publish("/x", number)
        await kit.gather(subscriber, 100)
        assert not await here.await_peer(kit.great_id, timeout=0)
        kinds = [record.kind for record in here.loop.flight.records()]
        assert kinds.count(StatusCode.PEER_ADDED) == 1
        assert kinds[-1] == "barrier"
        assert len(kinds) < 10
        topics = [each for each in there.loop.flight.records() if "'/x'" in each.text]
        assert [each.kind for each in topics] == [ANNOUNCED]
        heard = [time for each in here.loop.flight.records() for _, time in each.heard]
        latest = there.loop.core.topology.announcements[there.node_id()].time
        assert max(heard) == latest > 1, "it came after the handshake, as news"


def test_endpoints_that_no_record_names_any_more_are_forgotten():
    flight = FlightRecorder(HERE, size_max=8)
    for number in range(100_000):
        origin = EndpointId(number.to_bytes(16, "big"))
        flight.hear([said(origin, 1)])
        flight.meet({origin: number + 1})
        flight.note(0.0, "peer_added", "", origin)
    kept = flight.records()
    assert len(kept) == 8
    assert sum(len(record.heard) + len(record.met) for record in kept) == 2 * 8
    assert len(flight._lost_heard) == len(flight._lost_met) == 0
    assert len(flight._named) == 8
