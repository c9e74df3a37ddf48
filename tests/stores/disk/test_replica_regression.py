"""What a journal lacks at its end shows in the ballot's mark: cut logs, older files, lost rows."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stores.disk.ballot import BallotFile
from stores.disk.medium import PrivateMedium
from stores.group.ballot import Ballot
from stores.group.clock import Times
from stores.group.effects import Effect, Persist, SavePromises, SyncMarks, WriteMark
from stores.group.entries import TimeEntry
from stores.group.journal import Journal
from stores.group.positions import MemberId
from stores.log.machine import LogMachine
from tests.stores.disk.replicas import BODIES, FOUNDING, GROUP, Replica

WRITES = 6


class Member:
    """A journal and a ballot, driven by their cores, as a runner does it."""

    def __init__(self, path: Path) -> None:
        self.replica = Replica(path, BODIES)
        loaded = self.replica.load(FOUNDING)
        if loaded.meta.group is None:
            self.replica.join(GROUP)
        self.journal = Journal(loaded.meta.floor, loaded.meta.voters, loaded.entries)
        self.file = BallotFile(PrivateMedium(f"{path}.ballot"))
        kept = self.file.load() or self.file.create(MemberId("a", 1), GROUP)
        self.ballot = Ballot(kept.promises, kept.slots, self.journal.end)
        self.carry(self.ballot.start(self.journal.end))

    def carry(self, effects: list[Effect]) -> None:
        effects = self.ballot.settle(effects)
        while effects:
            effect, *effects = effects
            match effect:
                case SavePromises():
                    self.file.save(effect.promises)
                    self.ballot.promises_saved(effect.token)
                case WriteMark():
                    self.file.write_mark(effect.slot, effect.number, effect.mark)
                case SyncMarks():
                    self.file.sync_marks()
                    self.ballot.marks_synced(effect.number)
                case Persist():
                    self.replica.persist(effect)
                    self.journal.persisted(effect.token)
                    durable = self.journal.position(self.journal.durable)
                    effects += self.ballot.raise_mark(durable)
            effects += self.ballot.settle([])

    def write(self, term: int) -> None:
        for _ in range(3):
            self.journal.append(TimeEntry(term, Times(1, 1)))
        write = self.journal.next_write(LogMachine())
        assert write is not None
        self.carry([write])

    def close(self) -> None:
        self.replica.close()
        self.file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def crash(path: Path, crashed: Path) -> None:
    """Copy what the disk has of a member that runs."""
    for suffix in ("", "-wal", ".ballot"):
        shutil.copy(f"{path}{suffix}", f"{crashed}{suffix}")


def lived(path: Path, crashed: Path) -> Path:
    with closing(Member(path)) as member:
        for _ in range(WRITES):
            member.write(1)
        crash(path, crashed)
    return crashed


def is_whole(path: Path) -> bool:
    with closing(Member(path)) as member:
        return member.ballot.is_whole


def test_a_crash_leaves_it_whole(path: Path, tmp_path: Path) -> None:
    assert is_whole(lived(path, tmp_path / "crashed.db"))
    assert is_whole(path)


def cut_log(crashed: Path) -> None:
    log = Path(f"{crashed}-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3])


def lose_log(crashed: Path) -> None:
    Path(f"{crashed}-wal").unlink()


def lose_rows(crashed: Path) -> None:
    with closing(sqlite3.connect(crashed)) as connection, connection:
        connection.execute("DELETE FROM journal WHERE first = (SELECT max(first) FROM journal)")


@pytest.mark.parametrize("lose", [cut_log, lose_log, lose_rows])
def test_a_journal_that_lost_its_end_is_regressed_for_good(
    path: Path, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    crashed = lived(path, tmp_path / "crashed.db")
    lose(crashed)
    assert not is_whole(crashed)
    with closing(Member(crashed)) as member:
        member.write(1)
    assert not is_whole(crashed)


def test_an_older_file_that_comes_back_is_regressed(path: Path, tmp_path: Path) -> None:
    with closing(Member(path)) as member:
        member.write(1)
    old = tmp_path / "old.db"
    shutil.copy(path, old)
    with closing(Member(path)) as member:
        member.write(1)
    shutil.copy(old, path)
    assert not is_whole(path)


def test_an_older_file_with_a_longer_tail_of_an_older_term_is_regressed(
    path: Path, tmp_path: Path
) -> None:
    with closing(Member(path)) as member:
        for _ in range(WRITES):
            member.write(1)
    old = tmp_path / "old.db"
    shutil.copy(path, old)
    with closing(Member(path)) as member:
        member.journal.truncate(4)
        member.carry(list(member.ballot.lower_mark(member.journal.position(4))))
        member.write(2)
    shutil.copy(old, path)
    assert not is_whole(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT max(first) FROM journal").fetchone()[0] > 7
