"""The ledger of writers by itself: what it remembers, and what a member reads in it."""

from __future__ import annotations

import pytest

from stores.group.machine import Answer, Append, Staged
from stores.outcomes import FORGOTTEN, Applied, Outcome, Refused
from stores.table import writers
from stores.table.bodies import OutOfOrder, Register, Registered, Registration, UnknownWriter
from stores.table.writers import LedgerRow, Writers
from tests.stores.table.lab import writer_id
from wire.errors import DecodeError, ErrorCode

WRITER = writer_id(1)
REFUSED = Refused(ErrorCode.INVALID_DATA, "no number")
OUTCOMES = (Outcome(3, 4, Applied(7)), Outcome(5, 5, REFUSED), Outcome(6, 9, Applied(20)))


def ledger(outcomes=OUTCOMES):
    return Writers([LedgerRow(WRITER, 2, 9, outcomes)])


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (1, [Outcome(1, 2, FORGOTTEN), *OUTCOMES]),
        (3, [*OUTCOMES]),
        (4, [Outcome(4, 4, Applied(8)), *OUTCOMES[1:]]),
        (5, [*OUTCOMES[1:]]),
        (9, [Outcome(9, 9, Applied(23))]),
        (10, []),
    ],
)
def test_a_writer_finds_what_became_of_its_requests_from_one_on(first, found):
    assert list(ledger().outcomes_of(WRITER, 2, first)) == found


def test_outcomes_that_were_forgotten_are_said_to_be():
    assert list(ledger(()).outcomes_of(WRITER, 2, 8)) == [Outcome(8, 9, FORGOTTEN)]


@pytest.mark.parametrize(
    ("writer", "request_", "is_done"),
    [(WRITER, 9, True), (WRITER, 1, True), (WRITER, 10, False), (writer_id(2), 1, False)],
)
def test_a_ledger_tells_up_to_where_a_writers_requests_are_done(writer, request_, is_done):
    assert ledger().has_done(writer, request_) is is_done


@pytest.mark.parametrize(("writer", "number"), [(WRITER, 1), (WRITER, 3), (writer_id(2), 2)])
def test_a_ledger_has_no_answer_for_a_writer_that_it_does_not_know(writer, number):
    assert list(ledger().outcomes_of(writer, number, 1)) == []


@pytest.fixture
def registered():
    known = Writers()
    known.register(5, Registered(WRITER, 0, None))
    return known


def remembered(known):
    (row,) = known.rows()
    assert (row.writer, row.number) == (WRITER, 5)
    return list(row.outcomes)


def test_outcomes_that_follow_each_other_are_one(registered):
    registered.perform(WRITER, 3, 0, (Outcome(1, 3, Applied(1)),))
    registered.perform(WRITER, 6, 0, (Outcome(4, 6, Applied(4)),))
    assert remembered(registered) == [Outcome(1, 6, Applied(1))]


def test_what_a_writer_has_heard_is_forgotten(registered):
    for request in (1, 2, 3):
        registered.perform(WRITER, request, 0, (Outcome(request, request, REFUSED),))
    assert len(remembered(registered)) == 3
    registered.perform(WRITER, 4, 2, (Outcome(4, 4, REFUSED),))
    assert remembered(registered) == [Outcome(3, 3, REFUSED), Outcome(4, 4, REFUSED)]
    assert registered.has_done(WRITER, 4)
    assert not registered.has_done(WRITER, 5)


def test_a_writer_that_hears_of_nothing_has_its_latest_outcomes_kept(registered, monkeypatch):
    monkeypatch.setattr(writers, "OUTCOMES_MAX", 4)
    for request in range(1, 10):
        registered.perform(WRITER, request, 0, (Outcome(request, request, REFUSED),))
    assert [each.first_request for each in remembered(registered)] == [6, 7, 8, 9]
    assert registered.has_done(WRITER, 9)


# -- registration ----------------------------------------------------------------------------------


