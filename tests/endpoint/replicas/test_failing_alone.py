"""A store or log that meets what nothing expects ends alone: all else goes on, and closes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.mesh.status import StatusEvent
from endpoint.replicas.attaching import Backend
from endpoint.surroundings import surroundings
from peermesh.testing.time_limits import limit
from stores.disk.ballot import SUFFIX
from stores.disk.medium import PrivateMedium
from stores.disk.replica import SQLiteReplica
from stores.table.codec import TableCodec
from tests.endpoint.gates import FOUNDING, Gate, gate, replica_files, sqlite_rows
from wire.errors import BackendFailure, StoreClosed, StoreError

TEXT = "can't start new thread"


class Backends:
    """The backends that endpoints made within ``failing`` have opened."""

    def __init__(self, method: str, failure: Exception | None) -> None:
        self.opened: list[Gate] = []
        self._media: list[PrivateMedium] = []
        self._method, self._failure = method, failure

    def open(self, path: str, options: dict[str, object]) -> tuple[Any, PrivateMedium]:
        rows, medium = sqlite_rows(path, options), PrivateMedium(path + SUFFIX)
        self.opened.append(Gate(rows, self._method, self._failure, is_armed=False))
        self._media.append(medium)
        return self.opened[-1], medium

    def close(self) -> None:
        """Close what was left behind."""
        for medium in self._media:
            medium.close()


@contextmanager
def failing(method: str, failure: Exception | None) -> Iterator[Backends]:
    """Give endpoints that are made within the block disks of which one method fails."""
    backends = Backends(method, failure)
    token = surroundings.set(replace(surroundings.get(), open_replica=backends.open))
    try:
        yield backends
    finally:
        surroundings.reset(token)


def told(status: Any, kind: StatusCode) -> list[StatusEvent]:
    return [event for event in status.poll() if event.status is kind]


async def test_an_error_that_no_backend_explains_ends_its_store_alone(kit, tmp_path, caplog):
    mistake = RuntimeError(TEXT)
    with failing("persist", mistake) as backends:
        endpoint = Endpoint()
    with trio.fail_after(limit()):
        async with endpoint, endpoint.attach_master("other") as other:
            status, heard = endpoint.subscribe_status(), []
            store = await endpoint.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            store.part.observe(changes := EndOfChanges(heard))
            backends.opened[0].arm()
            receipt = await store.put("k", 1)
            backends.opened[0].open()
            with pytest.raises(BackendFailure, match="can't start new thread"):
                await receipt.applied()
            with pytest.raises(BackendFailure, match="RuntimeError"):
                await store.get("k")
            (event,) = told(status, StatusCode.STORE_FAILED)
            assert (event.store, event.endpoint) == ("s", endpoint.node_id())
            assert "can't start new thread" in event.reason
            assert event.is_error
            assert changes.is_over
            await (await other.put("k", 1)).applied()
            subscriber = endpoint.subscribe("x")
            await endpoint.attach_clone("t")
            subscriber.close()
            await store.close()
        again = sqlite_rows(tmp_path / "s.db")  # The file is free.
        assert again.load(FOUNDING).revision == 0
        again.close()
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[1] is mistake


class EndOfChanges:
    """Follows the changes of a store to their end."""

    def __init__(self, changes: list[object]) -> None:
        self._changes = changes
        self.is_over = False

    def push(self, change: object) -> None:
        self._changes.append(change)

    def end(self) -> None:
        self.is_over = True


async def test_a_thread_that_cannot_be_started_ends_its_store_alone(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with trio.fail_after(limit()):
        async with Endpoint() as endpoint, endpoint.attach_master("other") as other:
            store = await endpoint.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            await (await store.put("k", 1)).applied()
            monkeypatch.setattr("trio._threads.start_thread_soon", refuse)
            with pytest.raises(BackendFailure, match="start new thread"):
                await (await store.put("k", 2)).applied()
            assert await (await other.put("k", 1)).applied()
            await store.close()
        again = sqlite_rows(tmp_path / "s.db")  # The file is free.
        again.load(FOUNDING)
        again.close()
        monkeypatch.undo()
        async with (
            Endpoint() as later,
            later.attach_master("s", Backend.SQLite, path=tmp_path / "s.db") as found,
        ):
            assert await found.get("k") == 1


async def test_an_error_that_no_backend_explains_ends_its_log_alone(tmp_path, caplog):
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint, endpoint.attach_log("other") as other:
            status = endpoint.subscribe_status()
            log = await endpoint.attach_log("l", (), 1, Backend.SQLite, path=tmp_path / "l.db")
            gate(log, "write", mistake := RuntimeError(TEXT)).open()
            with pytest.raises(BackendFailure, match="can't start new thread"):
                await (await log.append("a")).applied()
            with pytest.raises(BackendFailure, match="RuntimeError"):
                await log.append("b")
            (event,) = told(status, StatusCode.STORE_FAILED)
            assert event.store == "l"
            await (await other.append("a")).applied()
            await log.close()
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[1] is mistake


@pytest.mark.parametrize("step", ["receive", "tick", "flush", "peer_unreachable"])
async def test_a_mistake_in_a_core_ends_its_store_alone(kit, step: str, caplog) -> None:
    mistake = RuntimeError(TEXT)

    def fail(*_: object) -> list[Any]:
        raise mistake

    with trio.fail_after(limit()):
        async with kit.world() as world:
            left, right, third = await world.grow(3, [(1, 0), (2, 1)])
            await world.known()
            async with left.attach_master("s") as store, left.attach_master("other") as other:
                status = left.subscribe_status()
                clone = await right.attach_clone("s")
                assert await clone.await_idle()
                receipt = await store.put("k", 1)
                await receipt.applied()
                setattr(store.runner.core, step, fail)
                if step == "receive":
                    await clone.put("k", 2)
                elif step == "peer_unreachable":
                    await third.shutdown()
                await kit.until(lambda: store.runner.error is not None)
                with pytest.raises(StoreError, match=r"store s failed.*can't start new thread"):
                    await store.get("k")
                with pytest.raises(StoreError):
                    await store.put("k", 2)
                assert store.runner.error.__cause__ is mistake
                assert not store.is_master()
                assert [event.store for event in told(status, StatusCode.STORE_FAILED)] == ["s"]
                await (await other.put("k", 1)).applied()
                assert store.runner not in left.loop.stores.values()
                # Its name is free, and a clone finds the next master of it.
                async with left.attach_master("s") as again:
                    await (await again.put("k", 3)).applied()
                    await kit.until(
                        lambda: clone.runner.core.revision == again.runner.core.revision
                    )
    assert [each.exc_info[1] for each in caplog.records if each.levelno >= logging.ERROR] == [
        mistake
    ]


async def test_what_waits_for_a_store_that_fails_gets_the_reason(kit, tmp_path) -> None:
    with failing("persist", None) as backends:
        endpoint = Endpoint()
    with trio.fail_after(limit()):
        async with endpoint:
            store = await endpoint.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            backends.opened[0].arm()
            receipt = await store.put("k", 1)
            await kit.until(lambda: backends.opened[0].is_reached.is_set())
            found = []

            async def wait() -> None:
                found.append(await store.await_idle(timeout=limit()))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await kit.until(lambda: store.runner._idle)
                store.runner.fail(RuntimeError(TEXT))
                with pytest.raises(StoreError, match="store s failed"):
                    await receipt.applied()
                backends.opened[0].open()
            await kit.until(lambda: not store.runner._is_letting_go)
            assert not found[0]
            assert "store s failed" in found[0].reason


@pytest.mark.parametrize("grace", [0.2, 0], ids=["some time", "none"])
async def test_a_disk_that_never_answers_is_left_behind_with_a_warning(
    kit, tmp_path, monkeypatch: pytest.MonkeyPatch, caplog, grace: float
) -> None:
    """With none, as on a busy machine, all limits are over when they are first looked at."""
    monkeypatch.setattr("endpoint.tasks.FINISH_SECONDS", 0.2)
    with failing("persist", None) as backends:
        endpoint = Endpoint()
    with trio.fail_after(limit()):
        async with endpoint:
            store = await endpoint.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            backends.opened[0].arm()
            await store.put("k", 1)
            await kit.until(lambda: backends.opened[0].is_reached.is_set())
            await endpoint.shutdown(grace)
    backends.opened[0].open()
    backends.close()
    assert "for store s to be closed in vain" in caplog.text


async def test_a_cancelled_reader_of_a_file_leaves_at_once_and_its_file_is_closed(
    kit, tmp_path: Path
) -> None:
    closed = threading.Event()

    class Closing(SQLiteReplica):
        def close(self) -> None:
            super().close()
            closed.set()

    gates: list[Gate] = []

    def open_slowly(path: str, options: dict[str, object]) -> Any:
        gates.append(Gate(Closing(path, TableCodec()), "load"))
        return gates[-1]

    token = surroundings.set(replace(surroundings.get(), open_replica=replica_files(open_slowly)))
    endpoint = Endpoint()
    surroundings.reset(token)
    with trio.fail_after(limit()):
        async with endpoint:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def attach() -> None:
                        await endpoint.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")

                    nursery.start_soon(attach)
                    await kit.until(lambda: gates and gates[0].is_reached.is_set())
                    scope.cancel()
            assert not closed.is_set()
            gates[0].open()
            await kit.until(closed.is_set)


async def test_of_two_masters_that_meet_both_are_told_and_none_is_dropped(kit) -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as left, Endpoint() as right:
            stores = [await left.attach_master("s"), await right.attach_master("s")]
            statuses = [left.subscribe_status(), right.subscribe_status()]
            for number, store in enumerate(stores):
                await (await store.put("k", number)).applied()
            assert await left.peer("127.0.0.1", await right.listen())
            for status in statuses:
                await kit.until(lambda status=status: told(status, StatusCode.STORE_CONFLICT))
            for number, store in enumerate(stores):
                assert store.is_master()
                assert await store.get("k") == number


async def test_a_closed_store_is_no_master() -> None:
    async with Endpoint() as endpoint:
        store = await endpoint.attach_master("s")
        await store.close()
        assert not store.is_master()
        with pytest.raises(StoreClosed):
            await store.get("k")
