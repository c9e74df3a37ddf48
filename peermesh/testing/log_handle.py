"""A log that a node holds for a test, with the endpoint's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from endpoint.replicas.logs.log_entries import READ_LIMIT, LogEntry
from peermesh.testing.agent import plain
from peermesh.testing.handles import Handle, Held, RemoteReceipt
from stores.log.partitions import Span
from stores.log.runs import Position
from wire.values import Value


class RemoteAppend(Handle):
    """One append on its way."""

    async def applied(self) -> Position:
        """Wait until it is appended; gives the first entry's place, or raises the error."""
        return Position(*await self._call("applied"))


class LogHandle(Held):
    """A log at a node: its keeper, or a follower. Made by ``Node.attach_log``, ``_clone``."""

    _CLOSE = "close_log"

    async def append(
        self, value: Value, key: Value = None, *, partition: int | None = None
    ) -> RemoteAppend:
        """Append an entry."""
        return await self.append_batch((value,), key, partition=partition)

    async def append_batch(
        self, values: Iterable[Value], key: Value = None, *, partition: int | None = None
    ) -> RemoteAppend:
        """Append entries to one partition, one after the other, all or none of them."""
        number = await self._call("log_append", tuple(values), key, partition)
        return RemoteAppend(self.node, number)

    async def read(
        self, partition: int, offset: int, limit: int = READ_LIMIT, timeout: float = 0.0
    ) -> list[LogEntry]:
        """Read entries from an offset on: what is there, or after ``timeout`` seconds nothing."""
        found = await self._call("log_read", partition, offset, limit, timeout)
        return [plain.log_entry_from_value(each) for each in found]

    async def offsets(self) -> dict[int, Span]:
        """Give the first offset of each partition, and the one after the last."""
        found: Mapping[int, Any] = await self._call("log_offsets")
        return {partition: Span(*ends) for partition, ends in found.items()}

    async def commit(self, consumer: str, positions: Mapping[int, int]) -> RemoteReceipt:
        """Remember that a consumer is done with all before these offsets."""
        return RemoteReceipt(self.node, await self._call("log_commit", consumer, dict(positions)))

    async def committed(self, consumer: str) -> dict[int, int]:
        """Give the next offsets that a consumer wants; empty if it has committed nothing."""
        return dict(await self._call("log_committed", consumer))
