"""Which connection makes room: by address and kind, in order, and never a member for a newcomer."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from net.arrivals import Arrivals, origin

OWN, OTHER = "192.0.2.1", "192.0.2.2"


def silent(_: int) -> bool:
    return False


def speaking(_: int) -> bool:
    return True


def arrived(*hosts: str) -> Arrivals[int]:
    """Give arrivals with one newcomer for each host, numbered from 0."""
    arrivals = Arrivals[int]()
    for number, host in enumerate(hosts):
        arrivals.arrive(number, host)
    return arrivals


def ended(arrivals: Arrivals[int], has_spoken=silent) -> list[int]:
    """End newcomers until none is left, and give them in order."""
    order = []
    while (oldest := arrivals.newcomer_to_end(has_spoken)) is not None:
        arrivals.leave(oldest)
        order.append(oldest)
    return order


def test_without_newcomers_nobody_makes_room() -> None:
    arrivals = arrived(OWN)
    arrivals.prove(0)
    assert arrivals.newcomer_to_end(silent) is None
    assert (arrivals.newcomers, arrivals.members) == (0, 1)


def test_the_oldest_of_the_address_that_has_most_makes_room() -> None:
    assert ended(arrived(OTHER, OWN, OWN, OWN)) == [1, 2, 0, 3]


def test_choosing_ends_nothing_by_itself() -> None:
    arrivals = arrived(OWN, OWN)
    assert [arrivals.newcomer_to_end(silent) for _ in range(3)] == [0, 0, 0]
    assert list(arrivals) == [0, 1]


def test_among_the_silent_of_an_address_one_that_speaks_stays() -> None:
    arrivals = arrived(*[OWN] * 5)
    assert ended(arrivals, lambda number: number == 0) == [1, 2, 3, 4, 0]


def test_among_those_of_an_address_that_speak_one_that_does_not_yet_stays() -> None:
    arrivals = arrived(*[OWN] * 5)
    for _ in range(2):
        oldest = arrivals.newcomer_to_end(lambda number: number < 4)
        arrivals.leave(oldest)
    assert list(arrivals) == [2, 3, 4]


def test_one_that_is_known_to_have_spoken_is_not_asked_again() -> None:
    asked = Counter[int]()

    def ask(number: int) -> bool:
        asked[number] += 1
        return True

    arrivals = arrived(*[OWN] * 50)
    for number in range(50, 1_000):
        arrivals.leave(arrivals.newcomer_to_end(ask))
        arrivals.arrive(number, OWN)
    assert max(asked.values()) == 1


def test_a_member_does_not_count_as_a_newcomer_of_its_address() -> None:
    arrivals = arrived(OWN, OWN, OTHER, OTHER)
    arrivals.prove(0)
    assert ended(arrivals) == [2, 1, 3]
    assert list(arrivals) == [0]


def test_a_resting_member_of_the_same_address_makes_room_first() -> None:
    arrivals = arrived(OTHER, OWN, OWN, OWN)
    for number in range(3):
        arrivals.prove(number)
    arrivals.rest(0)
    assert arrivals.member_to_end(3) == 0
    arrivals.rest(2)
    arrivals.rest(1)
    assert arrivals.member_to_end(3) == 2
    arrivals.work(2)
    assert arrivals.member_to_end(3) == 1
    arrivals.leave(1)
    arrivals.work(0)
    assert arrivals.member_to_end(3) is None
    arrivals.rest(3)
    assert arrivals.member_to_end() is None, "a newcomer may rest as it likes"


@pytest.mark.parametrize(
    ("host", "counts_as"),
    [
        (OWN, OWN),
        ("", ""),
        ("::ffff:192.0.2.1", OWN),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:3:ffff::", "2001:db8:1:3::"),
        ("fe80::1%eth0", "fe80::"),
        ("::1", "::"),
    ],
)
def test_what_one_subscriber_can_dial_from_is_one_address(host: str, counts_as: str) -> None:
    assert origin(host) == counts_as


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "prove", "rest", "work", "leave", "end", "speak"]),
        st.integers(0, 30),
        st.sampled_from([OWN, OTHER, "192.0.2.3"]),
    ),
    max_size=80,
)


@given(STEPS)
def test_whatever_comes_the_numbers_are_right_and_the_right_one_ends(steps) -> None:
    arrivals, hosts, members, resting, spoken = Arrivals[int](), {}, set(), [], set()
    for number, (step, chosen, host) in enumerate(steps):
        known = sorted(hosts)
        key = known[chosen % len(known)] if known else 0
        match step:
            case "arrive":
                hosts[number + 100] = host
                arrivals.arrive(number + 100, host)
            case "prove":
                arrivals.prove(key)
                members |= {key} & hosts.keys()
            case "rest":
                arrivals.rest(key)
                resting += [key] if key in members and key not in resting else []
            case "work":
                arrivals.work(key)
                resting = [each for each in resting if each != key]
            case "speak":
                spoken.add(key)
            case "leave" | "end":
                if step == "end":
                    key = arrivals.newcomer_to_end(spoken.__contains__)
                    sizes = Counter(hosts[each] for each in hosts.keys() - members)
                    assert (key is None) == (not sizes)
                    assert key is None or sizes[hosts[key]] == max(sizes.values())
                    assert key not in members
                arrivals.leave(key)
                hosts.pop(key, None)
                members.discard(key)
                resting = [each for each in resting if each != key]
        assert set(arrivals) == hosts.keys()
        assert (arrivals.newcomers, arrivals.members) == (len(hosts) - len(members), len(members))
        assert arrivals.member_to_end() == next(iter(resting), None)
