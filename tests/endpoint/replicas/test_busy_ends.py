"""Stores and logs in a file that are closed while others write to them, on and on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.files import LogReplicaFiles
from endpoint.surroundings import surroundings
from peermesh.testing.time_limits import limit
from stores.disk.founding import Founding
from stores.group.positions import MemberId
from tests.endpoint.gates import Gate, gate, replica_files, sqlite_rows
from tests.endpoint.rows import star
from wire.errors import StoreError

Attach = Callable[[Endpoint, Path], Any]
KINDS: dict[str, Attach] = {
    "master": lambda endpoint, path: endpoint.attach_master("s", Backend.SQLite, path=path),
    "keeper": lambda endpoint, path: endpoint.attach_log("s", backend=Backend.SQLite, path=path),
    "replica": lambda endpoint, path: endpoint.attach_replica(
        "s", voters=["a"], backend=Backend.SQLite, path=path
    ),
}


class NeverIdle:
    """Files of a handle of which something more is asked while each write is under way."""

    def __init__(self, files: Any, ask: Callable[[], Any]) -> None:
        self._files, self._ask = files, ask

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def write(self, *arguments: Any) -> None:
        with suppress(StoreError):
            trio.from_thread.run(self._ask)
        self._files.write(*arguments)


class NotedEnd:
    """Rows that note whether they were closed while a write was under way."""

    def __init__(self, rows: Any, ends: list[bool]) -> None:
        self._rows, self._ends = rows, ends
        self._is_writing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def persist(self, *arguments: Any, **options: Any) -> None:
        self._is_writing = True
        self._rows.persist(*arguments, **options)
        self._is_writing = False

    def close(self) -> None:
        self._ends.append(self._is_writing)
        if not self._is_writing:  # SQLite may take the whole process with it otherwise.
            self._rows.close()


async def test_a_file_is_closed_after_the_commit_that_is_under_way(kit, tmp_path):
    gates: list[Gate] = []
    ends: list[bool] = []

    def rows(path: str, options: dict[str, object]) -> NotedEnd:
        gates.append(Gate(sqlite_rows(path, options), "persist", is_armed=False))
        return NotedEnd(gates[-1], ends)

    token = surroundings.set(replace(surroundings.get(), open_replica=replica_files(rows)))
    left = Endpoint()
    surroundings.reset(token)
    with trio.fail_after(limit()):
        async with left, Endpoint() as right:
            assert await right.peer("127.0.0.1", await left.listen(), timeout=limit())
            master = await left.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            clone = await right.attach_clone("s")
            await (await clone.put("k", "earlier")).applied()
            await kit.until(lambda: not master.part.core.carrier.is_writing)
            gates[0].arm()
            await clone.put("k", "v")
            await kit.until(gates[0].is_reached.is_set)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(master.runner.close)
                await kit.until(lambda: master.runner.error is not None)
                await trio.testing.wait_all_tasks_blocked(0.05)
                gates[0].open()
            assert ends == [False]
        async with Endpoint() as alone:
            again = await alone.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            assert await again.get("k") == "v"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_others_ask_meanwhile_keeps_no_handle_from_closing(kind, tmp_path, caplog):
    async with Endpoint(name="a") as endpoint:
        handle = await KINDS[kind](endpoint, tmp_path / "s.db")

        async def ask() -> None:
            await (handle.append("more") if kind == "keeper" else handle.put("k", "more"))

        handle.part.backend = NeverIdle(handle.part.backend, ask)
        await ask()
        with trio.fail_after(limit()):
            await handle.close()
        async with KINDS[kind](endpoint, tmp_path / "s.db"):
            pass
    assert not caplog.records


async def test_what_is_deposed_and_closed_at_once_has_noted_that_it_was(kit, tmp_path):
    path = tmp_path / "log.db"
    with trio.fail_after(limit()):
        async with star(1) as (left, right):
            old = await left.attach_log("log", backend=Backend.SQLite, path=path)
            heir = await right.attach_log_clone("log")
            assert await heir.await_idle(timeout=limit())
            core = old.part.core
            await kit.until(lambda: not core.carrier.is_writing)
            disk = gate(old, "write")
            await heir.promote(force=True)
            await kit.until(lambda: disk.is_reached.is_set() and core.is_conceding)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(old.runner.close)
                await trio.testing.wait_all_tasks_blocked(0.05)
                disk.open()
    with closing(LogReplicaFiles("log", {"path": str(path)}, is_renamed=True)) as files:
        founding = Founding(bytes(16), MemberId("", 0), 0)
        assert not files.load(founding).beginning.stored.promises.is_whole
