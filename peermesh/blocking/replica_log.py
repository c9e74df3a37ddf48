"""Replicas of logs for threads."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Unpack

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import ORDER_SECONDS
from endpoint.replicas.stores.reading import READ_SECONDS
from peermesh.blocking.living import Passage
from peermesh.blocking.log import LogHandle
from peermesh.blocking.membership import GroupHandle
from stores.quota import QuotaLimits
from stores.statistics import LogStatistics

if TYPE_CHECKING:
    from endpoint.replicas.group_logs.replica import ReplicaLog as Core


class ReplicaLog(GroupHandle, LogHandle):
    """A replica of a log whose group elects its leader; see ``peermesh.ReplicaLog``."""

    def __init__(self, passage: Passage, core: Core) -> None:
        """Use ``Endpoint.attach_log_replica``."""
        LogHandle.__init__(self, passage, core)
        GroupHandle.__init__(self, passage, core)
        self._replica = core

    def __repr__(self) -> str:
        """Show the log's name, and what this replica is."""
        return self._passage.show(f"ReplicaLog {self.name()}", self._replica)

    def catch_up(self, timeout: Seconds = READ_SECONDS) -> None:
        """Wait until reads see all that was acknowledged; see ``peermesh.ReplicaLog.catch_up``."""
        self._passage.call(self._replica.catch_up, timeout)

    def set_quota(self, timeout: Seconds = ORDER_SECONDS, **limits: Unpack[QuotaLimits]) -> None:
        """Change the group's quota; see ``peermesh.ReplicaLog.set_quota``."""
        self._passage.call(partial(self._replica.set_quota, timeout, **limits))

    def set_retention(
        self,
        timeout: Seconds = ORDER_SECONDS,
        *,
        keep_seconds: float | timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
    ) -> None:
        """Have each partition keep so much; see ``peermesh.ReplicaLog.set_retention``."""
        change = partial(
            self._replica.set_retention,
            timeout,
            keep_seconds=keep_seconds,
            keep_count=keep_count,
            keep_bytes=keep_bytes,
        )
        self._passage.call(change)

    def statistics(self) -> LogStatistics:
        """Count what this replica has."""
        return self._passage.call_sync(self._replica.statistics)
