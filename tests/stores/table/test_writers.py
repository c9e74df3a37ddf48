"""The ledger of writers: what it remembers of each one's requests, and for how long."""

from __future__ import annotations

import pytest

from stores.actions import WriterId
from stores.outcomes import Applied, Outcome, Refused
from stores.table import writers as ledger
from stores.table.bodies import Registered
from stores.table.writers import Writers
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)
REFUSED = Refused(ErrorCode.TYPE_CLASH, "no")


@pytest.fixture
def writers() -> Writers:
    known = Writers()
    known.register(5, Registered(W, 0, None))
    return known


def outcomes(writers: Writers) -> list[Outcome]:
    (row,) = writers.rows()
    assert (row.writer, row.number) == (W, 5)
    return list(row.outcomes)


def test_outcomes_that_follow_each_other_are_one(writers: Writers) -> None:
    writers.perform(W, 3, 0, (Outcome(1, 3, Applied(1)),))
    writers.perform(W, 6, 0, (Outcome(4, 6, Applied(4)),))
    assert outcomes(writers) == [Outcome(1, 6, Applied(1))]


def test_what_a_writer_has_heard_is_forgotten(writers: Writers) -> None:
    for request in (1, 2, 3):
        writers.perform(W, request, 0, (Outcome(request, request, REFUSED),))
    assert len(outcomes(writers)) == 3
    writers.perform(W, 4, 2, (Outcome(4, 4, REFUSED),))
    assert outcomes(writers) == [Outcome(3, 3, REFUSED), Outcome(4, 4, REFUSED)]
    assert writers.has_done(W, 4)
    assert not writers.has_done(W, 5)


def test_a_writer_that_hears_of_nothing_has_its_latest_outcomes_kept(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "OUTCOMES_MAX", 4)
    for request in range(1, 10):
        writers.perform(W, request, 0, (Outcome(request, request, REFUSED),))
    assert [each.first_request for each in outcomes(writers)] == [6, 7, 8, 9]
    assert writers.has_done(W, 9)
