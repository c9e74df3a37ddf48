"""Where the handle of a log's replica reads: what is committed, and has come here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from endpoint.replicas.group_logs.part import LogReplicaPart
from endpoint.replicas.logs.log_reading import Batch, has_news
from stores.log.kept_runs import AnyRun
from stores.log.machine import LogMachine
from stores.log.messages import Cursors, Positions
from stores.log.partitions import Span
from wire.errors import BackendFailure

BEGIN_SECONDS: Final = 10.0
"""How long reads and appends wait for a log that has not begun: for some elections."""


class ReplicaSource:
    """The replica that is here: its latest entries are in memory, the others in its file."""

    def __init__(self, part: LogReplicaPart) -> None:
        """Read what the machine of ``part`` has applied."""
        self._part = part

    @property
    def _machine(self) -> LogMachine:
        """What is here now: a keeper that is deposed goes on with another one."""
        return self._part.core.machine

    @property
    def name(self) -> str:
        """Give the name of the log."""
        return self._part.runner.name

    @property
    def known_count(self) -> int:
        """Give the number of partitions; zero before the log has begun."""
        return len(self._machine.partitions)

    async def partition_count(self) -> int:
        """Give the number of partitions, once the log has begun."""
        await self._part.await_begun(BEGIN_SECONDS)
        return len(self._machine.partitions)

    async def fetch(self, positions: Positions, size_max: int, seconds: float) -> Batch:
        """Read what is committed here."""
        await self.partition_count()
        with trio.move_on_after(seconds):
            while not has_news(self._machine.partitions, positions):
                await self._part.moved.wait()
                self._part.runner.check()
        await trio.lowlevel.checkpoint()
        machine = self._machine
        first: AnyRun | None = None
        while wanted := machine.gather(positions, size_max):
            runs = await self._part.read(wanted)
            self._part.runner.check()
            if runs:
                break
            if wanted[0] == first:
                raise BackendFailure(f"log {self.name}: its file lacks {first}")
            first = wanted[0]  # Retention may have let it go meanwhile: what is there now?
        else:
            runs = []
        return Batch(runs, [machine.partitions[partition].span for partition, _ in positions])

    async def state(self) -> tuple[Sequence[Span], Cursors]:
        """Give what is committed here."""
        await self.partition_count()
        return self._machine.partitions.spans(), self._machine.all_cursors()

    async def offsets_at(self, timestamp_ns: int) -> tuple[int, ...]:
        """Look them up in what is committed here."""
        await self.partition_count()
        return self._machine.find(timestamp_ns)
