"""Logs of earlier releases become groups of one: checked and upgraded, or refused, left alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stores.disk.log_replica import LoadedLogReplica
from stores.disk.replica import VERSION
from stores.disk.rows import PLAIN, Head, RecordTable
from stores.disk.seals import Vault
from stores.group.clock import Times
from stores.group.effects import Persist
from stores.group.entries import ActionEntry
from stores.group.machine import Append as Appends
from stores.group.positions import Position
from stores.log.bodies import ChangeRetention
from stores.log.kept_runs import KeptRun
from stores.log.machine import LogMachine
from stores.log.partitions import Retention, Span
from stores.sealing import StorageKeys
from tests.fixtures.kinds import KEY, MESSAGES
from tests.stores.disk.files import FOUNDING
from tests.stores.disk.log_replicas import LogReplica, LogReplicaKind
from wire.decoding import decode
from wire.errors import BackendFailure

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
BEGAN_NS = 1_700_000_000_000_000_000
"""When the first entry of a log of format 2 was appended; each commit is a second later."""


@pytest.fixture(params=["plain", "sealed"])
def kind(request: pytest.FixtureRequest) -> LogReplicaKind:
    return LogReplicaKind(StorageKeys.parse(KEY) if request.param == "sealed" else None)


@pytest.fixture(params=["0.1.0", "format2"])
def path(request: pytest.FixtureRequest, tmp_path: Path, kind: LogReplicaKind) -> Path:
    """Give a log that the classes of an earlier release wrote: format 1, or 2."""
    path = tmp_path / "log.db"
    name = "log.db" if kind.keys is None else "log-encrypted.db"
    shutil.copyfile(FIXTURES / request.param / name, path)
    path.chmod(0o600)
    return path


def ask(path: Path, question: str) -> Any:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(question).fetchone()


def version_of(path: Path) -> int:
    (version,) = ask(path, "PRAGMA user_version")
    return int(version)


def machine_of(loaded: LoadedLogReplica) -> LogMachine:
    machine = LogMachine()
    machine.install(loaded.parts)
    for index, entry in enumerate(loaded.entries, loaded.meta.floor.index + 1):
        assert isinstance(entry, ActionEntry)
        machine.apply(Position(entry.term, index), entry.body)
    return machine


def runs_of(backend: LogReplica, machine: LogMachine, partition: int) -> list[KeptRun]:
    start = machine.partitions[partition].start
    places = [run.place for run in machine.gather([(partition, start)], 1 << 60)]
    found = backend.read(places)
    assert len(found) == len(places)
    return found


def values_of(backend: LogReplica, machine: LogMachine, partition: int) -> dict[int, object]:
    """Give what can be read of a partition."""
    start = machine.partitions[partition].start
    return {
        offset: decode(value)
        for run in runs_of(backend, machine, partition)
        for offset, value in enumerate(run.entries()[1::2], run.first_offset)
        if value is not None and offset >= start
    }


def test_a_log_of_the_first_release_has_all_that_it_had(
    kind: LogReplicaKind, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    name = "log.db" if kind.keys is None else "log-encrypted.db"
    shutil.copyfile(FIXTURES / "0.1.0" / name, path)
    with closing(kind.make(path)) as backend:
        machine = machine_of(backend.load())
        assert values_of(backend, machine, 0) == dict(enumerate(MESSAGES))
        assert values_of(backend, machine, 1) == {0: "one in the other"}
    assert machine.all_cursors() == (("reader", ((0, len(MESSAGES)), (1, 1))),)
    assert machine._producers.find("writer", len(MESSAGES) - 1) == (0, len(MESSAGES) - 1)


def test_a_log_of_the_second_format_has_all_that_it_had(
    kind: LogReplicaKind, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    name = "log.db" if kind.keys is None else "log-encrypted.db"
    shutil.copyfile(FIXTURES / "format2" / name, path)
    with closing(kind.make(path, name="kept")) as backend:
        loaded = backend.load()
        machine = machine_of(loaded)
        assert machine.partitions.spans() == (Span(17, 60), Span(0, 24))
        assert values_of(backend, machine, 0) == {each: (0, each) for each in range(17, 60)}
        assert values_of(backend, machine, 1) == {each: (1, each) for each in range(24)}
        assert [decode(key) for key in runs_of(backend, machine, 1)[0].entries()[::2] if key] == [
            "key 0",
            "key 1",
        ]
    assert machine.all_cursors() == (("reader", ((0, 55), (1, 22))), ("slow", ((1, 3),)))
    producers = {row.name: row for row in machine._producers.rows()}
    assert list(producers) == ["writer", "early"], "the one that was idle longest is the first"
    assert producers["writer"].appended == tuple((each, 0, 5 * each) for each in range(7, 12))
    assert producers["early"].appended == ((3, 1, 4),)
    assert loaded.meta.floor == Position(4, 84), "the term is that after three promotions"


def test_a_group_of_one_begins_where_the_log_was(path: Path, kind: LogReplicaKind) -> None:
    version = version_of(path)
    with closing(kind.make(path)) as backend:
        loaded = backend.load()
        machine = machine_of(loaded)
    meta, at = loaded.meta, loaded.meta.floor
    assert at.index == sum(span.end for span in machine.partitions.spans())
    assert (meta.applied, meta.reached, machine.position) == (at, at.index, at)
    assert (meta.voters, meta.group) == ((FOUNDING.member,), FOUNDING.group)
    assert loaded.entries == []
    end = machine.partitions[0].end
    assert machine.goes_on(((0, end),), (at,), is_current=True) == (end,)
    assert version_of(path) == VERSION
    kept = path.with_name(f"{path.name}.schema{version}")
    assert version_of(kept) == version
    assert ask(kept, "SELECT sum(count) FROM runs") == ask(path, "SELECT sum(count) FROM runs")


def test_entries_are_as_old_as_they_were(kind: LogReplicaKind, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    name = "log.db" if kind.keys is None else "log-encrypted.db"
    shutil.copyfile(FIXTURES / "format2" / name, path)
    now_ns = BEGAN_NS + 9_000_000_000
    with closing(kind.make(path)) as backend:
        loaded = backend.load(replace(FOUNDING, now_ns=now_ns))
        machine = machine_of(loaded)
    times = loaded.meta.times
    assert times == Times(now_ns + 3_000_000_000, now_ns + 3_000_000_000), "never back"
    assert machine.find(BEGAN_NS + 5_000_000_000)[1] == 8
    found, _ = machine.partitions.due(Retention(age_ns=3_500_000_000), times.elapsed_ns)
    assert dict(found)[1] == 16


def test_an_upgraded_log_goes_on_as_a_replica(path: Path, kind: LogReplicaKind) -> None:
    with closing(kind.make(path)) as backend:
        loaded = backend.load()
        machine, at = machine_of(loaded), loaded.meta.floor
        judged = machine.judge(ChangeRetention(Retention(count=3)), loaded.meta.times)
        assert isinstance(judged, Appends)
        entry = ActionEntry(at.term, judged.body)
        backend.persist(Persist(1, None, at.index, (entry,)))
    with closing(kind.make(path)) as backend:
        again = backend.load()
        assert again.meta == loaded.meta
        assert again.entries == [entry]
        assert machine_of(again).retention == Retention(count=3)
        assert len(runs_of(backend, machine, 0)) == len(runs_of(backend, machine_of(again), 0))


def room(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    total, _, _ = shutil.disk_usage("/")
    answer = type(shutil.disk_usage("/"))(total, total - free, free)
    monkeypatch.setattr("stores.disk.sqlite.shutil.disk_usage", lambda _: answer)


def test_without_room_for_a_copy_it_is_left_alone_and_the_option_is_named(
    path: Path, kind: LogReplicaKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, version = path.stat().st_size, version_of(path)
    room(monkeypatch, 3 * size - 1)
    with (
        closing(kind.make(path)) as backend,
        pytest.raises(BackendFailure, match=r"Make room, or give the option upgrade=True") as told,
    ):
        backend.load()
    assert f"takes {3 * size:,} bytes" in str(told.value)
    assert version_of(path) == version
    room(monkeypatch, 3 * size)
    with closing(kind.make(path)) as backend:
        backend.load()
    assert Path(f"{path}.schema{version}").exists()


def test_an_upgrade_keeps_no_copy_if_that_is_asked_for(
    path: Path, kind: LogReplicaKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, 0)
    with closing(kind.make(path, upgrade=True)) as backend:
        assert machine_of(backend.load()).used[0]
    assert sorted(each.name for each in path.parent.iterdir()) == ["log.db"]


def test_a_copy_that_was_interrupted_is_made_again(path: Path, kind: LogReplicaKind) -> None:
    version = version_of(path)
    Path(f"{path}.schema{version}.new").write_bytes(b"half of it")
    with closing(kind.make(path)) as backend:
        backend.load()
    assert version_of(Path(f"{path}.schema{version}")) == version
    assert not Path(f"{path}.schema{version}.new").exists()


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM runs WHERE id = 20",
        "DELETE FROM runs WHERE id = (SELECT max(id) FROM runs)",
        "UPDATE runs SET count = 7 WHERE id = (SELECT min(id) FROM runs)",
        "UPDATE runs SET id = 9 << 52 WHERE id = (SELECT min(id) FROM runs)",
        "UPDATE runs SET body = zeroblob(length(body)) WHERE id = (SELECT max(id) FROM runs)",
    ],
)
def test_one_that_is_damaged_is_refused_and_left_as_it_was(
    path: Path, kind: LogReplicaKind, harm: str
) -> None:
    version = version_of(path)
    ask(path, harm.replace("20", "3" if version == 1 else "20"))
    before = ask(path, "SELECT count(*), sum(id), sum(length(body)) FROM runs")
    with (
        closing(kind.make(path)) as backend,
        pytest.raises(BackendFailure, match=r"is damaged \(table runs: .*restore a copy"),
    ):
        backend.load()
    assert ask(path, "SELECT count(*), sum(id), sum(length(body)) FROM runs") == before
    assert version_of(path) == version


def play(path: Path, kind: LogReplicaKind, role: int) -> None:
    """Have a file of format 2 be of another role than the keeper's."""
    codec = PLAIN if kind.keys is None else Vault(path, kind.keys)
    table = RecordTable(codec, "books")
    head = Head(codec, {"books": table})
    with closing(sqlite3.connect(path)) as connection, connection:
        head.load(connection)
        assert list(table.load(connection))
        codec.begin(connection)
        head.facts["role"] = role
        head.save(connection)


@pytest.mark.parametrize(("role", "told"), [(1, "a follower's copy"), (2, "was promoted")])
def test_a_log_that_does_not_lead_is_refused_and_a_follower_sets_it_aside(
    kind: LogReplicaKind, tmp_path: Path, role: int, told: str
) -> None:
    path = tmp_path / "log.db"
    name = "log.db" if kind.keys is None else "log-encrypted.db"
    shutil.copyfile(FIXTURES / "format2" / name, path)
    play(path, kind, role)
    with closing(kind.make(path)) as backend, pytest.raises(BackendFailure, match=told):
        backend.load()
    assert version_of(path) == 2
    with closing(kind.make(path)) as backend:
        assert backend.set_aside() == f"{path}.schema2.2"
        assert backend.load().parts == []
    assert version_of(tmp_path / "log.db.schema2.2") == 2


def test_a_newer_file_is_refused_with_all_numbers(path: Path, kind: LogReplicaKind) -> None:
    ask(path, f"PRAGMA user_version = {VERSION + 1}")
    told = rf"has the format {VERSION + 1}, and this version reads 1 and 2 and {VERSION}:"
    with closing(kind.make(path)) as backend, pytest.raises(BackendFailure, match=told):
        backend.load()