OTHER, THIRD = writer_id(2), writer_id(3)


def full(monkeypatch, count=2):
    """Give a ledger that has room for so many writers, and has them."""
    monkeypatch.setattr(writers, "WRITERS_MAX", count)
    known = Writers()
    for number in range(1, count + 1):
        known.register(number, Registered(writer_id(number), 0, None))
    return known


def test_a_writer_is_registered_once():
    known = Writers()
    asked = Register(WRITER, 6)
    assert known.judge_registration(asked) == Append(Registered(WRITER, 6, None))
    known.stage_registration(8, Registered(WRITER, 6, None))
    assert known.judge_registration(asked) == Staged(8)
    assert known.judge_request(WRITER, 8, (7, 7), 0) == Answer(UnknownWriter(8))
    assert known.register(8, Registered(WRITER, 6, None)) == Registration(8, 6)
    assert known.judge_registration(asked) == Answer(Registration(8, 6))
    assert known.judge_request(WRITER, 8, (7, 7), 0) is None
    assert len(known) == 1


def test_the_writer_that_was_idle_longest_makes_room(monkeypatch):
    known = full(monkeypatch)
    assert known.judge_registration(Register(THIRD)) == Append(Registered(THIRD, 0, WRITER))
    known = full(monkeypatch)
    known.perform(WRITER, 1, 0, (Outcome(1, 1, REFUSED),))
    assert known.judge_registration(Register(THIRD)) == Append(Registered(THIRD, 0, OTHER))
    known.register(9, Registered(THIRD, 0, OTHER))
    assert [row.writer for row in known.rows()] == [WRITER, THIRD]
    assert known.judge_request(OTHER, 2, (1, 1), 0) == Answer(UnknownWriter(2))


def test_a_writer_that_was_served_at_once_is_not_idle_either(monkeypatch):
    known = full(monkeypatch)
    assert known.judge_registration(Register(THIRD)).body.evicted == WRITER
    known.perform(WRITER, 1, 0, (Outcome(1, 1, REFUSED),))
    assert known.judge_registration(Register(THIRD)).body.evicted == OTHER


def test_a_writer_whose_request_is_staged_is_not_idle(monkeypatch):
    for is_asked_before in (False, True):
        known = full(monkeypatch)
        if is_asked_before:
            known.judge_registration(Register(THIRD))
        known.stage_request(9, WRITER, 1)
        assert known.judge_registration(Register(THIRD)).body.evicted == OTHER
        known.undo()
        assert known.judge_registration(Register(THIRD)).body.evicted == WRITER


def test_each_of_several_writers_that_are_registered_at_once_has_its_own_room(monkeypatch):
    for is_asked_before in (False, True):
        known = full(monkeypatch)
        if is_asked_before:
            known.judge_registration(Register(THIRD))
        known.stage_registration(8, Registered(THIRD, 0, WRITER))
        assert known.judge_request(WRITER, 1, (1, 1), 0) == Answer(UnknownWriter(1))
        again = known.judge_registration(Register(WRITER))
        assert again == Append(Registered(WRITER, 0, OTHER)), "it was put out a moment ago"
        known.stage_registration(9, again.body)
        known.register(8, Registered(THIRD, 0, WRITER))
        known.register(9, again.body)
        assert [row.writer for row in known.rows()] == [THIRD, WRITER]
        assert known.judge_registration(Register(OTHER)).body.evicted == THIRD


def test_a_registration_that_is_staged_takes_room(monkeypatch):
    known = full(monkeypatch)
    monkeypatch.setattr(writers, "WRITERS_MAX", 3)
    assert known.judge_registration(Register(THIRD)).body.evicted is None
    known.stage_registration(8, Registered(THIRD, 0, None))
    fourth = Register(writer_id(4))
    assert known.judge_registration(fourth).body.evicted == WRITER
    known.stage_registration(9, Registered(fourth.writer, 0, WRITER))
    assert known.judge_registration(Register(writer_id(5))).body.evicted == OTHER
    known.undo()
    assert known.judge_registration(fourth).body.evicted is None
    assert known.judge_request(WRITER, 1, (1, 1), 0) is None


