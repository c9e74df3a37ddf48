"""The ledger of a swarm's log: what is allowed passes, and each broken promise is told."""

from __future__ import annotations

import pytest

from peermesh.testing.swarm.ledgers import Broken
from peermesh.testing.swarm.log_ledger import LogLedger


def ledger_of(count: int) -> LogLedger:
    ledger = LogLedger()
    for number in range(count):
        ledger.ask("ab"[number % 2])
    return ledger


def test_what_was_appended_is_read_once_and_in_order():
    ledger = LogLedger()
    append = ledger.ask("a")
    assert ledger.open("a") == [append]
    ledger.acknowledge(append, (0, 0))
    assert ledger.open("a") == []
    assert ledger.acknowledged == 1
    assert not ledger.has_read("reader", {0: 1, 1: 0})
    ledger.read("reader", (0, 0), 0)
    assert ledger.has_read("reader", {0: 1, 1: 0})
    ledger.check_kept({0: 1, 1: 0})


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((0, 1), 9, "made up"),
        ((0, 1), "x", "made up"),
        ((0, 0), 2, "two entries"),
        ((0, 1), 0, "appended twice"),
        ((0, 0), 0, "comes next"),
        ((0, 2), 2, "comes next"),
    ],
)
def test_an_entry_that_should_not_come_is_told(place, value, words):
    ledger = ledger_of(3)
    ledger.read("reader", (0, 0), 0)
    with pytest.raises(Broken, match=words):
        ledger.read("reader", place, value)


def test_a_receipt_for_an_offset_that_has_another_entry_is_told():
    ledger = LogLedger()
    first, second = ledger.ask("a"), ledger.ask("a")
    ledger.acknowledge(first, (0, 0))
    with pytest.raises(Broken, match="two entries"):
        ledger.acknowledge(second, (0, 0))


def test_an_acknowledged_entry_behind_the_end_is_told():
    ledger = LogLedger()
    ledger.acknowledge(ledger.ask("a"), (0, 0))
    with pytest.raises(Broken, match="lost"):
        ledger.check_kept({0: 0})


def test_entries_of_one_handle_that_change_places_are_told():
    ledger = ledger_of(3)
    ledger.read("reader", (0, 0), 2)
    ledger.read("reader", (0, 1), 1)
    ledger.check_kept({0: 2})
    ledger.read("reader", (0, 2), 0)
    with pytest.raises(Broken, match="out of order"):
        ledger.check_kept({0: 3})


def test_what_has_no_outcome_yet_is_open_and_what_never_gets_one_is_not():
    ledger = LogLedger()
    append = ledger.ask("a")
    append.is_unknown = True
    assert ledger.open("a") == []
