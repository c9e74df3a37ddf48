"""The table: what each action does, how it counts revisions, and what events tell of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from stores import index
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
from stores.limits import EXPIRY_END_NS
from stores.lives import life_of
from stores.table import ChangeKind, Columns, Entry, Table
from stores.table.overlay import Overlay, Skip, entries_of, keys_of, mutation_count
from stores.table.rows import Rows, rows_of
from stores.table.telling import Telling
from wire.decoding import decode
from wire.encoding import encode
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


def told(overlay: Overlay, *actions: Action) -> list[Changed]:
    """Commit actions, and give what is told of each before it is done."""
    found: list[Changed] = []
    telling = Telling()
    telling.observe(found.append)
    for action in actions:
        telling.change(action, overlay)
        overlay.commit(action)
    return found


def told_of(old: Overlay, new: Overlay) -> list[Changed]:
    """Give what is told of a state in the place of another one."""
    found: list[Changed] = []
    telling = Telling()
    telling.observe(found.append)
    telling.hide(old)
    telling.reveal(new)
    return found


def test_events_are_of_inserts_updates_erasures_and_expiries(table):
    overlay = Overlay(table)
    found = told(
        overlay,
        put(b"a", b"1", b"a", b"1", b"b", b"2"),
        EraseCommand(W, 4, [b"a", b"missing"]),
        ExpireCommand([b"b"]),
    )
    assert plain(found) == [
        (ChangeKind.INSERT, b"a", None, b"1"),
        (ChangeKind.UPDATE, b"a", b"1", b"1"),
        (ChangeKind.INSERT, b"b", None, b"2"),
        (ChangeKind.ERASE, b"a", b"1", None),
        (ChangeKind.EXPIRE, b"b", b"2", None),
    ]
    assert overlay.revision == 6


def test_events_are_of_each_key_that_a_clear_removes(table):
    table.apply(put(b"a", b"1", b"b", b"2"))
    assert plain(told(Overlay(table), ClearCommand(W, 3))) == [
        (ChangeKind.CLEAR, b"a", b"1", None),
        (ChangeKind.CLEAR, b"b", b"2", None),
    ]


def test_events_are_of_the_differences_that_a_snapshot_makes(table):
    table.apply(put(b"same", b"1", b"changed", b"2", b"gone", b"3"))
    other = Table()
    other.apply(put(b"same", b"1", b"changed", b"4", b"new", b"5"))
    assert plain(told_of(Overlay(table), Overlay(other))) == [
        (ChangeKind.ERASE, b"gone", b"3", None),
        (ChangeKind.UPDATE, b"changed", b"2", b"4"),
        (ChangeKind.INSERT, b"new", None, b"5"),
    ]


def test_events_say_who_wrote_and_which_mutation_it_was(table):
    table.apply(put(b"x", b"1"))
    overlay = Overlay(table)
    changes = (Change(b"missing", None, None), Change(b"a", b"3", None), Change(b"b", b"4", None))
    found = told(
        overlay,
        put(b"a", b"1", b"b", b"2"),
        EraseCommand(W, 4, [b"missing", b"b"]),
        BatchResultCommand(W, 5, True, changes),
        ExpireCommand([b"x"]),
        ClearCommand(W, 6),
    )
    assert [(each.key, each.writer, each.revision) for each in found] == [
        *[(b"a", W, 2), (b"b", W, 3)],
        (b"b", W, 5),
        *[(b"a", W, 6), (b"b", W, 6)],
        (b"x", None, 7),
        *[(b"a", W, 8), (b"b", W, 8)],
    ]
    assert overlay.revision == 8
    other = Table(revision=8)
    other.apply(put(b"new", b"1"))
    old = Overlay(Table())
    old.commit(put(b"gone", b"1"))
    assert [(each.writer, each.revision) for each in told_of(old, Overlay(other))] == [
        (None, 9),
        (None, 9),
    ]


# -- columns -------------------------------------------------------------------------------------


def largest_in(columns):
    return max(len(key) + len(value) for key, value in columns.values.items())


def measured(columns: Columns) -> int:
    """Count the bytes of all that is there, as ``size`` should."""
    return sum(len(key) + len(value) for key, value in columns.values.items())


@pytest.mark.parametrize(
    "pairs",
    [
        [b"a", b"1234"],
        [b"key", b"12"],
        [b"new", b"1", b"newer", b"23"],
        [b"key", b"1", b"other", b"23456"],
        [b"key", b"1", b"new", b"23"],
        [b"key", b"1", b"key", b"234", b"key", b"56"],
        [b"new", b"1", b"new", b"234"],
        [b"new", b"1"] * 5,
        [b"key", b"1", b"new", b"23", b"new", b"4567", b"other", b"8"],
    ],
)
def test_the_size_is_that_of_all_keys_and_values(table, pairs):
    table.apply(put(b"key", b"123", b"other", b"4"))
    table.apply(put(*pairs))
    columns = table.columns
    assert columns.size == measured(columns)
    assert columns.values == {b"key": b"123", b"other": b"4"} | dict(
        zip(pairs[::2], pairs[1::2], strict=True)
    )
    last = {key: 3 + at for at, key in enumerate(pairs[::2])}
    assert columns.revisions == {b"key": 1, b"other": 2} | last
    assert table.revision == 2 + len(pairs) // 2
    assert columns.copy().size == columns.size
    assert columns.largest >= largest_in(columns)
    columns.size = columns.largest = 0
    columns.measure()
    assert columns.size == measured(columns)
    assert columns.largest >= largest_in(columns)


def test_the_size_follows_entries_that_are_set_and_removed_one_by_one():
    columns = Columns()
    columns.measure()
    assert columns.size == columns.largest == Columns().largest == 0
    columns.set(b"key", Entry(b"123", 1, 50))
    columns.set(b"key", Entry(b"12345", 2, None))
    assert (columns.size, columns.expiries) == (8, {})
    columns.set(b"b", Entry(b"1", 3, 9))
    assert columns.size == 10
    columns.discard(b"missing")
    columns.discard(b"key")
    assert (columns.size, list(columns.revisions), columns.expiries) == (2, [b"b"], {b"b": 9})
    columns.set(b"b", None)
    assert (columns.size, columns.revisions, columns.expiries) == (0, {}, {})


def test_columns_are_equal_by_their_entries():
    first, second = Columns(), Columns()
    for key in (b"a", b"b"):
        first.set(key, Entry(b"1", 1, None))
    for key in (b"b", b"a"):
        second.set(key, Entry(b"1", 1, None))
    assert first == second
    assert first != [b"a", b"b"]
    for entry in (Entry(b"2", 1, None), Entry(b"1", 2, None), Entry(b"1", 1, 9)):
        second.set(b"a", entry)
        assert first != second


def test_an_entry_is_dated_by_when_the_group_began():
    assert Entry(b"1", 1, 5).dated(100) == Entry(b"1", 1, 105)
    assert Entry(b"1", 1, None).dated(100).expires_at_ns is None
    assert Entry(b"1", 1, life_of(3)).dated(100).expires_at_ns == life_of(3)


def test_some_keys_are_as_they_were(table):
    table.apply(put(b"a", b"1", b"b", b"2", expiry_ns=5))
    table.index()
    before = {key: table.columns.entry(key) for key in (b"a", b"b", b"c")}
    table.apply(put(b"b", b"3", b"c", b"4"))
    table.apply(EraseCommand(W, 5, [b"a"]))
    table.restore(before, 2)
    assert [table.columns.entry(key) for key in before] == list(before.values())
    assert (table.revision, len(table)) == (2, 2)
    assert sorted(table.columns) == [b"a", b"b"]
    assert table.get(b"a") == b"1"
    assert table.get(b"c") is None


def test_the_order_of_keys_is_kept_up_to_date(table, monkeypatch):
    monkeypatch.setattr(index, "SLACK_COUNT", 0)
    assert table.apply(numbered(5, 3, 9))
    assert [table.catch_up(2), table.catch_up(2), table.catch_up(2)] == [2, 1, 0]

    def ordered() -> list[object]:
        known = table.index()
        return [decode(key) for _, keys in known.parts(b"", None, 9) for key in keys]

    assert ordered() == [3, 5, 9]
    table.apply(numbered(4, 3))
    assert ordered() == [3, 4, 5, 9]
    table.apply(numbered(*range(20, 40)))
    table.apply(EraseCommand(W, 9, [encode(3), encode(20)]))
    assert ordered() == [4, 5, 9, *range(21, 40)]


def numbered(*keys: int) -> PutCommand:
    return put(*(each for key in keys for each in (encode(key), b"1")))


def test_a_table_has_the_columns_that_it_is_given():
    columns = Columns()
    columns.set(b"a", Entry(b"1", 1, None))
    assert Table(columns, 7).columns is columns
    assert Table(columns, 7).revision == 7


class Seen:
    """Notes what a walk is told."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def remember(self, keys: Iterable[bytes]) -> None:
        self.keys += keys


