"""Entries of a log's replica that are in its file alone: read there, found damaged, let go."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.logs.log import ReplicaLog
from peermesh.testing.time_limits import limit
from stores.log.kept_runs import KeptRun, RunPlace
from stores.replica import kept
from tests.endpoint.replicas.group_logs.conftest import LogGroup
from wire.errors import BackendFailure, OffsetOutOfRange

COUNT = 40


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a journal keep little, so that most is in the file alone."""
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 5)


@asynccontextmanager
async def filled(logs: SimpleNamespace, folder: Path) -> AsyncIterator[tuple[LogGroup, ReplicaLog]]:
    """Give a group whose leader has entries in its file alone."""
    async with logs.open(folder=folder) as group:
        log = group[await group.await_leader()]
        for number in range(COUNT):
            await (await log.append(number, partition=0)).applied()
        await logs.until(lambda: in_the_file(log) > COUNT // 2)
        yield group, log


def in_the_file(log: ReplicaLog) -> int:
    """Count the runs whose entries are in the file alone."""
    runs = log.part.core.machine.gather([(0, 0)], 1 << 60)
    return sum(isinstance(run, RunPlace) for run in runs)


async def test_old_entries_are_read_in_the_file_and_the_latest_in_memory(logs, tmp_path) -> None:
    async with filled(logs, tmp_path) as (_, log):
        entries = await log.read(0, 0, limit=COUNT)
        while len(entries) < COUNT:
            entries += await log.read(0, len(entries), limit=COUNT)
        assert [entry.value for entry in entries] == list(range(COUNT))
        assert [entry.value for entry in await log.read(0, 3, limit=1)] == [3]
        assert [entry.value for entry in await log.read(0, COUNT - 1)] == [COUNT - 1]
        async with log.consume("worker", partitions=[0]) as consumer:
            assert [(await consumer.get(limit())).value for _ in range(COUNT)] == [*range(COUNT)]


async def test_a_restart_loads_no_entries_that_are_in_the_file_alone(logs, tmp_path) -> None:
    async with filled(logs, tmp_path) as (group, log):
        name = await log.await_leader(limit())
        before = in_the_file(log)
        await group.stop(name)
        await group.start(name)
        log = group[name]
        await log.catch_up(limit())
        assert in_the_file(log) >= before
        assert [entry.value for entry in await log.read(0, 7, limit=2)] == [7, 8]


async def test_a_damaged_entry_is_not_served_and_all_others_are(logs, tmp_path) -> None:
    async with filled(logs, tmp_path) as (group, log):
        name = await log.await_leader(limit())
        await group.stop(name)
        (path,) = tmp_path.glob(f"{name}*.db")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE runs SET body = zeroblob(length(body)) WHERE id = 5")
        await group.start(name)
        log = group[name]
        await log.catch_up(limit())
        with pytest.raises(BackendFailure, match="partition 0, offset 5"):
            await log.read(0, 5)
        assert [entry.value for entry in await log.read(0, 0)] == list(range(5))
        assert [entry.value for entry in await log.read(0, 6, limit=2)] == [6, 7]
        await (await log.append("later", partition=0)).applied()


async def test_an_entry_that_is_missing_in_the_file_is_no_endless_wait(logs, tmp_path) -> None:
    async with filled(logs, tmp_path) as (_, log):
        log.part.backend.read = lambda places: []
        with pytest.raises(BackendFailure, match="its file lacks"):
            await log.read(0, 3)


async def test_what_is_let_go_while_it_is_read_is_told_as_if_it_had_been_before(
    logs, tmp_path, monkeypatch
) -> None:
    async with filled(logs, tmp_path) as (_, log):
        files, reads = log.part.backend, list[int]()
        read = type(files).read

        async def let_go() -> None:
            await (await log.trim(0, 20)).applied()

        def read_late(places: list[RunPlace]) -> list[KeptRun]:
            reads.append(len(places))
            if len(reads) == 1:
                trio.from_thread.run(let_go)
                return []
            return read(files, places)

        monkeypatch.setattr(type(files), "read", lambda _, places: read_late(places))
        with pytest.raises(OffsetOutOfRange):
            await log.read(0, 3)
        assert [entry.value for entry in await log.read(0, 20, limit=1)] == [20]


async def test_a_group_s_file_is_not_kept_alone(logs, tmp_path) -> None:
    async with logs.open(names=("a", "b"), folder=tmp_path, voters=("a", "b")) as group:
        await (await group["a"].append("first", partition=0)).applied()
        await group.stop("b")
        async with Endpoint(name="b") as endpoint:
            with pytest.raises(BackendFailure, match="attach it with attach_log_replica"):
                await endpoint.attach_log("l", backend="sqlite", path=tmp_path / "b.db")
        await group.start("b")
        await (await group["b"].append("second", partition=0)).applied()
