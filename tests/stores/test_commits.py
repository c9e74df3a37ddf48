"""Group commit: what is not durable is not seen, and what is committed is the net effect."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.actions import ClearCommand, EraseCommand, PutCommand, WriterId
from stores.commits import GroupCommit
from stores.persistence import Changes
from stores.table import Columns, Entry, Table
from wire.identifiers import EndpointId, EntityId

W = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 1)


def put(table: Table, *pairs: bytes) -> None:
    table.apply(PutCommand(W, 1, None, pairs))


@pytest.fixture
def table() -> Table:
    table = Table()
    put(table, b"old", b"0")
    return table


@pytest.fixture
def commits(table: Table) -> GroupCommit:
    return GroupCommit(table)


def visible(commits: GroupCommit, *keys: bytes) -> list[bytes | None]:
    return [commits.get(key) for key in keys]


def test_readers_see_what_was_before_the_first_change(table, commits):
    put(table, b"old", b"1", b"new", b"1", b"old", b"2")
    table.apply(EraseCommand(W, 9, [b"new"]))
    assert visible(commits, b"old", b"new") == [b"0", None]
    assert commits.entry(b"old") == Entry(b"0", 1, None)
    assert list(commits.keys()) == [b"old"]
    assert commits.revision == 1


def test_readers_see_a_commit_when_it_is_finished_and_not_the_next_one(table, commits):
    put(table, b"old", b"1")
    commits.start((), ())
    put(table, b"old", b"2", b"new", b"2")
    assert visible(commits, b"old", b"new") == [b"0", None]
    commits.finish()
    assert visible(commits, b"old", b"new") == [b"1", None]
    assert commits.revision == 2
    commits.start((), ())
    commits.finish()
    assert visible(commits, b"old", b"new") == [b"2", b"2"]
    assert commits.revision == 4


def test_a_commit_has_the_net_effect_once_for_each_key(table, commits):
    put(table, b"a", b"1", b"a", b"2", b"b", b"1")
    table.apply(EraseCommand(W, 4, [b"b", b"old", b"missing"]))
    changes = commits.start((), ())
    assert list(changes.rows) == [(b"a", b"2", 3, None)]
    assert changes.erased == [b"b", b"old", b"missing"]
    assert changes.revision == 7
    assert not changes.is_cleared


def test_after_a_clear_only_what_came_later_is_written(table, commits):
    put(table, b"a", b"1")
    table.apply(ClearCommand(W, 2))
    commits.mark_cleared()
    put(table, b"b", b"1")
    assert visible(commits, b"old", b"a", b"b") == [b"0", None, None]
    changes = commits.start((), ())
    assert changes.is_cleared
    assert list(changes.rows) == [(b"b", b"1", 4, None)]
    assert changes.erased == []
    commits.finish()
    assert visible(commits, b"old", b"a", b"b") == [None, None, b"1"]
    assert not commits.start((), ()).is_cleared


class Twin:
    """What a disk would hold, done in the dumbest way."""

    def __init__(self) -> None:
        self.durable = Columns()
        self.in_flight: Columns | None = None

    def start(self, changes: Changes) -> Columns:
        self.in_flight = Columns() if changes.is_cleared else self.durable.copy()
        for row in changes.rows:
            self.in_flight.set(row[0], Entry(*row[1:]))
        for erased in changes.erased:
            self.in_flight.discard(erased)
        return self.in_flight

    def finish(self) -> None:
        assert self.in_flight is not None
        self.durable, self.in_flight = self.in_flight, None


KEYS = [b"a", b"b", b"c"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "erase", "clear", "start", "finish"]), st.sampled_from(KEYS)
        ),
        max_size=40,
    )
)
def test_readers_and_copies_always_see_the_last_finished_commit(script):
    table = Table()
    commits, twin = GroupCommit(table), Twin()
    for number, (action, key) in enumerate(script):
        if action == "put":
            put(table, key, b"%d" % number)
        elif action == "erase":
            table.apply(EraseCommand(W, 1, [key]))
        elif action == "clear":
            table.apply(ClearCommand(W, 1))
            commits.mark_cleared()
        elif action == "start" and twin.in_flight is None:
            assert twin.start(commits.start((), ())) == table.columns
        elif action == "finish" and twin.in_flight is not None:
            commits.finish()
            twin.finish()
        assert commits.copy() == twin.durable
        assert sorted(commits.keys()) == sorted(twin.durable)
        assert [commits.entry(name) for name in KEYS] == [twin.durable.entry(name) for name in KEYS]
        assert [commits.get(name) for name in KEYS] == [*map(twin.durable.values.get, KEYS)]
