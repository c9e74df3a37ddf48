"""The table: what each action does, how it counts revisions, and what events tell of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from stores.actions import (
    Action,
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
from stores.effects import Changed
from stores.table import ChangeKind, Columns, Entry, Table
from stores.table.events import changes_of, differences
from stores.table.overlay import Overlay
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


# -- events --------------------------------------------------------------------------------------


def plain(changes: Iterable[Changed]) -> list[tuple[object, ...]]:
    return [
        (each.kind, each.key, each.before and each.before.value, each.after and each.after.value)
        for each in changes
    ]


def told(overlay: Overlay, *actions: Action) -> list[tuple[object, ...]]:
    """Commit actions, and give what is told of each before it is done."""
    found: list[tuple[object, ...]] = []
    for action in actions:
        found += plain(changes_of(action, overlay))
        overlay.commit(action)
    return found


def test_events_are_of_inserts_updates_erasures_and_expiries(table):
    overlay = Overlay(table)
    assert told(
        overlay,
        put(b"a", b"1", b"a", b"1", b"b", b"2"),
        EraseCommand(W, 4, [b"a", b"missing"]),
        ExpireCommand([b"b"]),
    ) == [
        (ChangeKind.INSERT, b"a", None, b"1"),
        (ChangeKind.UPDATE, b"a", b"1", b"1"),
        (ChangeKind.INSERT, b"b", None, b"2"),
        (ChangeKind.ERASE, b"a", b"1", None),
        (ChangeKind.EXPIRE, b"b", b"2", None),
    ]
    assert overlay.revision == 6


def test_events_are_of_each_key_that_a_clear_removes(table):
    table.apply(put(b"a", b"1", b"b", b"2"))
    assert told(Overlay(table), ClearCommand(W, 3)) == [
        (ChangeKind.CLEAR, b"a", b"1", None),
        (ChangeKind.CLEAR, b"b", b"2", None),
    ]


def test_events_are_of_the_differences_that_a_snapshot_makes(table):
    table.apply(put(b"same", b"1", b"changed", b"2", b"gone", b"3"))
    other = Table()
    other.apply(put(b"same", b"1", b"changed", b"4", b"new", b"5"))
    assert plain(differences(Overlay(table), other.columns, 9)) == [
        (ChangeKind.ERASE, b"gone", b"3", None),
        (ChangeKind.UPDATE, b"changed", b"2", b"4"),
        (ChangeKind.INSERT, b"new", None, b"5"),
    ]
