"""What only replicas of logs have: where they are read, and waiting until the log has begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import trio

from endpoint.replicas.attaching import PATIENCE_SECONDS, Backend
from endpoint.replicas.disk import log_failure, on_disk
from endpoint.replicas.logs.log_proxy import unreachable
from endpoint.replicas.logs.log_reading import Batch, Extent, is_of_another
from endpoint.replicas.logs.log_receipts import LogPromotion
from endpoint.replicas.options import log_quota, take_quota, take_retention
from endpoint.replicas.part import GroupPart, Single
from endpoint.replicas.parts import AnyEffect, Kind
from stores.group.positions import Position
from stores.group.terms import stretch_of
from stores.log.bookmarks import LogBookmark
from stores.log.kept_runs import AnyRun, KeptRun, RunPlace
from stores.log.machine import LogMachine
from stores.log.messages import (
    Answer,
    Fetch,
    Fetched,
    Found,
    Positions,
    QueryFailed,
    TimeQuery,
)
from stores.log.partitions import Retention
from stores.quota import Quota, QuotaPool
from stores.replica.effects import ReadFor, ReadRuns
from stores.replica.logs.core import LogCore
from stores.replica.logs.reading import filled
from wire.errors import BackendFailure, InvalidData, KeeperUnreachable, NoSuchPartition, StoreError

if TYPE_CHECKING:
    from endpoint.replicas.logs.files import LogReplicaFiles

WORD_SECONDS: Final = 1.0
"""For so long a read asks the leader whether entries are lost, even if it was to wait for nothing:
a leader that is there answers within milliseconds."""

READERS_MAX: Final = 1
"""Threads that read one file at a time: it has one connection, and others would only wait."""


class LogPart(GroupPart[LogCore]):
    """The replica of a log that is here."""

    kind: ClassVar[Kind] = "log"

    def __init__(
        self, core: LogCore, files: LogReplicaFiles | None, single: Single[LogCore] | None
    ) -> None:
        """Start as ``GroupPart`` does."""
        super().__init__(core, files, single)
        self._files = files
        self._reading = trio.CapacityLimiter(READERS_MAX)
        self.source = ReplicaSource(self)
        """Where the handle reads, and proxies elsewhere."""

    # -- for the runner --------------------------------------------------------------------------

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

    def was_carried_out(self) -> None:
        """Note whether there is something to read: a keeper is found before it has come."""
        super().was_carried_out()
        if self.single is not None:
            self.runner.is_synced = self.has_begun

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

    # -- until it has begun ----------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """True once the log has its partitions here."""
        return len(self.core.machine.partitions) > 0

    async def await_begun(self, seconds: float) -> None:
        """Wait until the log has its partitions; raises what ``no_quorum`` makes."""
        await self._await(lambda: self.has_begun, seconds)

    async def await_lead(self, seconds: float) -> None:
        """Wait until the log that is led here has its partitions."""
        await super().await_lead(seconds)
        await self.await_begun(seconds)

    def no_quorum(self, seconds: float, loss: str = "") -> StoreError:
        """Make the error of a wait that was in vain; ``loss`` is what its remedy may cost."""
        if self.single is None or self.core.bar.text is not None:
            return super().no_quorum(seconds, loss)
        return KeeperUnreachable(f"{self.what}: {unreachable(seconds)}")

    # -- led alone -------------------------------------------------------------------------------

    def _ends(self) -> tuple[int, ...]:
        return self.core.machine.partitions.ends()

    @property
    def extent(self) -> str:
        """Say how much is here."""
        return f"{sum(self._ends())} entries"

    async def promote(self, options: dict[str, object], *, is_forced: bool) -> LogPromotion:
        """Have a follower lead; see ``Log.promote``."""
        assert self.single is not None, "a group elects"
        default = log_quota(Backend.Memory if self.backend is None else Backend.SQLite)
        retention, quota = take_retention(options), take_quota(options, default)
        if options:
            raise InvalidData(f"promote has no option {next(iter(options))!r}")
        ends, silent_seconds = await self.single.take_over(self._ends, is_forced=is_forced)
        self.keep(retention, quota)
        return LogPromotion(stretch_of(self.core.epoch), ends, silent_seconds)

    def keep(self, retention: Retention, quota: Quota) -> None:
        """Have the log that is led here keep so much, and hold no more."""
        core = self.core
        if retention != core.machine.retention:
            self.runner.carry_out(core.set_retention(retention))
        if quota != core.meter.quota:
            self.runner.carry_out(core.set_quota(quota))

    def share_quota(self, pool: QuotaPool) -> None:
        """Have the keeper that is here go by the quota of several logs; nothing elsewhere."""
        if self.leader is not None:
            self.runner.carry_out(self.leader.share_quota(pool.join(self.runner.name)))

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
        batch = await self.source.gather(
            query.positions, query.size_max, query.seen, is_current=True
        )
        return Fetched(query.query, tuple(batch.runs), tuple(batch.offsets))


class ReplicaSource:
    """The replica that is here: its latest entries are in memory, the others in its file."""

    def __init__(self, part: LogPart) -> None:
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

    @property
    def group(self) -> bytes | None:
        """Give the group whose log is here; ``None`` while a copy has none."""
        return self._part.core.group

    async def partition_count(self) -> int:
        """Give the number of partitions, once the log has begun; a copy may be too old to read."""
        single = self._part.single
        await self._part.await_begun(single.patience.seconds if single else PATIENCE_SECONDS)
        self._part.runner.check()
        return len(self._machine.partitions)

    async def fetch(
        self,
        positions: Positions,
        size_max: int,
        seconds: float,
        seen: Sequence[LogBookmark] = (),
    ) -> Batch:
        """Read what is committed here. A reader that is ahead may have read it elsewhere."""
        last = [each.position for each in seen]
        deadline = trio.current_time() + seconds
        while True:
            count = await self.partition_count()  # A copy may have been dropped meanwhile.
            if is_of_another(seen, self.group):
                return Batch((), (), self.group)
            none = next((number for number, _ in positions if number >= count), None)
            if none is not None:
                raise NoSuchPartition(
                    f"log {self.name} has no partition {none}, but {count} from 0 on"
                )
            is_current = self._machine.is_ahead(positions) and await self._is_current(deadline)
            if is_of_another(seen, self.group):
                continue
            if self._machine.has_news(positions, last, is_current=is_current):
                break
            with trio.move_on_at(deadline) as scope:
                await self._part.moved.wait()
            self._part.runner.check()
            if scope.cancelled_caught:
                break
        await trio.lowlevel.checkpoint()
        return await self.gather(positions, size_max, last, is_current=is_current)

    async def _is_current(self, deadline: float) -> bool:
        """Wait until all is here that was committed before; false if no leader says so in time."""
        runner = self._part.runner
        with trio.move_on_at(max(deadline, trio.current_time() + WORD_SECONDS)) as scope:
            await runner.reach(self._part.core.begin_read)
        runner.check()
        return not scope.cancelled_caught

    async def gather(
        self, positions: Positions, size_max: int, seen: Sequence[Position], *, is_current: bool
    ) -> Batch:
        """Read what is here now, from memory or the file."""
        machine, group = self._machine, self.group
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
        return Batch(runs, machine.goes_on(positions, seen, is_current=is_current), group)

    async def state(self) -> Extent:
        """Give what is committed here."""
        await self.partition_count()
        machine = self._machine
        bookmark = LogBookmark(self.group, machine.last_run)
        return Extent(machine.partitions.spans(), machine.all_cursors(), bookmark)

    async def offsets_at(self, timestamp_ns: int) -> tuple[int, ...]:
        """Look them up in what is committed here."""
        await self.partition_count()
        return self._machine.find(timestamp_ns)
