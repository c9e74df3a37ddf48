"""A replica's two files, at every moment at which its process may end."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from endpoint.replicas.stores.files import ReplicaFiles
from stores.disk.ballot import BallotFile
from stores.disk.founding import Founding
from stores.disk.replica import SQLiteReplica
from stores.group.clock import Times
from stores.group.effects import Persist, SavePromises
from stores.group.entries import Entry, TimeEntry, VotersEntry
from stores.group.positions import MemberId
from stores.group.terms import FORCED_TERMS
from stores.replica.beginning import Opened
from stores.replica.effects import Begin, ToDisk
from stores.table.parts import EntriesPart
from wire.errors import BackendFailure

FIXTURE = Path(__file__).parents[3] / "fixtures" / "0.1.0" / "store.db"
VOTERS = (MemberId("a", 1), MemberId("b", 2))
GROUP = b"g" * 16
BEGIN = ToDisk(1, Begin(GROUP, (VotersEntry(1, VOTERS),)))


class Killed(Exception):
    """The process ended here."""


def founding(life: int) -> Founding:
    return Founding(bytes([life]) * 16, MemberId("a", life), life)


def load(path: Path, life: int) -> tuple[Opened, tuple[Entry, ...]]:
    """Start the replica once more, and give what it has."""
    files = ReplicaFiles("s", {"path": str(path)})
    try:
        opened = files.load(founding(life))
        return opened, tuple(opened.beginning.stored.entries)
    finally:
        files.close()


def die_in(monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> None:
    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(kind, method, die)


@pytest.mark.parametrize(
    ("kind", "method", "has_begun"),
    [
        (SQLiteReplica, "join", False),
        (SQLiteReplica, "persist", True),
        (BallotFile, "join", True),
        (None, "", True),
    ],
    ids=["before the rows", "amid the rows", "before the ballot", "not at all"],
)
def test_a_founder_has_the_group_and_its_voters_or_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type | None, method: str, has_begun: bool
) -> None:
    path = tmp_path / "s.db"
    files = ReplicaFiles("s", {"path": str(path)})
    files.load(founding(1))
    with monkeypatch.context() as patch:
        if kind is not None:
            die_in(patch, kind, method)
        try:
            files.write(BEGIN)
        except Killed:
            pass
        files.close()
    opened, entries = load(path, 2)
    assert opened.beginning.group == (GROUP if has_begun else None)
    assert entries == ((VotersEntry(1, VOTERS),) if has_begun else ())


def test_an_upgrade_that_ended_before_its_ballot_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    shutil.copyfile(FIXTURE, path)
    path.chmod(0o600)
    with monkeypatch.context() as patch:
        die_in(patch, BallotFile, "create")
        with pytest.raises(Killed):
            load(path, 1)
    opened, _ = load(path, 2)
    assert opened.beginning.group == founding(1).group
    assert opened.beginning.stored.promises.member == founding(1).member
    assert any(part.pairs for part in opened.parts if isinstance(part, EntriesPart))
    again, _ = load(path, 3)
    assert again.beginning.stored.promises.member == founding(1).member


@pytest.mark.parametrize("term", [2, 1 + FORCED_TERMS], ids=["elected", "by force"])
def test_what_a_lead_by_force_takes_back_is_kept_aside(tmp_path: Path, term: int) -> None:
    path = tmp_path / "s.db"
    files = ReplicaFiles("s", {"path": str(path)})
    opened = files.load(founding(1))
    files.write(BEGIN)
    tail = tuple(TimeEntry(1, Times(each, each)) for each in (1, 2))
    files.write(ToDisk(2, Persist(2, None, 1, tail)))
    promises = replace(opened.beginning.stored.promises, term=term)
    files.write(ToDisk(3, SavePromises(3, promises)))
    files.write(ToDisk(4, Persist(4, None, 1, (TimeEntry(term, Times(3, 3)),))))
    files.close()
    kept = [each.name for each in tmp_path.iterdir() if ".lost-" in each.name]
    assert kept == ([] if term == 2 else ["s.db.lost-1"])


def test_a_journal_whose_ballot_is_gone_is_refused_once_it_has_entries(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    files = ReplicaFiles("s", {"path": str(path)})
    files.load(founding(1))
    files.write(ToDisk(1, Begin(GROUP, (VotersEntry(1, VOTERS[:1]),))))
    files.close()
    Path(f"{path}.ballot").unlink()
    with pytest.raises(BackendFailure, match="fresh=True leads with what the file has"):
        load(path, 2)
