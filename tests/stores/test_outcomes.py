"""Outcomes: what became of requests, in parts and joined."""

from __future__ import annotations

from hypothesis import given, strategies as st

from stores.actions import (
    BatchResultCommand,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
    PutUniqueResultCommand,
    RefusalCommand,
    WriterId,
)
from stores.outcomes import Applied, Outcome, Refused, add_outcome
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
REFUSED = Refused(ErrorCode.TYPE_CLASH, "no")


def outcome_of(action, revision):
    add_outcome(known := [], action, revision)
    return known[0] if known else None


def test_actions_tell_what_became_of_which_requests():
    assert outcome_of(PutCommand(W, 5, None, [b"a", b"1", b"b", b"2"]), 12) == Outcome(
        5, 6, Applied(11)
    )
    assert outcome_of(EraseCommand(W, 5, [b"a", b"b", b"c"]), 12) == Outcome(5, 7, Applied(10))
    assert outcome_of(ClearCommand(W, 5), 12) == Outcome(5, 5, Applied(12))
    assert outcome_of(BatchResultCommand(W, 5, True, ()), 12) == Outcome(5, 5, Applied(12, True))
    assert outcome_of(PutUniqueResultCommand(W, 5, is_inserted=False), 12) == Outcome(
        5, 5, Applied(12, answer=False)
    )
    assert outcome_of(RefusalCommand(W, 5, REFUSED.code, "no"), 12) == Outcome(5, 5, REFUSED)


def test_requests_are_whole_numbers():
    outcome = outcome_of(PutCommand(W, 5, None, [b"a", b"1", b"b", b"2"]), 12)
    assert repr(outcome) == repr(Outcome(5, 6, Applied(11)))
    add_outcome(known := [], PutCommand(W, 5, None, [b"a", b"1"]), 12)
    add_outcome(known, PutCommand(W, 6, None, [b"a", b"1", b"b", b"2"]), 14)
    assert repr(known) == repr([Outcome(5, 7, Applied(12))])


def test_actions_that_answer_nobody_tell_nothing():
    assert outcome_of(ExpireCommand([b"a"]), 12) is None
    assert outcome_of(PutCommand(W, None, None, [b"a", b"1"]), 12) is None


@given(st.integers(1, 20), st.integers(0, 10), st.integers(0, 25), st.integers(0, 25))
def test_a_part_of_an_outcome_says_the_same_of_each_request(first, count, after, until):
    whole = Outcome(first, first + count, Applied(100))
    part = whole.between(after, until)
    wanted = [number for number in range(first, first + count + 1) if after < number <= until]
    if part is None:
        assert not wanted
    else:
        assert list(range(part.first_request, part.last_request + 1)) == wanted
        assert part.result == Applied(100 + wanted[0] - first)


def test_a_part_of_a_refusal_is_refused_alike():
    assert Outcome(1, 9, REFUSED).between(3, 5) == Outcome(4, 5, REFUSED)


def test_outcomes_join_where_requests_and_revisions_go_on():
    one = Outcome(1, 2, Applied(11))
    assert one.joined(Outcome(3, 5, Applied(13))) == Outcome(1, 5, Applied(11))
    assert one.joined(Outcome(4, 5, Applied(13))) is None
    assert one.joined(Outcome(3, 5, Applied(14))) is None
    assert one.joined(Outcome(3, 3, Applied(13, answer=True))) is None
    assert one.joined(Outcome(3, 3, REFUSED)) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 6), st.sampled_from([0, 0, 0, 1])), max_size=8
    )
)
def test_what_is_added_joins_as_outcomes_do(drawn):
    """Puts, erasures and others follow each other, some of them with a gap before them."""
    known, wanted, request, revision = [], [], 1, 10
    for count, kind, gap in drawn:
        request += gap
        keys = [b"a"] * count
        action = (
            *(PutCommand(W, request, None, [*keys, *keys]), EraseCommand(W, request, keys)),
            *(ClearCommand(W, request), BatchResultCommand(W, request, True, ())),
            *(RefusalCommand(W, request, REFUSED.code, "no"), ExpireCommand(keys)),
            PutCommand(W, None, None, [b"a", b"1"]),
        )[kind]
        revision += count
        add_outcome(known, action, revision)
        outcome = outcome_of(action, revision)
        if outcome is None:
            continue
        joined = wanted[-1].joined(outcome) if wanted else None
        wanted[len(wanted) - (joined is not None) :] = [joined or outcome]
        request = outcome.last_request + 1
    assert known == wanted


def test_an_outcome_grows_only_where_requests_and_revisions_go_on():
    put, erasure = PutCommand(W, 7, None, [b"a", b"1", b"b", b"2"]), EraseCommand(W, 9, [b"a"])
    known = []
    add_outcome(known, put, 12)
    add_outcome(known, erasure, 13)
    assert known == [Outcome(7, 9, Applied(11))]
    add_outcome(known, PutCommand(W, 11, None, [b"a", b"1"]), 14)
    add_outcome(known, PutCommand(W, 12, None, [b"a", b"1"]), 16)
    assert known[1:] == [Outcome(11, 11, Applied(14)), Outcome(12, 12, Applied(16))]
    add_outcome(known, BatchResultCommand(W, 13, True, ()), 17)
    add_outcome(known, EraseCommand(W, 14, [b"a"]), 18)
    add_outcome(known, RefusalCommand(W, 15, REFUSED.code, "no"), 18)
    add_outcome(known, EraseCommand(W, 16, [b"a"]), 19)
    assert len(known) == 7
