"""Does what a cluster asks of the logs of one node; see ``Servant``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from endpoint.endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log import Log, ReplicaLog
from endpoint.replicas.logs.log_receipts import AppendReceipt
from endpoint.replicas.receipts import Receipt
from peermesh.testing.agent import plain
from wire.errors import StoreError
from wire.values import Value

READ_SIZE: Final = 1_000
"""Entries that one reply holds at the most, if they are not huge."""


class LogServant:
    """The logs that one endpoint holds for a cluster."""

    def __init__(
        self,
        endpoint: Endpoint,
        directory: Path,
        number: Callable[[], int],
        keep: Callable[[Receipt | AppendReceipt], int],
    ) -> None:
        """Ask the servant for numbers, and have it keep receipts."""
        self._endpoint = endpoint
        self._directory = directory
        self._number = number
        self._keep = keep
        self._logs: dict[int, Log | ReplicaLog] = {}
        self.methods: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "attach_log": self._attach_log,
            "attach_log_clone": self._attach_log_clone,
            "attach_log_replica": self._attach_log_replica,
            "log_await_leader": self._await_leader,
            "log_catch_up": self._catch_up,
            "log_members": self._members,
            "log_append": self._append,
            "log_read": self._read,
            "log_offsets": self._offsets,
            "log_commit": self._commit,
            "log_committed": self._committed,
            "close_log": self._close,
        }

    async def _attach_log(
        self,
        name: str,
        topics: tuple[str, ...],
        partitions: int | None,
        backend: str,
        path: str | None,
    ) -> int:
        options: dict[str, Any] = self._file(path)
        attaching = self._endpoint.attach_log(name, topics, partitions, Backend(backend), **options)
        return self._hold(await attaching)

    async def _attach_log_clone(
        self, name: str, backend: str, path: str | None, stale_interval: float | None
    ) -> int:
        options: dict[str, Any] = {"stale_interval": stale_interval, **self._file(path)}
        return self._hold(await self._endpoint.attach_log_clone(name, Backend(backend), **options))

    async def _attach_log_replica(
        self,
        name: str,
        voters: tuple[str, ...],
        partitions: int | None,
        backend: str,
        path: str | None,
    ) -> int:
        options: dict[str, Any] = {"partitions": partitions, "backend": backend, **self._file(path)}
        return self._hold(await self._endpoint.attach_log_replica(name, voters=voters, **options))

    async def _await_leader(self, number: int, timeout: float) -> str:
        return await self._replica(number).await_leader(timeout)

    async def _catch_up(self, number: int, timeout: float) -> None:
        await self._replica(number).catch_up(timeout)

    async def _members(self, number: int) -> list[Any]:
        return [plain.member_to_value(each) for each in await self._replica(number).members()]

    def _replica(self, number: int) -> ReplicaLog:
        log = self._log(number)
        assert isinstance(log, ReplicaLog), log
        return log

    def _file(self, path: str | None) -> dict[str, object]:
        return {} if path is None else {"path": self._directory / path}

    def _hold(self, log: Log | ReplicaLog) -> int:
        number = self._number()
        self._logs[number] = log
        return number

    def find(self, number: int) -> Log | ReplicaLog | None:
        """Give a log by its number, if it is one."""
        return self._logs.get(number)

    def _log(self, number: int) -> Log | ReplicaLog:
        log = self.find(number)
        if log is None:
            raise StoreError("the log was closed, or its node was started anew: attach it again")
        return log

    async def _append(
        self, number: int, values: tuple[Value, ...], key: Value, partition: int | None
    ) -> int:
        return self._keep(await self._log(number).append_batch(values, key, partition=partition))

    async def _read(
        self, number: int, partition: int, offset: int, limit: int, timeout: float
    ) -> list[Any]:
        log = self._log(number)
        entries = await log.read(partition, offset, min(limit, READ_SIZE), timeout)
        return [plain.log_entry_to_value(each) for each in entries]

    async def _offsets(self, number: int) -> dict[int, tuple[int, int]]:
        found = await self._log(number).offsets()
        return {partition: (span.start, span.end) for partition, span in found.items()}

    async def _commit(self, number: int, consumer: str, positions: Mapping[int, int]) -> int:
        return self._keep(await self._log(number).commit(consumer, positions))

    async def _committed(self, number: int, consumer: str) -> dict[int, int]:
        return await self._log(number).committed(consumer)

    async def _close(self, number: int) -> None:
        log = self._logs.pop(number, None)
        if log is not None:
            await log.close()