# -- the next request ------------------------------------------------------------------------------


def test_a_request_is_the_next_or_one_that_was_done_or_out_of_order(registered):
    registered.perform(WRITER, 3, 0, (Outcome(1, 3, Applied(1)),))
    registered.perform(WRITER, 4, 0, (Outcome(4, 4, REFUSED),))
    ask = registered.judge_request
    assert ask(WRITER, 5, (5, 6), 0) is None
    assert ask(WRITER, 5, (6, 6), 0) == Answer(OutOfOrder(5))
    assert ask(WRITER, 5, (6, 6), 5) is None, "a lead by force has lost what it has heard of"
    assert ask(WRITER, 5, (7, 7), 5) == Answer(OutOfOrder(5))
    assert ask(WRITER, 5, (4, 4), 0) == Answer((Outcome(4, 4, REFUSED),))
    assert ask(WRITER, 5, (2, 3), 0) == Answer((Outcome(2, 3, Applied(2)),))
    assert ask(WRITER, 6, (5, 5), 0) == Answer(UnknownWriter(6))
    assert ask(OTHER, 5, (5, 5), 0) == Answer(UnknownWriter(5))
    with pytest.raises(DecodeError, match="requests 4 to 5 were numbered otherwise before"):
        ask(WRITER, 5, (4, 5), 0)


def test_a_request_that_is_staged_is_answered_by_its_own_entry(registered):
    ask = registered.judge_request
    for index, last in ((7, 2), (8, 3), (9, 5)):
        registered.stage_request(index, WRITER, last)
    assert [ask(WRITER, 5, asked, 0) for asked in ((1, 2), (3, 3), (4, 5))] == [
        Staged(7),
        Staged(8),
        Staged(9),
    ]
    assert ask(WRITER, 5, (6, 6), 0) is None
    assert ask(WRITER, 5, (7, 7), 0) == Answer(OutOfOrder(6))
    registered.perform(WRITER, 2, 0, (Outcome(1, 2, REFUSED),))
    assert ask(WRITER, 5, (1, 2), 0) == Answer((Outcome(1, 2, REFUSED),))
    assert ask(WRITER, 5, (3, 3), 0) == Staged(8)
    registered.undo()
    assert ask(WRITER, 5, (3, 3), 0) is None


def test_what_is_applied_of_a_writer_is_staged_no_more(registered):
    registered.stage_request(7, WRITER, 2)
    registered.perform(WRITER, 2, 0, (Outcome(1, 2, REFUSED),))
    assert registered.judge_request(WRITER, 5, (3, 3), 0) is None
    registered.stage_request(9, WRITER, 3)
    assert registered.judge_request(WRITER, 5, (3, 3), 0) == Staged(9)


def test_a_writer_whose_requests_are_all_applied_is_idle_again(monkeypatch):
    known = full(monkeypatch)
    known.stage_request(9, WRITER, 1)
    known.perform(WRITER, 1, 0, (Outcome(1, 1, REFUSED),))
    known.perform(OTHER, 1, 0, (Outcome(1, 1, REFUSED),))
    assert known.judge_registration(Register(THIRD)).body.evicted == WRITER


def test_what_is_joined_to_the_last_outcome_is_one_of_those_that_came(registered):
    registered.perform(WRITER, 3, 0, (Outcome(1, 3, Applied(1)),))
    registered.perform(WRITER, 6, 0, (Outcome(4, 5, Applied(4)), Outcome(6, 6, REFUSED)))
    assert remembered(registered) == [Outcome(1, 5, Applied(1)), Outcome(6, 6, REFUSED)]


# -- the outcomes of all writers -------------------------------------------------------------------


