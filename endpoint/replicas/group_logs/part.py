"""What only replicas of logs have: their topics, and waiting until the log has begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from endpoint.replicas.disk import log_failure, on_disk
from endpoint.replicas.groups.part import GroupPart
from endpoint.replicas.logs.log_reading import Source
from endpoint.replicas.parts import AnyEffect, Kind, Topics
from stores.log.kept_runs import AnyRun, KeptRun, RunPlace
from stores.log.messages import Answer, Fetch, Fetched, Found, QueryFailed, TimeQuery
from stores.replica.effects import ReadFor, ReadRuns
from stores.replica.logs.core import LogCore
from stores.replica.logs.reading import filled
from wire.errors import BackendFailure, StoreError
from wire.topics import log_group_topic, log_topics

if TYPE_CHECKING:
    from endpoint.replicas.group_logs.files import LogReplicaFiles

READERS_MAX: Final = 1
"""Threads that read one file at a time: it has one connection, and others would only wait."""


class LogReplicaPart(GroupPart[LogCore]):
    """The replica of a log that is here."""

    kind: Kind = "log"

    source: Source
    """Where the handle reads, and proxies elsewhere; given before it begins to work."""

    def __init__(self, core: LogCore, files: LogReplicaFiles | None) -> None:
        """Start with a core, and with the files of one that is durable."""
        super().__init__(core, files)
        self._files = files
        self._reading = trio.CapacityLimiter(READERS_MAX)

    @property
    def proxies_hear(self) -> str:
        """The topic that endpoints outside of the group hear answers on."""
        _, readers, _ = log_topics(self.runner.name)
        return readers

    def topics(self, name: str) -> Topics:
        """Hear, and speak, on the group's one topic."""
        topic = log_group_topic(name)
        return Topics(topic, topic, topic)

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only replicas of logs ask."""
        match effect:
            case ReadFor():
                self.runner.start_task(self._read_for, self.core, effect)
            case ReadRuns():
                self.runner.start_task(self._read_runs, self.core, effect)
            case _:
                return super().carry_out(effect)
        return ()

    async def read(self, runs: Sequence[AnyRun]) -> list[KeptRun]:
        """Give runs with their entries, up to the first that was let go before it was read.

        Raises ``BackendFailure`` if the first one is damaged.
        """
        places = [run for run in runs if isinstance(run, RunPlace)]
        return filled(runs, await self._read_places(places) if places else ())

    async def _read_places(self, places: Sequence[RunPlace]) -> list[KeptRun]:
        assert self._files is not None, places
        try:
            return await on_disk(self._files.read, places, limiter=self._reading)
        except BackendFailure:
            self.runner.check()  # A file that is closed is no failure.
            raise

    async def _read_runs(self, core: LogCore, effect: ReadRuns) -> None:
        found: Sequence[KeptRun] = ()
        damage = None
        try:
            found = await self._read_places(effect.runs)
        except StoreError as error:
            log_failure(self.kind, self.runner.name, error)
            damage = str(error)
        if self.runner.error is not None or self.core is not core:
            return
        if damage is None:
            self.runner.carry_out(core.runs_read(effect.token, found))
        else:
            self.runner.carry_out(core.runs_damaged(effect.token, damage))

    @property
    def has_begun(self) -> bool:
        """True once the log has its partitions here."""
        return len(self.core.machine.partitions) > 0

    async def await_begun(self, seconds: float) -> None:
        """Wait until the log has its partitions; raises what ``no_quorum`` makes."""
        if not self.has_begun and self.runner.error is None:
            with trio.move_on_after(seconds):
                while not self.has_begun and not self._is_over:
                    await self.moved.wait()
        if self.runner.error is not None:
            raise self.runner.error
        if not self.has_begun:
            raise self.no_quorum(seconds)

    # -- for proxies -----------------------------------------------------------------------------

    async def _read_for(self, core: LogCore, asked: ReadFor) -> None:
        try:
            answer = await self._answer(asked.query)
        except StoreError as error:
            answer = QueryFailed(asked.query.query, error.code, str(error)[:200])
        if self.runner.error is None and self.core is core:
            self.runner.carry_out(core.was_read(asked.endpoint, asked.ticket, answer))

    async def _answer(self, query: Fetch | TimeQuery) -> Answer:
        if isinstance(query, TimeQuery):
            return Found(query.query, await self.source.offsets_at(query.timestamp_ns))
        batch = await self.source.fetch(query.positions, query.size_max, 0.0)
        starts = tuple(span.start for span in batch.spans)
        return Fetched(
            query.query, tuple(batch.runs), starts, tuple(span.end for span in batch.spans)
        )