def test_what_goes_through_a_table_is_told_of_keys_before_they_change(table):
    table.apply(put(b"a", b"1"))
    table.walk = walk = Seen()
    table.apply(put(b"b", b"2", b"c", b"3"))
    table.apply(EraseCommand(W, 4, [b"a", b"d"]))
    table.apply(BatchResultCommand(W, 5, True, (Change(b"e", b"4", None),)))
    table.restore({b"f": None}, 2)
    assert walk.keys == [b"b", b"c", b"a", b"d", b"e", b"f"]
    table.apply(ClearCommand(W, 6))
    assert table.walk is None, "it has the old columns to itself"


# -- rows ----------------------------------------------------------------------------------------


def four(table: Table) -> Columns:
    for number, expiry_ns in ((1, None), (2, 50), (3, None), (4, life_of(7))):
        table.apply(put(b"%d" % number, b"v%d" % number, expiry_ns=expiry_ns))
    return table.columns


FOUR = [
    (b"1", b"v1", 1, None),
    (b"2", b"v2", 2, 50),
    (b"3", b"v3", 3, None),
    (b"4", b"v4", 4, life_of(7)),
]


def test_rows_are_of_the_keys_that_are_there(table):
    columns = four(table)
    assert list(Rows.of(columns, [b"2", b"missing", b"1"])) == [FOUR[1], FOUR[0]]
    assert list(Rows.of(columns, [b"1", b"2", b"3", b"4"])) == FOUR
    columns.expiries.clear()
    rows = Rows.of(columns, [b"2"])
    assert (rows.expiries, list(rows)) == ((), [(b"2", b"v2", 2, None)])


