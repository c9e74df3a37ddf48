"""Outcomes, and the ledger that makes sure a request is applied once and answered truthfully."""

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
from stores.limits import OUTCOMES_MAX, WRITERS_MAX
from stores.outcomes import Applied, Ledger, Outcome, Refused, WriterRow, outcome_of
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId


def writer(number: int) -> WriterId:
    return WriterId.of(EntityId(EndpointId(number.to_bytes(16, "big")), 1), 1)


W = writer(1)
REFUSED = Refused(ErrorCode.TYPE_CLASH, "no")


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


def test_a_record_knows_what_was_answered_and_what_was_told():
    record = Ledger().touch(W)
    record.add(Outcome(1, 3, Applied(1)))
    record.published_request = 3
    record.add(Outcome(4, 6, Applied(4)))
    assert record.last_request == 6
    assert record.published(after=0) == (Outcome(1, 3, Applied(1)),)
    assert record.published(after=2) == (Outcome(3, 3, Applied(3)),)
    record.published_request = 6
    assert record.published(after=0) == (Outcome(1, 6, Applied(1)),)


def test_a_record_forgets_what_its_writer_has_heard():
    record = Ledger().touch(W)
    for request in (1, 2, 3):
        record.add(Outcome(request, request, REFUSED))
    record.forget(0)
    assert len(record.outcomes) == 3
    record.forget(2)
    assert list(record.outcomes) == [Outcome(3, 3, REFUSED)]
    assert record.last_request == 3


def test_a_record_of_a_writer_that_never_acknowledges_is_bounded():
    record = Ledger().touch(W)
    for request in range(1, OUTCOMES_MAX + 10):
        record.add(Outcome(request, request, REFUSED))
    assert len(record.outcomes) == OUTCOMES_MAX
    assert record.last_request == OUTCOMES_MAX + 9


def test_the_ledger_forgets_whoever_was_silent_longest():
    ledger = Ledger()
    for number in range(1, WRITERS_MAX + 1):
        ledger.touch(writer(number))
    ledger.touch(writer(1))
    ledger.take_touched()
    ledger.touch(writer(WRITERS_MAX + 1))
    assert ledger.find(writer(1)) is not None
    assert ledger.find(writer(2)) is None
    assert len(ledger) == WRITERS_MAX
    assert ledger.take_forgotten() == (writer(2),)
    assert ledger.take_forgotten() == ()


def test_the_ledger_gives_each_change_once_and_restores_what_it_gave():
    ledger = Ledger()
    ledger.touch(W).add(Outcome(1, 3, Applied(1)))
    rows = ledger.take_touched()
    assert rows == (WriterRow(W, 3, (Outcome(1, 3, Applied(1)),)),)
    assert ledger.take_touched() == ()
    restored = Ledger(rows).find(W)
    assert restored is not None
    assert restored.last_request == restored.published_request == 3
    assert restored.published(after=1) == (Outcome(2, 3, Applied(2)),)
