"""The ledger of writers by itself: what it remembers, and what a member reads in it."""

from __future__ import annotations

import pytest

from stores.outcomes import FORGOTTEN, Applied, Outcome, Refused
from stores.table import writers
from stores.table.bodies import Registered
from stores.table.writers import LedgerRow, Writers
from tests.stores.table.lab import writer_id
from wire.errors import ErrorCode

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
