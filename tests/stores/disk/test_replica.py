"""A replica's file: one row and one sync for a run, rows that follow, tails that are cut."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stores.actions import PutCommand
from stores.disk.journal_entries import RUN_ENTRIES_MAX, RUN_SIZE_MAX, EntryRun, runs_of
from stores.disk.journal_rows import FORGOTTEN_ROWS
from stores.disk.lazy_rows import Checkpoint, Slice
from stores.disk.replica import LoadedReplica
from stores.group.clock import NO_TIMES, Times
from stores.group.effects import Persist, Snapshot
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.positions import Position
from stores.outcomes import WriterRow
from stores.persistence import Census, Changes, Rows
from stores.sealing import StorageKeys
from tests.stores.disk.replicas import (
    BODIES,
    FOUNDING,
    GROUP,
    VOTERS,
    WRITER,
    Replica,
    ReplicaKind,
    ReplicaModel,
    state_of,
)
from tests.stores.disk.slicing import sliced
from wire.errors import BackendFailure


@pytest.fixture(params=["plain", "sealed"])
def kind(request: pytest.FixtureRequest, keys: StorageKeys) -> ReplicaKind:
    return ReplicaKind(keys if request.param == "sealed" else None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def opened(kind: ReplicaKind, path: Path) -> Replica:
    replica = kind.make(path)
    if replica.load(FOUNDING).meta.group is None:
        replica.join(GROUP)
    return replica


def loaded(kind: ReplicaKind, path: Path) -> LoadedReplica:
    with closing(kind.make(path)) as replica:
        return replica.load(FOUNDING)


def put(key: int, term: int = 1, value: bytes = b"v") -> ActionEntry:
    return ActionEntry(term, PutCommand(WRITER, 1, None, [b"%d" % key, value]))


def append(replica: Replica, keep: int, entries: Sequence[Entry], **options: Any) -> None:
    replica.persist(Persist(1, None, keep, tuple(entries)), **options)


def count(path: Path, table: str = "journal") -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def point(index: int, floor: int = 0, term: int = 1) -> Checkpoint:
    at = Position(term, floor) if floor else Position(0, 0)
    return Checkpoint(Position(term, index), Times(index, index), at, VOTERS, b"more")


def changes_of(keys: range, first: int = 1) -> Changes:
    names = [b"%d" % key for key in keys]
    revisions = list(range(first, first + len(names)))
    rows = Rows(names, [b"v"] * len(names), revisions)
    census = Census(len(names), sum(revisions))
    return Changes(revisions[-1], rows=rows, census=census)


# -- the journal -------------------------------------------------------------------------------


def test_a_run_is_one_row_and_every_entry_comes_back(kind: ReplicaKind, path: Path) -> None:
    times = Times(5, 6)
    run: list[Entry] = [
        LeadEntry(1, times),
        VotersEntry(1, VOTERS),
        TimeEntry(1, times),
        VotersEntry(1, VOTERS, ("c", "d")),
        put(1),
    ]
    later: list[Entry] = [put(2, 2), LeadEntry(3, times), put(3, 3)]
    with closing(opened(kind, path)) as replica:
        append(replica, 0, run)
        append(replica, 5, later)
    assert count(path) == 3, "a row is of one term"
    assert loaded(kind, path).entries == run + later


def test_runs_are_divided_where_they_would_be_too_large() -> None:
    entries = [put(number) for number in range(2 * RUN_ENTRIES_MAX + 1)]
    runs = list(runs_of(7, entries, BODIES))
    assert [len(run.bodies) for run in runs] == [RUN_ENTRIES_MAX, RUN_ENTRIES_MAX, 1]
    assert all(after.first == run.last + 1 for run, after in pairwise(runs))
    large = [put(number, value=bytes(RUN_SIZE_MAX // 2)) for number in range(3)]
    assert [run.first for run in runs_of(7, large, BODIES)] == [7, 8, 9]
    huge = [put(1, value=bytes(2 * RUN_SIZE_MAX)), put(2)]
    assert [run.first for run in runs_of(7, huge, BODIES)] == [7, 8]


@pytest.mark.parametrize("size", range(12))
def test_a_run_that_was_cut_off_is_refused(size: int) -> None:
    data = EntryRun(1, 1, bytearray(2), [b"a", b""]).pack()
    assert len(data) == 11
    if size != len(data):
        with pytest.raises(ValueError, match="run"):
            EntryRun.unpack(1, 1, 2, data[:size])


def test_an_entry_of_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="entries of kind 9 are of a later version"):
        EntryRun(1, 1, bytearray([9]), [b""]).entries(BODIES)


def test_a_tail_is_cut_within_a_run_and_below_the_floor_of_it(
    kind: ReplicaKind, path: Path
) -> None:
    entries = [put(number) for number in range(6)]
    with closing(opened(kind, path)) as replica:
        append(replica, 0, entries[:1])
        append(replica, 1, entries[1:])
        replica.checkpoint(Slice(point(3, 3), changes_of(range(3)), is_last=True))
        append(replica, 4, [put(9, 2)])
        assert [entry.term for entry in loaded_now(replica)] == [1, 2]
        append(replica, 3, [put(8, 3)])
        append(replica, 4, [put(7, 3)])
    found = loaded(kind, path)
    assert found.meta.floor == Position(1, 3)
    assert found.entries == [put(8, 3), put(7, 3)]


def loaded_now(replica: Replica) -> list[Entry]:
    replica.close()
    return replica.load(FOUNDING).entries


def test_a_tail_that_was_cut_is_kept_when_that_is_asked_for(kind: ReplicaKind, path: Path) -> None:
    entries = [put(number) for number in range(4)]
    with closing(opened(kind, path)) as replica:
        append(replica, 0, entries)
        append(replica, 2, [put(9, 7)])
        append(replica, 2, [put(8, 8)], forced_after=1 << 40)
        append(replica, 2, [put(7, 9)], forced_after=1 << 40)
        append(replica, 2, [put(6, 9)], forced_after=1 << 40)
    names = sorted(each.name for each in path.parent.iterdir() if "lost" in each.name)
    assert names == ["store.db.lost-7", "store.db.lost-8", "store.db.lost-9"]
    lost = loaded(kind, path.with_name("store.db.lost-8"))
    assert lost.entries == [put(8, 8)]
    assert lost.meta.floor == Position(1, 2)
    assert lost.meta.group == GROUP
    assert path.with_name("store.db.lost-8").stat().st_mode & 0o777 == 0o600


def test_a_second_tail_of_a_term_takes_nothing_of_the_first(kind: ReplicaKind, path: Path) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1), put(2)])
        append(replica, 1, [put(3)], forced_after=1 << 40)
        append(replica, 1, [put(4, 2)], forced_after=1 << 40)
    first, second = (path.with_name(f"store.db.lost-1{end}") for end in ("", ".2"))
    assert loaded(kind, first).entries == [put(2)]
    assert loaded(kind, second).entries == [put(3)]


def test_what_a_snapshot_replaces_is_kept_when_that_is_asked_for(
    kind: ReplicaKind, path: Path
) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1), put(2), put(3)])
        replica.checkpoint(Slice(point(2, 1), changes_of(range(2)), is_last=True))
        snapshot = Snapshot(Position(9, 9), VOTERS, Times(9, 9), ())
        write = Persist(1, snapshot, 9, ())
        replica.persist(write, installed=[changes_of(range(9))], forced_after=1 << 40)
    assert loaded(kind, path).meta.floor == Position(9, 9)
    lost = loaded(kind, path.with_name("store.db.lost-1"))
    assert lost.entries == [put(2), put(3)]
    assert lost.meta.floor == Position(1, 1)


@pytest.mark.parametrize(("after", "forced_after"), [(3, 1 << 40), (0, 0)])
def test_what_a_snapshot_leaves_out_or_nothing_took_back_is_kept_nowhere_else(
    kind: ReplicaKind, path: Path, after: int, forced_after: int
) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1), put(2), put(3)])
        snapshot = Snapshot(Position(9, 9), VOTERS, Times(9, 9), (), after)
        write = Persist(1, snapshot, 9, ())
        replica.persist(write, installed=[changes_of(range(9))], forced_after=forced_after)
    assert not list(path.parent.glob("*.lost-*"))


def test_what_was_applied_is_never_cut(kind: ReplicaKind, path: Path) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1), put(2), put(3)])
        part = Slice(point(2), changes_of(range(2)), is_last=False)
        replica.checkpoint(part)
        with pytest.raises(AssertionError, match="not dropped"):
            append(replica, 1, [])


def test_a_row_in_the_place_of_another_group_or_position_is_refused(
    kind: ReplicaKind, path: Path
) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1)])
        append(replica, 1, [put(2)])
    content = path.read_bytes()
    swap = "UPDATE journal SET body = (SELECT body FROM journal WHERE first = 1)"
    for statement in (swap, "UPDATE journal SET term = 2 WHERE first = 2"):
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        with pytest.raises(BackendFailure, match=r"table journal: the entries from 2 on"):
            loaded(kind, path)


def test_a_hole_in_the_journal_is_noticed(kind: ReplicaKind, path: Path) -> None:
    with closing(opened(kind, path)) as replica:
        for index in range(5):
            append(replica, index, [put(index)])
        replica.checkpoint(Slice(point(5), changes_of(range(5)), is_last=True))
    content = path.read_bytes()
    for first, after in ((1, 0), (3, 2), (5, 4)):
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM journal WHERE first = ?", (first,))
        with pytest.raises(BackendFailure, match=f"entries after {after} are missing"):
            loaded(kind, path)


# -- rows that follow --------------------------------------------------------------------------


def test_rows_below_the_floor_go_a_few_with_each_commit(kind: ReplicaKind, path: Path) -> None:
    total = 2 * FORGOTTEN_ROWS + 5
    with closing(opened(kind, path)) as replica:
        for index in range(total):
            append(replica, index, [put(1)])
        replica.checkpoint(Slice(point(total, total), changes_of(range(1)), is_last=True))
    assert count(path) == total - FORGOTTEN_ROWS
    with closing(opened(kind, path)) as replica:
        append(replica, total, [put(2)])
        append(replica, total + 1, [put(2)])
    assert count(path) == 2
    assert loaded(kind, path).entries == [put(2), put(2)]


def test_a_checkpoint_that_was_interrupted_says_how_far_its_rows_may_reach(
    kind: ReplicaKind, path: Path
) -> None:
    entries = [put(number) for number in range(10)]
    row = WriterRow(WRITER, 9, ())
    changes = replace(changes_of(range(10)), writers=(row,))
    first, *rest = sliced(point(10, 4), changes, {}, 4)
    with closing(opened(kind, path)) as replica:
        append(replica, 0, entries)
        replica.checkpoint(first)
    found = loaded(kind, path)
    assert (found.meta.applied.index, found.meta.reached, found.revision) == (0, 10, 0)
    assert len(found.columns) == 4
    assert (found.entries, found.writers) == (entries, ())
    whole = state_of(found)[2]
    with closing(kind.make(path)) as replica:
        replica.load(FOUNDING)
        for part in rest:
            replica.checkpoint(part)
    found = loaded(kind, path)
    assert (found.meta.applied, found.meta.floor) == (Position(1, 10), Position(1, 4))
    assert (found.meta.times, found.meta.machine) == (Times(10, 10), b"more")
    assert (found.writers, found.revision) == ((row,), 10)
    assert found.entries == entries[4:]
    assert state_of(found)[2] == whole


def test_rows_are_never_ahead_of_the_journal(kind: ReplicaKind, path: Path) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1)])
        with pytest.raises(AssertionError, match="rows follow the journal"):
            replica.checkpoint(Slice(point(2), changes_of(range(2)), is_last=True))
    with closing(opened(kind, path.with_name("other.db"))) as replica:
        append(replica, 0, [put(1)])
        with pytest.raises(AssertionError, match=r"rows follow the journal(\n|$)"):
            replica.checkpoint(Slice(point(1, term=2), changes_of(range(1)), is_last=True))
        with pytest.raises(AssertionError, match="each of them"):
            replica.checkpoint(Slice(point(1), changes_of(range(2)), is_last=True, reached=2))


def test_a_checkpoint_that_a_snapshot_overtook_is_not_written(
    kind: ReplicaKind, path: Path
) -> None:
    model = ReplicaModel(Random(3))
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1), put(2)])
        early = Slice(point(2), changes_of(range(2)), is_last=True)
        model.entries, model.committed = [put(1), put(2)], 2
        model.install()(replica)
        with pytest.raises(AssertionError):
            replica.checkpoint(early)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_done_to_it_comes_back(kind: ReplicaKind, path: Path, seed: int) -> None:
    replica = kind.make(path)
    kind.load(replica)
    for number, (step, state) in enumerate(ReplicaModel(Random(seed)).steps(24)):
        replica.commit(step)
        if number % 4 == 3:
            replica.close()
            replica = kind.make(path)
            assert kind.load(replica) == state
    replica.close()


def test_a_file_keeps_the_name_of_its_store_whatever_is_written(
    kind: ReplicaKind, path: Path
) -> None:
    with closing(opened(kind, path)):
        pass  # as a build did that knew no names
    with closing(kind.make(path, name="cities")) as replica:
        replica.load(FOUNDING)
        append(replica, 0, [put(number) for number in range(3)])
        replica.checkpoint(Slice(point(3, 3), changes_of(range(3)), is_last=True))
        at = Position(2, 9)
        snapshot = Snapshot(at, VOTERS, NO_TIMES, ())
        empty = Changes(0, census=Census(0, 0))
        replica.persist(Persist(1, snapshot, 9, ()), installed=[empty])
    before = path.read_bytes()
    with (
        closing(kind.make(path, name="villages")) as replica,
        pytest.raises(BackendFailure, match="belongs to cities, not to villages"),
    ):
        replica.load(FOUNDING)
    assert path.read_bytes() == before
    assert loaded(kind, path).meta.name == "cities"


def test_a_file_without_a_name_that_is_only_looked_at_gets_none(
    kind: ReplicaKind, path: Path
) -> None:
    with closing(opened(kind, path)):
        pass
    for name in ("villages", "cities"):  # The first one had the wrong path, and was refused.
        with closing(kind.make(path, name=name)) as replica:
            replica.load(FOUNDING)
    with closing(kind.make(path, name="cities")) as replica:
        replica.load(FOUNDING)
        append(replica, 0, [put(number) for number in range(3)])
        replica.checkpoint(Slice(point(3, 3), changes_of(range(3)), is_last=True))
    assert loaded(kind, path).meta.name == "cities"


def test_a_commit_waits_for_the_disk_once(path: Path) -> None:
    apsw = pytest.importorskip("apsw")
    from tests.stores.disk.test_power_cut import Disk, put_on

    assert apsw
    disk = Disk(None)
    kind = ReplicaKind(None)
    with closing(put_on(disk, kind.make(path))) as replica:
        replica.load(FOUNDING)
        replica.join(GROUP)
        before = disk.sync_count
        append(replica, 0, [put(number) for number in range(64)])
        assert disk.sync_count == before + 1
        part = Slice(point(64), changes_of(range(64)), is_last=True)
        append(replica, 64, [put(1)], rows=part)
        assert disk.sync_count == before + 2


def test_times_of_a_new_file_are_none(kind: ReplicaKind, path: Path) -> None:
    assert loaded(kind, path).meta.times == NO_TIMES


def run_sql(path: Path, statement: str, *values: object) -> Any:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, values).fetchone()


def test_an_earlier_word_of_which_state_the_rows_are_is_noticed(
    kind: ReplicaKind, path: Path
) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1), put(2)])
        replica.checkpoint(Slice(point(1), changes_of(range(1)), is_last=True))
    (body,) = run_sql(path, "SELECT body FROM machine_meta")
    with closing(opened(kind, path)) as replica:
        parts = Changes(2, rows=Rows([b"1"], [b"v"], [2]), census=Census(2, 3))
        replica.checkpoint(Slice(point(2), parts, is_last=True))
    run_sql(path, "UPDATE machine_meta SET body = ?", body)
    with pytest.raises(BackendFailure, match="of another state than the rows"):
        loaded(kind, path)


def test_a_row_of_an_earlier_term_behind_a_later_one_is_noticed(
    kind: ReplicaKind, path: Path
) -> None:
    with closing(opened(kind, path)) as replica:
        append(replica, 0, [put(1)])
        append(replica, 1, [put(2)])
        append(replica, 2, [put(3)])
    row = run_sql(path, "SELECT * FROM journal WHERE first = 3")
    with closing(opened(kind, path)) as replica:
        append(replica, 1, [put(4, 2)])
    run_sql(path, "INSERT INTO journal VALUES (?, ?, ?, ?)", *row)
    with pytest.raises(BackendFailure, match="entry 3 is of an earlier term"):
        loaded(kind, path)
