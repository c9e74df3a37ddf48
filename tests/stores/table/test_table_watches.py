"""Watches and events of a group's table: what is committed, by position, and gaps."""

from __future__ import annotations

import pytest

from stores.group.positions import START, Position
from stores.group.terms import FORCED_TERMS
from stores.history import ChangeOf, Commit
from stores.scanning import EVERYTHING
from stores.table import lineage
from stores.table.lineage import Lineage, Standing
from stores.table.machine import TableMachine
from stores.table.table import ChangeKind
from stores.watches import Bookmark, Gap, Present
from tests.stores.table.lab import Handle, Lab
from wire.decoding import decode


@pytest.fixture
def lab():
    return Lab()


@pytest.fixture
def handle(lab):
    return Handle(lab)


def told(watcher):
    items = []
    while found := watcher.take():
        items += found
    return items


def test_a_watch_tells_what_is_committed_and_by_which_entry(lab, handle):
    watcher = lab.leader.watch(EVERYTHING)
    (mark,) = told(watcher)
    assert mark == Bookmark(0, lab.leader.position)
    handle.put_all([("a", 1), ("b", 2)])
    handle.increment("n")
    assert told(watcher) == []
    lab.commit()
    first, second, third = told(watcher)
    index = handle.judged[0]
    assert first.position == second.position == Position(1, index)
    assert (first.revision, second.revision, third.revision) == (1, 2, 3)
    assert third.position == Position(1, index + 1)
    assert third.writer == handle.writer
    found = [lab.leader.position_of(revision) for revision in range(5)]
    assert found == [None, first.position, second.position, third.position, None]


def test_a_watch_never_sees_what_is_lost(lab, handle):
    watcher = lab.leader.watch(EVERYTHING)
    told(watcher)
    handle.put("phantom", 1)
    handle.increment("phantom")
    lab.lose()
    handle.requests.last_request = 0
    handle.put("real", 1)
    lab.commit()
    (commit,) = told(watcher)
    assert (commit.revision, decode(commit.changes[0].key)) == (1, "real")
    assert commit.position.term == 2


def test_an_erasure_is_told_of_what_readers_had(lab, handle):
    handle.put("a", 1)
    lab.commit()
    watcher = lab.leader.watch(EVERYTHING)
    told(watcher)
    handle.erase("a")
    handle.erase("a")
    handle.put("b", 1)
    handle.increment("b")
    handle.clear()
    handle.increment("c")
    lab.commit()
    kinds = [commit.changes[0].kind for commit in told(watcher) if isinstance(commit, Commit)]
    assert kinds == [ChangeOf.ERASE, ChangeOf.PUT, ChangeOf.PUT, ChangeOf.CLEAR, ChangeOf.PUT]
    others = lab.followers[0].history.commits(1, lab.leader.revision)
    mine = lab.leader.history.commits(1, lab.leader.revision)
    assert list(mine) == list(others)


def test_a_watch_goes_on_at_another_member_that_is_as_far(lab, handle):
    handle.put("a", 1)
    lab.commit()
    watcher = lab.leader.watch(EVERYTHING)
    *_, mark = told(watcher)
    handle.put("b", 1)
    lab.commit()
    resumed = lab.followers[0].watch(EVERYTHING, mark)
    assert [item.revision for item in told(resumed)] == [2, 2]
    behind = TableMachine()
    assert behind.watch(EVERYTHING, mark) is None
    for position, body in lab.entries[:2]:
        behind.apply(position, body)
    assert [item.revision for item in told(behind.watch(EVERYTHING, mark))] == [1]


def test_a_bookmark_of_another_history_makes_a_gap(lab, handle):
    handle.put("a", 1)
    lab.commit()
    lost = Bookmark(7, Position(1, 9))
    assert lab.leader.watch(EVERYTHING, lost) is None
    lab.term += FORCED_TERMS
    handle.put("b", 1)
    lab.commit()
    gap, *present, mark = told(lab.leader.watch(EVERYTHING, lost))
    assert gap == Gap(7, Standing.FOREIGN.value)
    assert len(present) == 2
    assert mark == Bookmark(lab.leader.revision, lab.leader.position)


