"""What only logs have: reads of a disk, for others too, and questions without a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.disk import log_failure, on_disk
from endpoint.replicas.logs.log_reading import gather, readable
from endpoint.replicas.parts import AnyEffect, Topics
from endpoint.replicas.patience import Patience
from endpoint.replicas.questions import Questions
from endpoint.replicas.runner import Runner
from stores.effects import Deposed
from stores.log.changes import LoadedLog, LogBackend, LogChanges, Role
from stores.log.effects import Answered, Grown, LogEffect, PersistLog, ReadFor
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.messages import Answer, Fetch, Query, TimeQuery
from stores.log.proxy import Proxy
from stores.log.requests import LogRequests
from stores.log.runs import Run
from stores.quota import QuotaPool
from wire.errors import BackendFailure, StoreClosed
from wire.identifiers import EntityId
from wire.logs import logger_of
from wire.topics import log_topics

logger = logger_of("peermesh.log")

LogCore = Keeper | Follower | Proxy

READS_AT_ONCE: Final = 4
"""Threads that read for others at a time: there is one disk, and other work for threads."""


def make_follower(
    entity: EntityId,
    loaded: LoadedLog,
    now_ns: int,
    patience: Patience,
    requests: LogRequests | None = None,
) -> Follower:
    """Make a follower, maybe for the handle of a deposed keeper."""
    return Follower(
        entity,
        now_ns,
        loaded,
        patience_ticks=patience.ticks,
        stale_interval_ns=patience.stale_ns,
        requests=requests,
    )


class LogPart:
    """A log's entries at a keeper or a follower, or the questions of a proxy."""

    kind: Final = "log"
    runner: Runner

    def __init__(self, core: LogCore, backend: LogBackend | None, patience: Patience) -> None:
        """Start with a core, and with a backend unless that is a proxy."""
        self.core = core
        self.backend = backend
        self.patience = patience
        self.grown = trio.lowlevel.ParkingLot()
        """Woken when there is more to read, or less."""
        self._questions: Questions[Answer] = Questions()
        self._readers = trio.CapacityLimiter(READS_AT_ONCE)
        self._read_failure = ""

    # -- for the runner --------------------------------------------------------------------------

    @property
    def leader(self) -> Keeper | None:
        """The core, if it is a keeper."""
        return self.core if isinstance(self.core, Keeper) else None

    def topics(self, name: str) -> Topics:
        """Give the topics of the core in its role."""
        keepers, readers, followers = log_topics(name)
        if isinstance(self.core, Keeper):
            return Topics(keepers, readers, followers)
        also = followers if isinstance(self.core, Follower) else None
        return Topics(readers, keepers, keepers, also)

    def survey(self) -> None:
        """Do nothing: who is in reach makes no difference to a log."""

    def carry_out(self, effect: AnyEffect) -> Sequence[AnyEffect]:
        """Do what only logs ask."""
        match effect:
            case PersistLog():
                return self._persist(effect)
            case ReadFor(reader, query):
                return self._read_for(reader, query)
            case Grown():
                self.grown.unpark_all()
                self.runner.changed.unpark_all()
            case Answered(answer):
                self._questions.answer(answer.query, answer)
            case _:
                raise AssertionError(f"no log asks for {effect}")
        return ()

    def was_carried_out(self) -> None:
        """Note whether a follower has something to read: a keeper was found before it was."""
        if isinstance(self.core, Follower):
            self.runner.is_synced = len(self.core.partitions) > 0

    def step_down(self, deposed: Deposed) -> None:
        """Put a follower in the place of a deposed keeper, when its last commit is over."""
        self.runner.is_changing_role = True
        self.runner.start_task(self._step_down, deposed)

    async def _step_down(self, deposed: Deposed) -> None:
        """What the last commit brought is in the copy, and cut off if the new keeper lacks it."""
        keeper, runner = self.core, self.runner
        assert isinstance(keeper, Keeper), keeper
        await runner.await_commits()
        try:
            await self.commit_role(LogChanges(role=Role.DEPOSED, known_epoch=deposed.epoch))
        except BackendFailure as error:
            logger.error("log %s: %s", runner.name, error)
        legacy, requests = keeper.legacy(deposed.epoch), keeper.requests
        now_ns = runner.now_ns()
        follower = make_follower(keeper.entity, legacy, now_ns, self.patience, requests)
        self.swap(follower)
        runner.end_change()
        reason = (
            f"deposed at {deposed.revision} entries: {deposed.master} leads; what it did not hear"
            " of is lost, and this log is a follower now"
        )
        runner.tell_status(StatusCode.STORE_DEPOSED, deposed.master, reason)
        runner.carry_out(follower.start())

    def was_closed(self) -> None:
        """Wake all that wait: nothing comes any more."""
        self._questions.end()
        self.grown.unpark_all()

    # -- the role --------------------------------------------------------------------------------

    def swap(self, core: Keeper | Follower) -> None:
        """Go on with a core of the other role, on the same backend."""
        self.core = core
        self.runner.swapped()
        self.grown.unpark_all()

    async def commit_role(self, changes: LogChanges) -> None:
        """Make a change of the role durable; raises ``BackendFailure``. Finish it."""
        assert self.backend is not None, "a log without a backend has one role"
        if self.backend.is_durable:
            await self.runner.on_disk(partial(self.backend.commit, changes))
        else:
            self.backend.commit(changes)

    def share_quota(self, pool: QuotaPool) -> None:
        """Have the keeper that is here go by the quota of several logs; nothing elsewhere."""
        if isinstance(self.core, Keeper):
            self.runner.carry_out(self.core.share_quota(pool.join()))

    # -- questions of the handle -----------------------------------------------------------------

    async def ask_keeper(self, make: Callable[[int], Query]) -> Answer:
        """Ask the keeper what ``make`` makes of a number; for proxies."""
        assert isinstance(self.core, Proxy), self.core
        if self.runner.error is not None:
            raise self.runner.error
        with self._questions.ask() as question:
            self.runner.carry_out(self.core.ask(make(question.number)))
            try:
                await question.wait()
            finally:
                self.core.cancel(question.number)
        if question.answer is None:
            raise self.runner.error or StoreClosed(f"log {self.runner.name}: it is closed")
        return question.answer

    # -- the backend -----------------------------------------------------------------------------

    def _persist(self, effect: PersistLog) -> Sequence[LogEffect]:
        assert self.backend is not None
        assert isinstance(self.core, Keeper | Follower), self.core
        commit = partial(self.backend.commit, effect.changes)
        if self.backend.is_durable:
            self.runner.commit(self.core, effect.token, commit)
            return ()
        commit()
        return self.core.persisted(effect.token)

    def _read_for(self, reader: EntityId, query: Fetch | TimeQuery) -> list[LogEffect]:
        assert self.backend is not None
        assert isinstance(self.core, Keeper), self.core
        if isinstance(query, Fetch):
            runs = gather(
                self.backend.read_at_hand,
                readable(self.core.partitions, query.positions),
                query.size_max,
            )
            if runs is not None:
                return self.core.was_read(reader, query, runs, None)
        elif not self.backend.is_durable:
            found = self.backend.find(query.partition, query.timestamp_ns)
            return self.core.was_read(reader, query, (), found)
        self.runner.start_task(self._read_from_disk, self.core, reader, query)
        return []

    async def _read_from_disk(
        self, keeper: Keeper, reader: EntityId, query: Fetch | TimeQuery
    ) -> None:
        assert self.backend is not None
        runs: list[Run] = []
        found: int | None = None
        try:
            if isinstance(query, Fetch):
                runs = await self.read(query)
            else:
                found = await on_disk(
                    self.backend.find, query.partition, query.timestamp_ns, limiter=self._readers
                )
        except BackendFailure as error:
            if str(error) != self._read_failure:  # followers ask again and again
                self._read_failure = str(error)
                log_failure("log", self.runner.name, error)
            if self.runner.error is None and self.core is keeper:
                self.runner.carry_out(keeper.read_failed(reader, query, error))
            return
        if self.runner.error is None and self.core is keeper:  # else the next keeper is asked
            self.runner.carry_out(keeper.was_read(reader, query, runs, found))

    async def read(self, query: Fetch) -> list[Run]:
        """Read what a fetch asks for: committed runs, from the first position that has any."""
        assert self.backend is not None
        assert isinstance(self.core, Keeper | Follower), self.core
        wanted, size = readable(self.core.partitions, query.positions), query.size_max
        found = gather(self.backend.read_at_hand, wanted, size)
        if found is None:
            read = self.backend.read
            found = await on_disk(gather, read, wanted, size, limiter=self._readers)
        return found or []
