"""Holds: the whole state of a place in each word, believed where it is right, and not for long."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from endpoint.link.hold_words import (
    HEADERS_MAX,
    HEADERS_SIZE_MAX,
    HELD_SIZE_MAX,
    LEASE_SECONDS,
    PLACES_MAX,
    Holder,
    HoldWord,
    Verdict,
)
from endpoint.link.holds import Holds
from wire.identifiers import EndpointId

ME, SUB, RELAY, STRANGER = (EndpointId(bytes([number]) * 16) for number in range(1, 5))
A, B, C = b"\0\0/a", b"\0\0/b", b"\0\0/c"


def holds(
    passes=lambda endpoint, header: endpoint != STRANGER,
    may_hold=lambda endpoint: True,
    hold_seconds_max: float | None = None,
) -> Holds:
    return Holds(passes, may_hold, hold_seconds_max)


def owner(label: str = "box") -> Holds:
    """An endpoint that has one place, with the number 1."""
    made = holds()
    assert made.add_place(label) == 1
    return made


def word(*headers: bytes, place: int = 1, is_all: bool = False) -> HoldWord:
    return HoldWord(ME, place, "box", headers, is_all)


def held(sender: Holds) -> str:
    """The topics, of three, on which messages wait."""
    return "".join(
        chr(header[-1]) for header in (A, B, C) if sender.verdict(header, 0) is not Verdict.GO
    )


# The owner's side.


def test_a_word_names_all_that_came_so_far_and_is_said_when_something_new_comes() -> None:
    mine = owner()
    assert mine.over(1, ME, (A,)) == word(A)
    assert mine.over(1, ME, (A,)) is None
    assert mine.over(1, ME, (A, B), b"\1\0\1") == word(A, B)
    assert mine.over(1, ME, (B, A), b"\0\1") is None
    assert mine.over(1, SUB, (A,)) == HoldWord(SUB, 1, "box", (A,)), "each sender has its own"
    assert list(mine.words()) == [word(A, B), HoldWord(SUB, 1, "box", (A,))]


def test_an_endpoint_that_is_gone_is_told_nothing_more_and_the_others_are() -> None:
    mine = owner()
    mine.over(1, ME, (A,))
    mine.over(1, SUB, (B,))
    assert not mine.forget(ME), "it held nothing here"
    assert list(mine.words()) == [HoldWord(SUB, 1, "box", (B,))]


def test_a_word_names_what_the_place_got_and_not_all_of_a_mixed_frame() -> None:
    mine = owner()
    assert mine.over(1, ME, (A, B, C), b"\0\2\0") == word(A, C)


def test_the_empty_word_goes_to_all_that_were_told() -> None:
    mine = owner()
    other = mine.add_place("other")
    mine.over(1, ME, (A,))
    mine.over(1, SUB, (B,))
    mine.over(other, ME, (C,))
    assert mine.free(1) == [word(), HoldWord(SUB, 1, "box")]
    assert mine.free(1) == []
    assert list(mine.words()) == [HoldWord(ME, other, "other", (C,))]
    assert mine.over(1, ME, (A,)) == word(A), "it can be full again"


def many(count: int, size: int = 8) -> list[bytes]:
    return [b"\0\0" + number.to_bytes(size - 2) for number in range(count)]


def test_too_many_headers_are_all() -> None:
    mine = owner()
    assert mine.over(1, ME, many(256), bytes(range(256))) == word(*many(256))
    assert mine.over(1, ME, (A,)) == word(is_all=True)
    assert mine.over(1, ME, (B,)) is None
    assert list(mine.words()) == [word(is_all=True)]
    assert mine.free(1) == [word()]


def test_too_large_headers_are_all() -> None:
    mine = owner()
    large = many(3, HEADERS_SIZE_MAX // 2)
    assert mine.over(1, ME, large, b"\0\1") == word(*large[:2])
    assert mine.over(1, ME, large, b"\2") == word(is_all=True)


def test_an_endpoint_says_so_many_words_and_no_more() -> None:
    mine = owner()
    senders = [EndpointId(number.to_bytes(16)) for number in range(PLACES_MAX + 1)]
    assert all(mine.over(1, sender, (A,)) for sender in senders[:-1])
    assert mine.over(1, senders[-1], (A,)) is None
    assert mine.over(1, senders[0], (B,)) is not None, "what is known goes on"
    mine.forget(senders[0])
    assert mine.over(1, senders[-1], (A,)) is not None


# The sender's side.


def test_a_word_replaces_what_the_same_place_said_before() -> None:
    sender = holds()
    assert held(sender) == ""
    assert sender.hear(SUB, word(A, B))
    assert held(sender) == "ab"
    assert not sender.hear(SUB, word(A, B)), "it is said again, and nothing changes"
    assert sender.hear(SUB, word(C))
    assert held(sender) == "c"
    assert sender.hear(SUB, word())
    assert held(sender) == ""
    assert not sender.hear(SUB, word())


def test_a_topic_waits_for_every_place_that_holds_it() -> None:
    sender = holds()
    sender.hear(SUB, word(A))
    sender.hear(SUB, word(A, place=2))
    sender.hear(RELAY, word(A, B))
    assert sender.holders(A) == [
        Holder(SUB, 1, "box"),
        Holder(SUB, 2, "box"),
        Holder(RELAY, 1, "box"),
    ]
    sender.hear(SUB, word())
    sender.hear(RELAY, word(B))
    assert held(sender) == "ab"
    sender.hear(SUB, word(place=2))
    assert held(sender) == "b"


def test_a_place_that_holds_all_holds_what_passes_it() -> None:
    sender = holds(passes=lambda endpoint, header: header != C)
    assert sender.hear(SUB, word(is_all=True))
    assert held(sender) == "ab"
    assert sender.hear(SUB, word())


def test_a_word_is_believed_where_our_route_passes() -> None:
    sender = holds(passes=lambda endpoint, header: (endpoint, header) in {(SUB, A), (RELAY, B)})
    assert sender.hear(SUB, word(A, B, C))
    assert held(sender) == "a"
    assert not sender.hear(STRANGER, word(A, B, C))
    assert sender.hear(RELAY, word(is_all=True))
    assert held(sender) == "ab"


def test_a_route_that_changes_frees_what_passes_elsewhere_now() -> None:
    routes = {(SUB, A)}
    sender = holds(passes=lambda *step: step in routes)
    sender.hear(SUB, word(A))
    routes.clear()
    assert held(sender) == ""


def test_an_endpoint_without_the_right_holds_nothing() -> None:
    sender = holds(may_hold=lambda endpoint: endpoint != SUB)
    assert not sender.hear(SUB, word(A))
    assert not sender.hear(SUB, word(is_all=True))
    assert held(sender) == ""


def test_a_word_lasts_for_three_seconds() -> None:
    sender = holds()
    sender.hear(SUB, word(A))
    sender.hear(RELAY, word(B))
    assert LEASE_SECONDS == 3
    assert sender.age(1.0) == (False, [])
    assert sender.age(1.0) == (False, [])
    sender.hear(RELAY, word(B))
    sender.hear(SUB, word(C, place=2))
    assert sender.age(1.0) == (True, []), "one of them is over"
    assert held(sender) == "bc"


def test_a_hold_that_lasts_is_told_once() -> None:
    sender = holds()
    told = []
    for _ in range(20):
        sender.hear(SUB, word(A))
        told.append(sender.age(1.0))
    assert [slow for _, slow in told].count([]) == 19
    assert told[4] == (False, [(Holder(SUB, 1, "box"), word(A))])
    sender.hear(SUB, word())
    sender.hear(SUB, word(A))
    assert sender.age(1.0) == (False, []), "it starts anew"


def test_an_endpoint_that_is_unreachable_holds_nothing() -> None:
    sender = holds()
    sender.hear(SUB, word(A))
    sender.hear(SUB, word(A, place=2))
    sender.hear(RELAY, word(B))
    assert sender.forget(SUB)
    assert not sender.forget(SUB)
    assert held(sender) == "b"


def test_a_sender_remembers_so_many_places() -> None:
    sender = holds()
    for place in range(PLACES_MAX + 10):
        sender.hear(SUB, word(A, place=place + 1))
    assert len(sender.holders(A)) == PLACES_MAX
    assert sender.hear(SUB, word(B, place=1)), "known ones go on"
    assert not sender.hear(SUB, word(B, place=PLACES_MAX + 2))


def test_a_word_with_too_many_headers_is_all() -> None:
    sender = holds()
    sender.hear(SUB, word(*many(HEADERS_MAX + 1)))
    assert held(sender) == "abc"
    sender.hear(SUB, word(*many(HEADERS_MAX)))
    assert held(sender) == ""


def test_beyond_so_many_bytes_places_hold_all() -> None:
    sender = holds()
    large = many(1, 64 * 1024)
    for place in range(HELD_SIZE_MAX // (64 * 1024)):
        sender.hear(SUB, word(*large, place=place + 1))
    assert held(sender) == ""
    sender.hear(RELAY, word(*large))
    assert held(sender) == "abc"
    sender.hear(RELAY, word())
    sender.hear(SUB, word())
    sender.hear(RELAY, word(*large))
    assert held(sender) == "", "there is room again"
    sender.hear(STRANGER, word(A))
    sender.hear(SUB, word(A, place=2))
    sender.hear(SUB, word(*large, place=1))
    sender.hear(RELAY, word(*large, place=2))
    assert held(sender) == "abc", "each has only given back its own"


@pytest.mark.parametrize(
    ("waited", "verdict"), [(0, Verdict.WAIT), (4.9, Verdict.WAIT), (5, Verdict.FORCED)]
)
def test_a_message_waits_no_longer_than_its_endpoint_says(waited, verdict) -> None:
    sender = holds(hold_seconds_max=5.0)
    assert sender.verdict(A, waited) is Verdict.GO
    sender.hear(SUB, word(A))
    assert sender.verdict(A, waited) is verdict
    assert sender.verdict(B, waited) is Verdict.GO


def test_without_a_limit_it_waits_for_as_long_as_it_takes() -> None:
    sender = holds()
    sender.hear(SUB, word(A))
    assert sender.verdict(A, 10**9) is Verdict.WAIT


def test_the_places_of_subscriptions_that_ended_take_no_memory() -> None:
    mine = owner()
    mine.over(1, ME, (A,))
    assert mine.remove_place(1) == [word()]
    assert mine.add_place("next") == 2, "its number is not used again"
    assert mine.remove_place(2) == []
    assert not mine._labels
    assert not mine._told


def second(mine: Holds, slots: dict[int, HoldWord], sender: Holds) -> None:
    """All that stands is said again, and all that is said arrives."""
    slots.update({said.place: said for said in mine.words()})
    for said in slots.values():
        sender.hear(SUB, said)
    slots.clear()
    sender.age(1.0)


STEPS = st.one_of(
    st.tuples(st.just("over"), st.integers(1, 2), st.sets(st.sampled_from([A, B, C]), min_size=1)),
    st.tuples(st.sampled_from(["free", "lost", "second"]), st.integers(1, 2), st.just(set())),
)


@given(st.lists(STEPS, max_size=40))
def test_after_a_lease_without_loss_both_sides_agree(steps) -> None:
    """The latest word of each place is in a slot; it may be lost, and comes again."""
    mine, sender = holds(), holds()
    full: dict[int, set[bytes]] = {1: set(), 2: set()}
    slots: dict[int, HoldWord] = {}
    for place in full:
        assert mine.add_place("box") == place
    for step, place, headers in steps:
        match step:
            case "over":
                full[place] |= headers
                said = mine.over(place, ME, sorted(headers), bytes(range(len(headers))))
                slots.update({place: said} if said is not None else {})
            case "free":
                full[place].clear()
                slots.update({said.place: said for said in mine.free(place)})
            case "lost":
                slots.pop(place, None)
            case _:
                second(mine, slots, sender)
    for _ in range(int(LEASE_SECONDS) + 1):
        second(mine, slots, sender)
    wanted = full[1] | full[2]
    assert held(sender) == "".join(chr(header[-1]) for header in (A, B, C) if header in wanted)
