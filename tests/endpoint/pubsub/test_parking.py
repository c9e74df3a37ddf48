"""Parked messages: a lane that is blocked holds up no other, and keeps its order."""

from __future__ import annotations

from operator import itemgetter

from hypothesis import given, strategies as st

from endpoint.pubsub.parking import (
    MESSAGE_CHARGE,
    PARKED_BYTES_MAX,
    PARKED_MAX,
    PARKED_TOTAL_MAX,
    Batch,
    Parcel,
    Parking,
)


def make(**limits: int) -> Parking[str]:
    """Make one in which ``a`` and ``A`` share a lane."""
    return Parking(str.lower, **limits)


def park(parking: Parking[str], ways: str, payload: bytes = b"x", now: float = 0) -> None:
    """Park in lanes."""
    wait(parking, ways, payload, now)
    parking.divide()


def wait(parking: Parking[str], ways: str, payload: bytes = b"x", now: float = 0) -> None:
    """Have a batch wait."""
    passed, _ = parking.pass_by(ways, [payload] * len(ways), lambda _: True, now)
    assert not passed


def test_what_is_free_passes_as_it_is() -> None:
    parking = make()
    ways, payloads = ["a", "b"], [b"1", b"2"]
    assert parking.pass_by(ways, payloads, lambda _: False, 0) == (ways, payloads)
    assert not parking
    assert len(parking) == 0
    assert parking.first("a") is None


def test_a_blocked_lane_holds_up_no_other() -> None:
    parking = make()
    passed = parking.pass_by("abac", [b"1", b"2", b"3", b"4"], lambda way: way == "a", 5)
    assert passed == (["b", "c"], [b"2", b"4"])
    assert parking
    assert len(parking) == 2
    assert parking.lanes() == ["a"]
    assert parking.first("a") == parking.release("a") == Parcel("a", 5, [0, 2], [b"1", b"3"], 2)
    assert not parking


def test_what_comes_behind_a_parked_message_is_parked_though_it_is_free_again() -> None:
    parking = make()
    park(parking, "a", b"1")
    passed = parking.pass_by("abA", [b"2", b"3", b"4"], lambda _: False, 1)
    assert passed == (["b"], [b"3"])
    released = [(each.way, each.payloads) for each in map(parking.release, "aaa")]
    assert released == [("a", [b"1"]), ("a", [b"2"]), ("A", [b"4"])]


def test_the_time_of_each_is_known() -> None:
    parking = make()
    park(parking, "aa", now=1)
    park(parking, "a", now=2)
    released = [(each.since, len(each.payloads)) for each in map(parking.release, "aa")]
    assert released == [(1, 2), (2, 1)]


def test_what_may_go_leaves_in_the_order_in_which_it_came() -> None:
    parking = make()
    for text in (b"1", b"2"):
        park(parking, "abcabc", text)
    assert parking.take("ac", 9, 99) == (["a", "c", "a", "c"], [b"1"] * 4)
    assert parking.take("abc", 9, 99) == (list("bba"), [b"1", b"1", b"2"]), "up to b's second ones"
    assert parking.take("abc", 9, 99) == (list("bcabc"), [b"2"] * 5)
    assert not parking


def test_of_each_lane_only_one_way_is_taken_at_once() -> None:
    parking = make()
    park(parking, "aAb")
    assert parking.take("ab", 9, 99) == (["a"], [b"x"]), "b came after A, which may not go yet"
    assert parking.take("ab", 9, 99) == (["A", "b"], [b"x"] * 2)


def test_so_much_is_taken_at_once() -> None:
    parking = make()
    park(parking, "abab", bytes(10))
    assert parking.take("ab", 3, 99) == (list("aba"), [bytes(10)] * 3)
    assert len(parking) == 1
    park(parking, "ab", bytes(10))
    assert parking.take("ab", 9, 10) == (["b"], [bytes(10)])
    assert parking.take("ab", 9, 9) == (["a"], [bytes(10)]), "a large one goes alone"
    assert parking.take("b", 9, 9) == (["b"], [bytes(10)])
    assert not parking


def test_each_lane_has_room_of_its_own() -> None:
    parking = make(room=4)
    for now in range(4):
        park(parking, "ab"[: 1 + (now == 3)], now=now)
    assert [parking.is_full(lane) for lane in "abc"] == [True, False, False]
    parking.release("a")
    assert not parking.is_full("a")
    assert not parking.has_room("a")
    parking.release("a")
    parking.release("a")
    assert parking.has_room("a")


def test_large_messages_are_counted_by_size() -> None:
    parking = make(bytes_max=100)
    park(parking, "a", bytes(60))
    assert not parking.is_full("a")
    assert not parking.has_room("a")
    park(parking, "a", bytes(40), 1)
    assert parking.is_full("a")
    parking.release("a")
    assert parking.has_room("a")


def test_what_is_taken_of_a_lane_leaves_its_size_alone() -> None:
    parking = make(bytes_max=100)
    park(parking, "aaaa", bytes(30))
    assert parking.is_full("a")
    assert parking.take("a", 1, 99)[0] == ["a"]
    assert not parking.is_full("a")
    assert not parking.has_room("a"), "90 bytes are left"
    assert parking.take("a", 2, 99)[0] == ["a", "a"]
    assert parking.has_room("a")


