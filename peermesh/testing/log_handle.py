"""A log that a node holds for a test, with the endpoint's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from endpoint.replicas.attaching import LEADER_SECONDS
from endpoint.replicas.handle import GroupMember
from endpoint.replicas.logs.log_reading import READ_LIMIT, LogEntry
from peermesh.testing.agent import plain
from peermesh.testing.handles import Handle, Held, RemoteReceipt
from peermesh.testing.time_limits import limit
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


class LogReplicaHandle(LogHandle):
    """A replica of a log at a node: the operations of a log, and who leads its group."""

    async def await_leader(self, timeout: float | None = None) -> str:
        """Wait until a leader serves this replica, and give its name; raises ``NoQuorum``.

        Without a ``timeout`` it is that of a store, or longer while the machine is slow.
        """
        timeout = limit(LEADER_SECONDS) if timeout is None else timeout
        return str(await self._call("log_await_leader", timeout))

    async def catch_up(self, timeout: float | None = None) -> None:
        """Wait until reads see all that was acknowledged; see ``ReplicaLog.catch_up``."""
        await self._call("log_catch_up", limit(LEADER_SECONDS) if timeout is None else timeout)

    async def members(self) -> list[GroupMember]:
        """Give all members, as the leader knows them; elsewhere the voters, by name alone."""
        return [plain.member_from_value(each) for each in await self._call("log_members")]