def test_rows_are_cut_chosen_and_joined(table):
    rows = Rows.of(four(table), [b"1", b"2", b"3", b"4"])
    assert list(rows.first(2)) == FOUR[:2]
    assert rows.first(4) is rows
    assert rows.first(9) is rows
    assert list(rows.chosen([True, False, False, True])) == [FOUR[0], FOUR[3]]
    plain_rows = Rows([b"9"], [b"v9"], [9])
    joined = Rows.joined([plain_rows, rows.first(2), plain_rows])
    assert list(joined) == [(b"9", b"v9", 9, None), *FOUR[:2], (b"9", b"v9", 9, None)]
    assert len(joined.expiries) == 4
    assert list(Rows.joined([plain_rows, plain_rows]).expiries) == []
    assert Rows.joined([rows]) is rows
    assert len(Rows.joined([])) == 0
    assert list(Rows([b"9"], [], [9])) == [(b"9", b"", 9, None)], "no values were asked for"
    assert rows.first(2).entries() == [(b"1", Entry(b"v1", 1, None)), (b"2", Entry(b"v2", 2, 50))]


def test_rows_that_were_looked_up_have_expiries_if_any_expires():
    entries = [(b"1", Entry(b"v1", 1, None)), (b"2", Entry(b"v2", 2, 50))]
    assert list(Rows.listed(iter(entries))) == FOUR[:2]
    assert Rows.listed(entries[:1]) == Rows([b"1"], [b"v1"], [1], ())
    assert len(Rows.listed([])) == 0