def test_a_bookmark_that_is_kept_no_more_makes_a_gap(lab, handle):
    handle.put("a", 1)
    lab.commit()
    *_, mark = told(lab.leader.watch(EVERYTHING))
    fresh = TableMachine()
    handle.put("b", 1)
    lab.commit()
    fresh.install(lab.leader.freeze())
    gap, *present, last = told(fresh.watch(EVERYTHING, mark))
    assert isinstance(gap, Gap)
    assert len(present) == 2
    assert last.revision == 2
    gap, *_ = told(fresh.watch(EVERYTHING, Bookmark(2)))
    assert gap == Gap(2, Standing.FORGOTTEN.value)


def test_an_installed_snapshot_is_a_gap_for_watches_and_a_difference_for_events(lab, handle):
    handle.put_all([("a", 1), ("b", 1), ("c", 1)])
    lab.commit()
    behind = TableMachine()
    behind.install(lab.leader.freeze())
    watcher, seen = behind.watch(EVERYTHING), []
    told(watcher)
    behind.telling.observe(seen.append)
    handle.put_all([("b", 2), ("d", 2)])
    handle.erase("a")
    lab.commit()
    behind.install(lab.leader.freeze())
    gap, *present, _ = told(watcher)
    assert isinstance(gap, Gap)
    assert all(isinstance(item, Present) for item in present)
    assert {change.revision for change in seen} == {lab.leader.revision}
    assert {(decode(change.key), change.kind) for change in seen} == {
        ("a", ChangeKind.ERASE),
        ("b", ChangeKind.UPDATE),
        ("d", ChangeKind.INSERT),
    }


# -- lineage ---------------------------------------------------------------------------------------


def test_a_position_is_known_ahead_forgotten_or_foreign(monkeypatch):
    line = Lineage()
    assert line.standing(START) is Standing.KNOWN
    for term, index in ((1, 2), (1, 5), (4, 8), (6, 9)):
        line.advance(Position(term, index))
    for term, index in ((1, 2), (1, 5), (4, 8), (6, 9)):
        assert line.standing(Position(term, index)) is Standing.KNOWN
    for term, index in ((6, 10), (7, 3)):
        assert line.standing(Position(term, index)) is Standing.AHEAD
    for term, index in ((1, 6), (1, 8), (2, 6), (4, 5), (4, 9), (6, 8)):
        assert line.standing(Position(term, index)) is Standing.FOREIGN
    monkeypatch.setattr(lineage, "LINEAGE_MAX", 2)
    line.advance(Position(7, 10))
    assert line.standing(Position(1, 2)) is Standing.FORGOTTEN
    assert line.standing(Position(6, 9)) is Standing.KNOWN


def test_another_history_may_begin_where_its_term_ends_or_does_not_begin():
    line = Lineage()
    for term, index in ((1, 2), (1, 5), (4, 8), (6, 9)):
        line.advance(Position(term, index))
    for term, index in ((1, 2), (1, 5), (4, 8), (6, 9), (6, 10), (7, 3)):
        assert line.cut(Position(term, index)) is None
    assert line.cut(Position(1, 8)) == 6, "what term 1 had before is here, too"
    assert line.cut(Position(4, 9)) == 9
    assert line.cut(Position(2, 6)) == 1, "it may have left term 1 at any entry"
    assert line.cut(Position(5, 9)) == 6
    assert Lineage(Position(6, 9), line.reigns[2:]).cut(Position(4, 8)) is None, "it is too old"


def test_a_lineage_has_a_reign_for_each_term_from_its_first_entry_on(monkeypatch):
    monkeypatch.setattr(lineage, "LINEAGE_MAX", 3)
    line = Lineage()
    assert (line.position, line.reigns) == (START, [])
    assert line.standing(Position(1, 1)) is Standing.AHEAD
    for term, index in ((1, 2), (1, 3), (2, 4), (4, 6), (5, 7)):
        line.advance(Position(term, index))
    assert line.position == Position(5, 7)
    assert line.reigns == [(2, 4), (4, 5), (5, 7)]
    assert line.standing(Position(1, 3)) is Standing.FORGOTTEN
    assert line.standing(Position(2, 4)) is Standing.KNOWN
    assert line.standing(Position(2, 3)) is Standing.FOREIGN
    copy = Lineage(line.position, line.reigns)
    copy.advance(Position(5, 9))
    assert (copy.position, line.position) == (Position(5, 9), Position(5, 7))
    assert Lineage(Position(2, 5)).standing(Position(1, 1)) is Standing.FORGOTTEN
    for index in (9, 8):
        with pytest.raises(AssertionError):
            copy.advance(Position(6, index))
