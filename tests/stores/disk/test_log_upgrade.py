"""Logs of format 1: they are checked and upgraded, or refused and left as they were."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import cbor2
import pytest

from stores import fields
from stores.disk.log import SQLiteLogBackend
from stores.log.changes import LogChanges
from stores.log.runs import Run
from stores.outcomes import Applied, Outcome, WriterRow
from tests.stores.disk.kinds import WRITER
from wire.errors import BackendFailure

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "0.1.0"

Make = Callable[..., SQLiteLogBackend]


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a log of format 1, plain or encrypted as ``make_log`` has it."""
    is_sealed = "sealed" in request.node.callspec.id
    path = tmp_path / "log.db"
    shutil.copyfile(FIXTURES / ("log-encrypted.db" if is_sealed else "log.db"), path)
    path.chmod(0o600)
    return path


def ask(path: Path, question: str) -> Any:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(question).fetchone()


def runs_of(backend: SQLiteLogBackend) -> list[Run]:
    with closing(backend):
        loaded = backend.load_keeper(1, None)
        found: list[Run] = []
        for number, partition in enumerate(loaded.partitions):
            while not found or found[-1].partition != number or found[-1].end < partition.end:
                at = found[-1].end if found and found[-1].partition == number else 0
                found += backend.read(number, at, 10**6)
        return found


def room(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    total, _, _ = shutil.disk_usage("/")
    answer = type(shutil.disk_usage("/"))(total, total - free, free)
    monkeypatch.setattr("stores.disk.sqlite.shutil.disk_usage", lambda _: answer)


def test_what_is_remembered_goes_along(path: Path, make_log: Make) -> None:
    with closing(make_log(path)) as backend:
        before = backend.load_follower()
    assert ask(path, "PRAGMA user_version") == (2,)
    assert len(before.partitions) == 2
    assert before.cursors[0][0] == "reader"
    (producer,) = before.producers
    assert producer.name == "writer"
    assert [each[0] for each in producer.appended] == list(range(before.partitions[0].end))
    with closing(make_log(path)) as backend:
        again = backend.load_follower()
    assert again == before


def test_writers_go_along(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    shutil.copyfile(FIXTURES / "log.db", path)
    row = WriterRow(WRITER, 7, (Outcome(7, 7, Applied(5)),))
    with closing(sqlite3.connect(path)) as connection, connection:
        outcomes = cbor2.dumps(fields.pack(row.outcomes))
        query = "INSERT INTO writers VALUES (?, ?, ?, ?)"
        connection.execute(query, (bytes(WRITER), row.last_request, 1, outcomes))
    with closing(SQLiteLogBackend(path)) as backend:
        assert backend.load_follower().writers == [row]


def test_an_upgraded_log_is_written_to(path: Path, make_log: Make) -> None:
    with closing(make_log(path)) as backend:
        end = backend.load_keeper(1, None).partitions[0].end
        run = Run(0, end, 1, 1 << 61, b"more")
        backend.commit(LogChanges(runs=[run]))
    assert runs_of(make_log(path))[end] == run


def test_without_room_for_a_copy_it_is_left_alone_and_the_option_is_named(
    path: Path, make_log: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = path.stat().st_size
    room(monkeypatch, 3 * size - 1)
    with pytest.raises(BackendFailure, match=r"Make room, or give the option upgrade=True") as told:
        make_log(path).load_keeper(1, None)
    assert f"takes {3 * size:,} bytes" in str(told.value)
    assert ask(path, "PRAGMA user_version") == (1,)
    room(monkeypatch, 3 * size)
    assert runs_of(make_log(path))
    assert Path(f"{path}.schema1").exists()


def test_an_upgrade_keeps_no_copy_if_that_is_asked_for(
    path: Path, make_log: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, 0)
    assert runs_of(make_log(path, upgrade=True))
    assert sorted(each.name for each in path.parent.iterdir()) == ["log.db"]


def test_a_copy_that_was_interrupted_is_made_again(path: Path, make_log: Make) -> None:
    Path(f"{path}.schema1.new").write_bytes(b"half of it")
    assert runs_of(make_log(path))
    assert ask(Path(f"{path}.schema1"), "PRAGMA user_version") == (1,)
    assert not Path(f"{path}.schema1.new").exists()


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM runs WHERE id = 3",
        "DELETE FROM runs WHERE id = (SELECT max(id) FROM runs)",
        "UPDATE runs SET count = 7 WHERE id = 0",
        "UPDATE runs SET id = 9 << 52 WHERE id = 0",
        "UPDATE runs SET body = zeroblob(length(body)) WHERE id = 3",
    ],
)
def test_one_that_is_damaged_is_refused_and_left_as_it_was(
    path: Path, make_log: Make, harm: str
) -> None:
    ask(path, harm)
    before = ask(path, "SELECT count(*), sum(id), sum(length(body)) FROM runs")
    with pytest.raises(BackendFailure, match=r"is damaged \(table runs: .*log promote"):
        make_log(path).load_keeper(1, None)
    assert ask(path, "SELECT count(*), sum(id), sum(length(body)) FROM runs") == before
    assert ask(path, "PRAGMA user_version") == (1,)