def test_rows_are_dated_by_when_the_group_began(table):
    rows = Rows.of(four(table), [b"1", b"2", b"4"])
    assert list(rows.dated(100).expiries) == [None, 150, life_of(7)]
    assert rows.dated(0) is rows
    assert list(rows.dated(EXPIRY_END_NS).expiries) == [None, EXPIRY_END_NS - 1, life_of(7)]
    first_session = Rows([b"1"], [b"v1"], [1], [life_of(0)])
    assert first_session.dated(100) == first_session
    without = Rows([b"1"], [b"v1"], [1])
    assert without.dated(100) is without


def test_an_earlier_past_hides_a_later_one_and_the_table(table):
    columns = four(table)
    first = {b"1": None, b"2": Entry(b"old", 9, None)}
    second = {b"2": None, b"3": Entry(b"older", 8, 7)}
    keys = [b"3", b"2", b"1", b"4", b"missing"]
    assert list(rows_of(columns, iter(keys), first, second)) == [
        (b"3", b"older", 8, 7),
        (b"2", b"old", 9, None),
        FOUR[3],
    ]
    assert list(rows_of(columns, keys, {b"other": None}, {})) == [
        FOUR[2],
        FOUR[1],
        FOUR[0],
        FOUR[3],
    ]


# -- what is staged ------------------------------------------------------------------------------


def batch(*changes: Change) -> BatchResultCommand:
    return BatchResultCommand(W, 1, True, changes)


@pytest.mark.parametrize(
    ("action", "keys", "count", "growth"),
    [
        (put(b"a", b"1", b"bc", b"234"), [b"a", b"bc"], 2, (2, 7)),
        (EraseCommand(W, 1, [b"a", b"b"]), [b"a", b"b"], 2, (0, 0)),
        (ExpireCommand([b"a"]), [b"a"], 1, (0, 0)),
        (ClearCommand(W, 1), [], 1, (0, 0)),
        (batch(Change(b"a", None, None), Change(b"bc", b"234", 5)), [b"a", b"bc"], 1, (2, 6)),
        (RefusalCommand(W, 1, ErrorCode.NO_SUCH_KEY, ""), [], 0, (0, 0)),
        (Skip(7), [], 7, (0, 0)),
    ],
)
def test_what_an_action_names_counts_and_may_add(table, action, keys, count, growth):
    table.apply(put(b"x", b"12"))
    overlay = Overlay(table)
    assert list(keys_of(action)) == keys
    assert mutation_count(action) == count
    assert overlay.size_bound == (1, 3)
    overlay.stage([action])
    assert overlay.size_bound == (1 + growth[0], 3 + growth[1])
    overlay.commit(action)
    assert overlay.revision == 1 + count
    assert overlay.size_bound == (len(overlay), measured(overlay.committed.columns))


def test_what_an_action_leaves_has_its_revision():
    a_put = put(b"a", b"1", b"b", b"2", expiry_ns=5)
    assert list(entries_of(a_put, 7)) == [(b"a", Entry(b"1", 8, 5)), (b"b", Entry(b"2", 9, 5))]
    changes = batch(Change(b"a", None, None), Change(b"b", b"2", 5))
    assert list(entries_of(changes, 7)) == [(b"a", None), (b"b", Entry(b"2", 8, 5))]
    assert list(entries_of(ExpireCommand([b"a"]), 7)) == [(b"a", None)]


