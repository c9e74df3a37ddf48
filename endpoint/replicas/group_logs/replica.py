"""The handle of a log's replica: appends and reads, and who leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Unpack

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import ORDER_SECONDS
from endpoint.replicas.group_logs.part import LogReplicaPart
from endpoint.replicas.groups.membership import GroupHandle, order_seconds
from endpoint.replicas.logs.log_backends import take_retention
from endpoint.replicas.logs.log_handle import LogHandle
from endpoint.replicas.stores.reading import READ_SECONDS
from stores.log.bodies import ChangeRetention
from stores.quota import QuotaLimits
from stores.statistics import LogStatistics
from stores.table.bodies import ChangeQuota
from wire.public import public


@public
class ReplicaLog(GroupHandle, LogHandle):
    """A replica of a log whose group elects its leader.

    An append's receipt is given once a majority of the voters has it, on the disk where they keep
    it there. Whichever endpoint it is asked at, the leader gives it its offset, and after a change
    of the leader it is there once. Reads and consumers see what is committed and has come here,
    never going back; after ``catch_up`` that is all that was acknowledged before.
    """

    def __init__(self, part: LogReplicaPart, close: Callable[[], Awaitable[None]]) -> None:
        """Use ``Endpoint.attach_log_replica``."""
        self.part = part
        GroupHandle.__init__(self, part)
        LogHandle.__init__(self, part.runner, part.source, part.core.requests, close)

    def __repr__(self) -> str:
        """Show the log's name, what this replica is, and where its partitions end."""
        runner = self.runner
        ends = self.part.core.machine.partitions.ends()
        state = f"ends={ends}" if runner.error is None else "closed"
        role = "leader" if self.is_leader() else f"leader={self.leader()}"
        return f"<ReplicaLog {runner.name} {role} {state}>"

    async def catch_up(self, timeout: Seconds = READ_SECONDS) -> None:
        """Wait until reads here see all that was acknowledged, anywhere, before this call.

        Without a majority it raises ``NoQuorum`` after ``timeout`` seconds.
        """
        await self.part.await_linear(order_seconds(timeout))

    async def set_quota(
        self, timeout: Seconds = ORDER_SECONDS, **limits: Unpack[QuotaLimits]
    ) -> None:
        """Change ``max_entries``, ``max_bytes`` or both for the group; ``None`` sets no limit.

        It is of the group: every leader judges by it, now and after restarts. What is there stays,
        even if it is more. Raises ``InvalidData``, ``NoQuorum`` and ``NotAllowed``.
        """
        quota = replace(self.part.core.meter.quota, **limits)
        await self.part.ask(ChangeQuota(quota), order_seconds(timeout))

    async def set_retention(
        self,
        timeout: Seconds = ORDER_SECONDS,
        *,
        keep_seconds: float | timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
    ) -> None:
        """Have each partition keep so much at least; ``None`` sets no limit.

        It is of the group, now and after restarts, and takes the place of what was said before.
        Entries age while the group has a leader. Raises ``InvalidData``, ``NoQuorum`` and
        ``NotAllowed``.
        """
        retention = take_retention(
            {"keep_seconds": keep_seconds, "keep_count": keep_count, "keep_bytes": keep_bytes}
        )
        await self.part.ask(ChangeRetention(retention), order_seconds(timeout))

    def statistics(self) -> LogStatistics:
        """Count what this replica has."""
        return self.part.core.statistics()
