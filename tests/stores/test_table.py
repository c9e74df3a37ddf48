"""The table: what each action does, how it counts revisions, and what observers hear."""

from __future__ import annotations

import pytest

from stores.actions import (
    BatchResultCommand,
    Change,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
    PutUniqueResultCommand,
    RefusalCommand,
    WriterId,
)
from stores.table import ChangeKind, Columns, Entry, Table
from wire.errors import ErrorCode
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)


def put(*pairs: bytes, expiry_ns: int | None = None) -> PutCommand:
    return PutCommand(W, 1, expiry_ns, pairs)


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_run_of_puts_gives_each_pair_its_own_revision(table):
    table.apply(put(b"a", b"1", b"b", b"2", b"a", b"3"))
    assert table.columns.entry(b"a") == Entry(b"3", 3, None)
    assert table.columns.entry(b"b") == Entry(b"2", 2, None)
    assert table.revision == 3
    assert len(table) == 2


def test_a_put_without_expiry_clears_an_existing_one(table):
    table.apply(put(b"a", b"1", expiry_ns=50))
    assert table.columns.entry(b"a") == Entry(b"1", 1, 50)
    table.apply(put(b"a", b"2"))
    assert table.columns.entry(b"a") == Entry(b"2", 2, None)
    assert table.columns.expiries == {}


def test_erasing_leaves_nothing_behind_and_counts_missing_keys_too(table):
    table.apply(put(b"a", b"1", expiry_ns=50))
    table.apply(EraseCommand(W, 2, [b"a", b"missing"]))
    assert table.columns == Columns()
    assert table.revision == 3


def test_expired_keys_are_removed(table):
    table.apply(put(b"a", b"1", b"b", b"2", expiry_ns=50))
    table.apply(ExpireCommand([b"a"]))
    assert list(table.columns) == [b"b"]
    assert table.revision == 3


def test_clearing_is_one_mutation(table):
    table.apply(put(b"a", b"1", b"b", b"2", expiry_ns=50))
    table.apply(ClearCommand(W, 3))
    assert table.columns == Columns()
    assert table.revision == 3


def test_a_batch_is_one_mutation_of_several_keys(table):
    table.apply(put(b"a", b"1", b"b", b"2"))
    changes = (Change(b"a", None, None), Change(b"b", b"3", 9), Change(b"c", b"4", None))
    table.apply(BatchResultCommand(W, 3, True, changes))
    assert table.columns.entry(b"a") is None
    assert table.columns.entry(b"b") == Entry(b"3", 3, 9)
    assert table.columns.entry(b"c") == Entry(b"4", 3, None)


@pytest.mark.parametrize(
    "answer",
    [
        PutUniqueResultCommand(W, 1, is_inserted=True),
        RefusalCommand(W, 1, ErrorCode.NO_SUCH_KEY, ""),
    ],
)
def test_answers_change_nothing(table, answer):
    assert not table.apply(answer)
    assert table.revision == 0


def test_a_copy_stays_as_it_was(table):
    table.apply(put(b"a", b"1", expiry_ns=50))
    copy = table.columns.copy()
    table.apply(put(b"a", b"2", b"b", b"3"))
    assert copy.entry(b"a") == Entry(b"1", 1, 50)
    assert list(copy) == [b"a"]


def test_whoever_has_to_remember_the_past_is_asked_before_each_change(table):
    seen = []
    table.before = lambda keys: seen.append([(key, table.get(key)) for key in keys])
    table.apply(put(b"a", b"1"))
    table.apply(put(b"a", b"2"))
    table.apply(EraseCommand(W, 3, [b"a"]))
    table.apply(BatchResultCommand(W, 4, True, (Change(b"b", b"1", None),)))
    table.apply(ClearCommand(W, 5))
    assert seen == [[(b"a", None)], [(b"a", b"1")], [(b"a", b"2")], [(b"b", None)], [(b"b", b"1")]]


def observed(table: Table) -> list[tuple[ChangeKind, bytes, bytes | None, bytes | None]]:
    changes = []

    def observer(kind, key, before, after, writer, revision):
        changes.append((kind, key, before and before.value, after and after.value))

    table.observer = observer
    return changes


def test_observers_hear_of_inserts_updates_erasures_and_expiries(table):
    changes = observed(table)
    table.apply(put(b"a", b"1", b"a", b"1", b"b", b"2"))
    table.apply(EraseCommand(W, 4, [b"a", b"missing"]))
    table.apply(ExpireCommand([b"b"]))
    assert changes == [
        (ChangeKind.INSERT, b"a", None, b"1"),
        (ChangeKind.UPDATE, b"a", b"1", b"1"),
        (ChangeKind.INSERT, b"b", None, b"2"),
        (ChangeKind.ERASE, b"a", b"1", None),
        (ChangeKind.EXPIRE, b"b", b"2", None),
    ]
    assert table.revision == 6


def test_observers_hear_of_each_key_that_a_clear_removes(table):
    table.apply(put(b"a", b"1", b"b", b"2"))
    changes = observed(table)
    table.apply(ClearCommand(W, 3))
    assert changes == [(ChangeKind.CLEAR, b"a", b"1", None), (ChangeKind.CLEAR, b"b", b"2", None)]


def test_observers_hear_the_differences_that_a_snapshot_makes(table):
    table.apply(put(b"same", b"1", b"changed", b"2", b"gone", b"3"))
    changes = observed(table)
    other = Table()
    other.apply(put(b"same", b"1", b"changed", b"4", b"new", b"5"))
    table.load(other.columns, 9)
    assert changes == [
        (ChangeKind.ERASE, b"gone", b"3", None),
        (ChangeKind.UPDATE, b"changed", b"2", b"4"),
        (ChangeKind.INSERT, b"new", None, b"5"),
    ]
    assert table.revision == 9


def test_an_observed_table_ends_up_like_one_that_is_not(table):
    other = Table()
    observed(other)
    for action in (
        put(b"a", b"1", b"b", b"2", expiry_ns=5),
        put(b"b", b"3", b"c", b"4"),
        EraseCommand(W, 5, [b"a"]),
        BatchResultCommand(W, 6, True, (Change(b"d", b"5", 7), Change(b"c", None, None))),
    ):
        table.apply(action)
        other.apply(action)
    assert table.columns == other.columns
    assert table.revision == other.revision