STAGED = (
    put(b"1", b"w1", b"5", b"w5", b"1", b"w6"),
    EraseCommand(W, 1, [b"2", b"6"]),
    put(b"5", b"w7", expiry_ns=9),
    batch(Change(b"3", None, None), Change(b"2", b"w8", 6)),
    Skip(3),
    put(b"1", b"w9"),
    ClearCommand(W, 1),
    put(b"3", b"x3"),
    ExpireCommand([b"3"]),
    put(b"4", b"x4"),
)


def seen(overlay: Overlay) -> dict[bytes, Entry | None]:
    """Give what readers see, which each way to look has to say."""
    found = {key: overlay.entry(key) for key in overlay}
    keys = [b"%d" % number for number in range(9)]
    assert {key for key in keys if key in overlay} == set(found)
    assert len(overlay) == len(found)
    values = {key: entry and entry.value for key, entry in found.items()}
    assert [overlay.get(key) for key in keys] == [values.get(key) for key in keys]
    revisions = {key: entry and entry.revision for key, entry in found.items()}
    assert list(overlay.revisions(keys)) == [revisions.get(key) for key in keys]
    assert dict(overlay.rows(keys).entries()) == found
    copy = overlay.copy()
    assert {key: copy.entry(key) for key in copy} == found
    assert sorted(overlay.hidden_keys()) == sorted(set(found) - set(overlay.committed.columns))
    return found


@pytest.mark.parametrize("done", [0, 1, 4, len(STAGED)])
def test_readers_see_each_staged_action_once_it_is_committed(done):
    plain_one, staged_one = Overlay(Table()), Overlay(Table())
    for overlay in (plain_one, staged_one):
        four(overlay.committed)
        overlay.revision = 4
    staged_one.stage(STAGED[:done])
    staged_one.latest()
    staged_one.stage(STAGED[done:])
    assert staged_one.has_clear is (done == len(STAGED))
    for action in STAGED:
        assert seen(staged_one) == seen(plain_one)
        assert staged_one.revision == plain_one.revision
        plain_one.commit(action)
        staged_one.commit(action)
    assert seen(staged_one) == seen(plain_one) == {b"4": Entry(b"x4", 19, None)}
    assert not staged_one.past
    assert staged_one.size_bound == plain_one.size_bound == (1, 3)


@pytest.mark.parametrize("done", range(len(STAGED) + 1))
def test_all_that_is_staged_is_taken_back(table, done):
    four(table)
    overlay = Overlay(table)
    before = seen(overlay)
    overlay.stage(STAGED[:done])
    overlay.latest()
    overlay.stage([*STAGED[done:], ExpireCommand([b"8"])])
    keys = overlay.undo()
    changed = {b"1": 1, b"5": 1, b"2": 2, b"6": 2, b"3": 4}
    assert set(keys) >= {b"8", b"3"} | {key for key, at in changed.items() if at <= done}
    assert seen(overlay) == before
    assert (overlay.revision, table.revision, overlay.has_clear) == (4, 4, False)
    assert overlay.size_bound == (4, 12)
    assert overlay.latest() is overlay.unfinished is table
    overlay.stage(STAGED[:1])
    overlay.commit(STAGED[0])
    assert overlay.get(b"1") == b"w6"


def test_what_is_committed_needs_no_past_any_more(table):
    overlay = Overlay(table)
    actions = put(b"a", b"1", b"b", b"1"), put(b"b", b"2"), put(b"c", b"3")
    overlay.stage(actions)
    overlay.latest()
    for action, keys in zip(actions, ([b"b", b"c"], [b"c"], []), strict=True):
        overlay.commit(action)
        assert sorted(overlay.past) == keys


def test_another_action_than_the_next_one_is_not_committed(table):
    for is_done in (False, True):
        overlay = Overlay(table)
        overlay.stage(STAGED[:1])
        if is_done:
            overlay.latest()
        with pytest.raises(AssertionError):
            overlay.commit(STAGED[1])
