"""Parked messages: a way that is blocked holds up no other, and keeps its order."""

from __future__ import annotations

from hypothesis import given, strategies as st

from endpoint.pubsub.parking import PARKED_MAX, Parking


def test_what_is_free_passes_as_it_is() -> None:
    parking: Parking[str] = Parking()
    ways, payloads = ["a", "b"], [b"1", b"2"]
    assert parking.pass_by(ways, payloads, lambda way: False) == (ways, payloads)
    assert len(parking) == 0


def test_a_blocked_way_holds_up_no_other() -> None:
    parking: Parking[str] = Parking()
    passed = parking.pass_by(["a", "b", "a", "c"], [b"1", b"2", b"3", b"4"], lambda way: way == "a")
    assert passed == (["b", "c"], [b"2", b"4"])
    assert parking.ways() == ["a"]
    assert parking.release("a", 1) == [b"1"]
    assert parking.release("a") == [b"3"]
    assert parking.release("a") == []
    assert parking.ways() == []


def test_what_comes_behind_a_parked_message_is_parked_though_the_way_is_free_again() -> None:
    parking: Parking[str] = Parking()
    parking.pass_by(["a"], [b"1"], lambda way: True)
    assert parking.pass_by(["a", "b"], [b"2", b"3"], lambda way: False) == (["b"], [b"3"])
    assert parking.release("a") == [b"1", b"2"]


def test_ways_are_released_in_any_order() -> None:
    parking: Parking[str] = Parking()
    parking.pass_by(["a", "b", "c"], [b"1", b"2", b"3"], lambda way: True)
    assert parking.ways() == ["a", "b", "c"]
    assert parking.release("b") == [b"2"]
    assert parking.ways() == ["a", "c"]


def test_each_way_has_room_of_its_own() -> None:
    parking: Parking[str] = Parking(2)
    parking.pass_by(["a", "a", "b"], [b"1", b"2", b"3"], lambda way: True)
    assert parking.is_full("a")
    assert not parking.is_full("b")
    assert not parking.is_full("c")
    parking.release("a", 1)
    assert not parking.is_full("a")
    assert Parking().room == PARKED_MAX == 8_192


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "block", "free"]))))
def test_nothing_is_lost_and_each_way_keeps_its_order(steps) -> None:
    parking, blocked, came = Parking[str](), set(), {way: [] for way in "abc"}
    for number, (way, step) in enumerate(steps):
        if step == "put":
            passed = parking.pass_by([way], [number.to_bytes(2)], blocked.__contains__)
            for each, payload in zip(*passed, strict=True):
                came[each].append(payload)
        elif step == "block":
            blocked.add(way)
        else:
            blocked.discard(way)
            came[way] += parking.release(way)
    for way in "abc":
        came[way] += parking.release(way)
        assert came[way] == [n.to_bytes(2) for n, step in enumerate(steps) if step == (way, "put")]
    assert len(parking) == 0
