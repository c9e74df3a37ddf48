"""Where the handle of a log's replica reads: what is committed, and has come here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from endpoint.replicas.group_logs.part import LogReplicaPart
from endpoint.replicas.logs.log_reading import Batch, gather, has_news, readable
from stores.log.messages import Cursors, Positions
from stores.log.partitions import Span

BEGIN_SECONDS: Final = 10.0
"""How long reads and appends wait for a log that has not begun: for some elections."""


class ReplicaSource:
    """The replica that is here. Its entries are in memory, so that no read waits for a disk."""

    def __init__(self, part: LogReplicaPart) -> None:
        """Read what the machine of ``part`` has applied."""
        self._part = part
        self._machine = part.core.machine

    @property
    def name(self) -> str:
        """Give the name of the log."""
        return self._part.runner.name

    async def partition_count(self) -> int:
        """Give the number of partitions, once the log has begun."""
        await self._part.await_begun(BEGIN_SECONDS)
        return len(self._machine.partitions)

    async def fetch(self, positions: Positions, size_max: int, seconds: float) -> Batch:
        """Read what is committed here."""
        await self.partition_count()
        machine = self._machine
        with trio.move_on_after(seconds):
            while not has_news(machine.partitions, positions):
                await self._part.moved.wait()
                self._part.runner.check()
        await trio.lowlevel.checkpoint()
        wanted = readable(machine.partitions, positions)
        runs = gather(machine.read, wanted, size_max) or []
        return Batch(runs, [machine.partitions[partition].span for partition, _ in positions])

    async def state(self) -> tuple[Sequence[Span], Cursors]:
        """Give what is committed here."""
        await self.partition_count()
        return self._machine.partitions.spans(), self._machine.all_cursors()

    async def offset_at(self, partition: int, timestamp_ns: int) -> int:
        """Look it up in what is committed here."""
        await self.partition_count()
        return self._machine.find(partition, timestamp_ns)