def test_all_lanes_together_have_an_end_which_only_those_with_something_parked_feel() -> None:
    parking = make(total_max=4 * (MESSAGE_CHARGE + 1) + 1)
    park(parking, "abcd")
    assert not parking.is_full("a"), "a byte is left"
    parking = make(total_max=4 * (MESSAGE_CHARGE + 1))
    park(parking, "abc")
    assert not any(map(parking.is_full, "abcd"))
    park(parking, "c", now=1)
    assert [parking.is_full(lane) for lane in "abcd"] == [True, True, True, False]
    assert parking.has_room("d")
    for lane in "cc":
        parking.release(lane)
    assert not parking.has_room("a")
    assert parking.has_room("c")
    parking.release("b")
    assert parking.has_room("a")


def test_a_batch_of_which_nothing_may_go_waits_as_it_is() -> None:
    parking = make()
    wait(parking, "abA", b"1", 5)
    wait(parking, "ab", b"22", 6)
    assert parking
    assert len(parking) == 5
    assert parking.lanes() == []
    assert parking.release_batch() == Batch(5, "abA", [b"1"] * 3, 3)
    assert parking.first_batch() == parking.release_batch() == Batch(6, "ab", [b"22"] * 2, 4)
    assert parking.first_batch() is None
    assert not parking
    assert parking.pass_by("a", [b"3"], lambda _: False, 7) == ("a", [b"3"])


def test_what_comes_behind_a_batch_waits_with_it_and_other_lanes_pass() -> None:
    parking = make()
    wait(parking, "ab")
    assert parking.pass_by("c", [b"1"], lambda _: False, 1) == ("c", [b"1"])
    assert parking.pass_by("A", [b"2"], lambda _: False, 1) == ([], [])
    assert parking.lanes() == [], "one more batch"
    assert parking.pass_by("ca", [b"3", b"4"], lambda _: False, 2) == (["c"], [b"3"])
    assert parking.lanes() == ["a", "b"], "divided, since only a part could go"
    released = [(each.way, each.since, each.payloads) for each in map(parking.release, "aaab")]
    assert released == [("a", 0, [b"x"]), ("A", 1, [b"2"]), ("a", 2, [b"4"]), ("b", 0, [b"x"])]


def test_batches_have_the_room_of_one_lane() -> None:
    parking = make(room=4, bytes_max=100)
    wait(parking, "ab")
    assert not any(map(parking.is_full, "abc"))
    assert [parking.has_room(lane) for lane in "abc"] == [False, False, True]
    wait(parking, "ab")
    assert [parking.is_full(lane) for lane in "abc"] == [True, True, False]
    parking.divide()
    assert not any(map(parking.is_full, "ab")), "each lane has two of them"
    large = make(room=4, bytes_max=100)
    wait(large, "ab", bytes(50))
    assert large.is_full("a")
    large.release_batch()
    assert large.has_room("a")


def test_the_limits_are_those_of_the_documents() -> None:
    parking = make()
    assert parking.room == PARKED_MAX == 8_192
    assert parking.bytes_max == PARKED_BYTES_MAX == 8 * 2**20
    assert parking.total_max == PARKED_TOTAL_MAX == 64 * 2**20


STEPS = st.tuples(
    st.sampled_from(["put", "put", "block", "free", "go"]), st.text("aAbBcC", max_size=9)
)


def let_go(parking: Parking[str], blocked: set[str], most: int) -> list[tuple[str, bytes]]:
    """Let all go that may: whole batches, or so many messages at a time."""
    went = []
    while (batch := parking.first_batch()) is not None:
        if blocked.issuperset(parking.ways_in_batches()):
            return went
        if blocked.intersection(batch.ways):
            parking.divide()
        else:
            assert parking.release_batch() is batch
            went += zip(batch.ways, batch.payloads, strict=True)
    while ready := [each for each in parking.lanes() if parking.first(each).way not in blocked]:
        some = list(zip(*parking.take(ready, most, 10), strict=True))
        assert 1 <= len(some) <= most
        went += some
    return went


@given(st.lists(STEPS), st.integers(1, 5))
def test_nothing_is_lost_and_each_lane_keeps_its_order(steps, count) -> None:
    parking, blocked, came = make(), set(), []
    sent: list[tuple[str, bytes]] = []

    for step, ways in steps:
        if step == "put":
            payloads = [(len(sent) + n).to_bytes(2) for n in range(len(ways))]
            sent += zip(ways, payloads, strict=True)
            came += zip(*parking.pass_by(ways, payloads, blocked.__contains__, 0), strict=True)
        elif step == "block":
            blocked.update(ways)
        elif step == "free":
            blocked.difference_update(ways)
        else:
            came += let_go(parking, blocked, count)
    blocked.clear()
    rest = let_go(parking, blocked, count)
    assert [number for _, number in rest] == sorted(number for _, number in rest)
    came += rest
    assert sorted(came, key=itemgetter(1)) == sent
    for lane in "abc":
        of_lane = [each for each in sent if each[0].lower() == lane]
        assert [each for each in came if each[0].lower() == lane] == of_lane
    assert len(parking) == 0
    assert not any(map(parking.is_full, "abc"))