def test_the_writer_that_was_idle_longest_has_its_outcomes_forgotten(monkeypatch):
    monkeypatch.setattr(writers, "LEDGER_OUTCOMES_MAX", 4)
    rows = [LedgerRow(WRITER, 1, 9, OUTCOMES), LedgerRow(THIRD, 2, 0, ())]
    known = Writers(rows)
    known.register(3, Registered(OTHER, 0, None))
    known.perform(OTHER, 1, 0, (Outcome(1, 1, REFUSED),))
    assert [len(row.outcomes) for row in known.rows()] == [3, 0, 1]
    known.perform(OTHER, 2, 0, (Outcome(2, 2, REFUSED),))
    assert [(row.writer, len(row.outcomes)) for row in known.rows()] == [
        (WRITER, 0),
        (THIRD, 0),
        (OTHER, 2),
    ]
    known.perform(OTHER, 4, 0, (Outcome(3, 3, REFUSED), Outcome(4, 4, REFUSED)))
    assert [len(row.outcomes) for row in known.rows()] == [0, 0, 4], "as many as there may be"


def test_outcomes_that_are_heard_of_or_put_out_make_room(monkeypatch):
    monkeypatch.setattr(writers, "LEDGER_OUTCOMES_MAX", 3)
    known = full(monkeypatch)
    for request in (1, 2):
        known.perform(WRITER, request, 0, (Outcome(request, request, REFUSED),))
    known.perform(OTHER, 1, 0, (Outcome(1, 1, REFUSED),))
    known.perform(WRITER, 3, 2, (Outcome(3, 3, REFUSED),))
    known.perform(OTHER, 2, 0, (Outcome(2, 2, REFUSED),))
    assert [len(row.outcomes) for row in known.rows()] == [1, 2]
    known.register(9, Registered(THIRD, 0, WRITER))
    known.perform(THIRD, 1, 0, (Outcome(1, 1, REFUSED),))
    assert [len(row.outcomes) for row in known.rows()] == [2, 1]
    known.register(10, Registered(THIRD, 4, None))
    assert known.judge_registration(Register(THIRD)) == Answer(Registration(10, 4))
    known.perform(THIRD, 5, 0, (Outcome(5, 5, REFUSED),))
    assert [len(row.outcomes) for row in known.rows()] == [2, 1], "a new life has none of the old"


def test_a_writer_that_has_heard_of_everything_holds_no_outcomes(monkeypatch):
    monkeypatch.setattr(writers, "LEDGER_OUTCOMES_MAX", 1)
    known = full(monkeypatch)
    known.perform(WRITER, 1, 0, (Outcome(1, 1, REFUSED),))
    known.perform(WRITER, 2, 2, ())
    known.perform(OTHER, 1, 0, (Outcome(1, 1, REFUSED),))
    assert [(row.writer, len(row.outcomes)) for row in known.rows()] == [(WRITER, 0), (OTHER, 1)]


def test_whoever_asked_last_keeps_its_outcomes_longest(monkeypatch):
    monkeypatch.setattr(writers, "LEDGER_OUTCOMES_MAX", 3)
    known = full(monkeypatch, 3)
    for writer, request in ((WRITER, 1), (OTHER, 1), (WRITER, 2), (THIRD, 1)):
        known.perform(writer, request, 0, (Outcome(request, request, REFUSED),))
    assert {row.writer: len(row.outcomes) for row in known.rows()} == {
        WRITER: 2,
        OTHER: 0,
        THIRD: 1,
    }


def test_a_record_is_made_anew_once_it_changes(registered):
    (before,) = registered.rows()
    assert next(registered.rows()) is before
    registered.perform(WRITER, 1, 0, (Outcome(1, 1, REFUSED),))
    assert next(registered.rows()) == LedgerRow(WRITER, 5, 1, (Outcome(1, 1, REFUSED),))
    assert before == LedgerRow(WRITER, 5, 0, ())
