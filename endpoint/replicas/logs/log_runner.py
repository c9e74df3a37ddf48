"""Drives one log's core: what stores have not, which is reads of a disk, and questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import trio

from endpoint.mesh.status import StatusCode
from endpoint.replicas.attaching import PATIENCE_SECONDS, STALE_SECONDS
from endpoint.replicas.disk import describe, log_failure, on_disk
from endpoint.replicas.hosting import StoreHost
from endpoint.replicas.logs.log_promoting import step_down
from endpoint.replicas.stores.store_runner import StoreCore, StoreRunner
from stores.effects import Deposed, Effect, Multicast, Unicast
from stores.log.changes import LoadedLog, LogBackend, LogChanges
from stores.log.effects import Answered, Grown, LogEffect, PersistLog, ReadFor
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.messages import Answer, Fetch, Query, TimeQuery
from stores.log.proxy import Proxy
from stores.log.requests import LogRequests
from stores.log.runs import Run, within
from stores.persistence import StoreBackend
from stores.quota import QuotaPool
from wire.errors import BackendFailure, LimitExceeded, StoreClosed
from wire.identifiers import EndpointId, EntityId
from wire.logs import logger_of
from wire.topics import log_topics

logger = logger_of("peermesh.log")

LogCore = Keeper | Follower | Proxy

TICKS_PER_SECOND: Final = 10

READS_AT_ONCE: Final = 4
"""Threads that read for others at a time: there is one disk, and other work for threads."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long those wait that look for their keeper; a deposed keeper is as patient as usual."""

    seconds: float = PATIENCE_SECONDS
    stale_interval: float | None = STALE_SECONDS

    @property
    def ticks(self) -> int:
        """Give it as cores count it."""
        return round(self.seconds * TICKS_PER_SECOND)

    def follower(
        self, entity: EntityId, loaded: LoadedLog, now_ns: int, requests: LogRequests | None = None
    ) -> Follower:
        """Make a follower, maybe for the handle of a deposed keeper."""
        stale = self.stale_interval
        return Follower(
            entity,
            now_ns,
            loaded,
            patience_ticks=self.ticks,
            stale_interval_ns=None if stale is None else round(stale * 1e9),
            requests=requests,
        )


class LogTopics(NamedTuple):
    """Where a log hears commands, speaks to one, speaks to all, and maybe hears more."""

    hears: str
    speaks: str
    shouts: str
    also_hears: str | None

    @classmethod
    def of(cls, name: str, log: LogCore) -> LogTopics:
        """Give the topics of a log in its role."""
        keepers, readers, followers = log_topics(name)
        if isinstance(log, Keeper):
            return cls(keepers, readers, followers, None)
        return cls(readers, keepers, keepers, followers if isinstance(log, Follower) else None)


class LogRunner(StoreRunner):
    """One log of an endpoint at work."""

    is_log = True
    kind = "log"

    def __init__(
        self,
        host: StoreHost,
        log: LogCore,
        *,
        name: str,
        backend: LogBackend | None,
        patience: Patience,
        now_ns: Callable[[], int],
    ) -> None:
        """Run ``log``; ``start`` has it hear."""
        super().__init__(
            host,
            cast("StoreCore", log),
            name=name,
            now_ns=now_ns,
            backend=cast("StoreBackend | None", backend),
        )
        self.backend = backend
        self.patience = patience
        self._play(log)
        self.grown = trio.lowlevel.ParkingLot()
        """Woken when there is more to read, or less."""
        self._answers: dict[int, trio.Event] = {}
        self._answered: dict[int, Answer] = {}
        self._queries = 0
        self._readers = trio.CapacityLimiter(READS_AT_ONCE)
        self._read_failure = ""

    # The role.

    def _play(self, log: LogCore) -> None:
        self.log = log
        self.core = cast("StoreCore", log)
        self.is_master = self.is_synced = isinstance(log, Keeper)
        self._topics = LogTopics.of(self.name, log)
        self.hears = self._topics.hears

    def start(self) -> None:
        """Hear, and work; raises ``LimitExceeded`` where there are too many stores."""
        self._host.add_store(self.hears, self)
        try:
            self._hear_more()
        except LimitExceeded:
            self._host.drop_store(self.hears)
            raise
        self.start_task(self.flush_forever)

    def _hear_more(self) -> None:
        if self._topics.also_hears is not None:
            self._host.hear(self._topics.also_hears, self)

    def hears_all(self) -> list[str]:
        """Give all topics that are heard, the main one last."""
        also = self._topics.also_hears
        return [self.hears] if also is None else [also, self.hears]

    def change_role(self, log: LogCore) -> None:
        """Go on with a core of the other role, on the same backend."""
        before = self._topics
        self._play(log)
        if before.also_hears is not None:
            self._host.drop_store(before.also_hears)
        self._host.move_store(self, before.hears)
        self._hear_more()
        for token in list(self._idle):
            self.carry_out(log.begin_idle(token))
        self.changed.unpark_all()
        self.grown.unpark_all()

    def share_quota(self, pool: QuotaPool) -> None:
        """Have the keeper that is here go by the quota of several logs; nothing elsewhere."""
        if isinstance(self.log, Keeper):
            self.carry_out(self.log.share_quota(pool.join()))

    async def commit_role(self, changes: LogChanges) -> None:
        """Make a change of the role durable; raises ``BackendFailure``. Finish it."""
        assert self.backend is not None, "a log without a backend has one role"
        assert not self._is_committing, "wait until nothing is on its way to the disk"
        if not self.backend.is_durable:
            self.backend.commit(changes)
            return
        self._is_committing = True
        try:
            await on_disk(self.backend.commit, changes)
        finally:
            self._is_committing = False
            self.changed.unpark_all()

    def end_change(self) -> None:
        """Whatever came of it, the role does not change any more."""
        self.is_changing_role = False
        self.changed.unpark_all()

    async def await_commits(self) -> None:
        """Wait until nothing is on its way to the disk."""
        while self._is_committing:
            await self.changed.park()

    def _on_deposed(self, effect: Deposed) -> None:
        self.is_changing_role = True
        self.start_task(step_down, self, effect)

    def tell_deposed(self, effect: Deposed) -> None:
        """Say that a follower is in the keeper's place now."""
        reason = (
            f"deposed at {effect.revision} entries: {effect.master} leads; what it did not hear of"
            " is lost, and this log is a follower now"
        )
        self._emit(StatusCode.STORE_DEPOSED, effect.master, reason)

    def carry_out(self, effects: Sequence[Effect | LogEffect]) -> None:
        """Do what the core asks, in order, without waiting."""
        todo = list(effects)
        for effect in todo:  # it grows meanwhile
            match effect:
                case Multicast(payload):
                    self._host.send_command(self._topics.shouts, None, payload)
                case Unicast(to, payload):
                    self._host.send_command(self._topics.speaks, to, payload)
                case PersistLog():
                    todo += self._persist(effect)
                case ReadFor(reader, query):
                    todo += self._read_for(reader, query)
                case Grown():
                    self.grown.unpark_all()
                    self.changed.unpark_all()
                case Answered(answer):
                    self._on_answer(answer)
                case _:
                    super().carry_out([effect])
        if isinstance(self.log, Follower):
            self.is_synced = len(self.log.partitions) > 0  # found is not read yet
        if self.error is not None:
            self.grown.unpark_all()

    def discovered(self, endpoint: EndpointId) -> None:
        """An endpoint is there, and may have the keeper: say hello at once."""
        if self.error is None and isinstance(self.log, Proxy):
            self.carry_out(self.log.start())

    # Questions of the handle.

    def next_query(self) -> int:
        """Number a question."""
        self._queries += 1
        return self._queries

    async def ask_keeper(self, query: Query) -> Answer:
        """Ask the keeper; for proxies."""
        assert isinstance(self.log, Proxy), self.log
        if self.error is not None:
            raise self.error
        event = self._answers[query.query] = trio.Event()
        self.carry_out(self.log.ask(query))
        try:
            await event.wait()
        finally:
            del self._answers[query.query]
            self.log.cancel(query.query)
            found = self._answered.pop(query.query, None)
        assert found is not None, "the event says that there is an answer"
        return found

    def _on_answer(self, answer: Answer) -> None:
        event = self._answers.get(answer.query)
        if event is not None:
            self._answered[answer.query] = answer
            event.set()

    # The backend.

    def _persist(self, effect: PersistLog) -> list[LogEffect]:
        assert self.backend is not None
        assert isinstance(self.log, Keeper | Follower), self.log
        if self.backend.is_durable:
            self._is_committing = True
            self.start_task(self._commit_log, effect)
            return []
        self.backend.commit(effect.changes)
        return self.log.persisted(effect.token)

    async def _commit_log(self, effect: PersistLog) -> None:
        assert self.backend is not None
        assert isinstance(self.log, Keeper | Follower), self.log
        try:
            await on_disk(self.backend.commit, effect.changes)
        except Exception as error:
            log_failure("log", self.name, error)
            self.carry_out(self.log.commit_failed(effect.token, describe(error)))
            return
        finally:
            self._is_committing = False
            self.changed.unpark_all()
        self.carry_out(self.log.persisted(effect.token))
        self.settle()
        self.changed.unpark_all()

    def _read_for(self, reader: EntityId, query: Fetch | TimeQuery) -> list[LogEffect]:
        assert self.backend is not None
        assert isinstance(self.log, Keeper), self.log
        if isinstance(query, Fetch):
            runs = read_at_hand(self.backend, self.log, query)
            if runs is not None:
                return self.log.was_read(reader, query, runs, None)
        elif not self.backend.is_durable:
            found = self.backend.find(query.partition, query.timestamp_ns)
            return self.log.was_read(reader, query, (), found)
        self.start_task(self._read_from_disk, self.log, reader, query)
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
                log_failure("log", self.name, error)
            if self.error is None and self.log is keeper:
                self.carry_out(keeper.read_failed(reader, query, error))
            return
        if self.error is None and self.log is keeper:  # else the next keeper is asked
            self.carry_out(keeper.was_read(reader, query, runs, found))

    async def read(self, query: Fetch) -> list[Run]:
        """Read what a fetch asks for from the backend: committed runs, from the first position
        that has any.
        """  # noqa: D205 - one thought
        assert self.backend is not None
        assert isinstance(self.log, Keeper | Follower), self.log
        found = read_at_hand(self.backend, self.log, query)
        if found is not None:
            return found
        runs: list[Run] = []
        size = query.size_max
        for partition, offset, end in readable(self.log, query):
            more = await on_disk(self.backend.read, partition, offset, size, limiter=self._readers)
            more = within([run for run in more if run.end <= end], size, has_more=bool(runs))
            size -= sum(len(run.body) for run in more)
            runs += more
            if size <= 0:
                break
        return runs

    async def close(self) -> None:
        """Say goodbye, and let go of the backend."""
        while self.is_changing_role and self.error is None:
            await self.changed.park()
        await super().close()
        self._end_reads()

    def fail(self, error: Exception) -> None:
        """End this log, and nothing else, for an error that nothing here expects."""
        super().fail(error)
        self.end_change()
        self._end_reads()

    def _end_reads(self) -> None:
        for number in list(self._answers):
            self._answered[number] = _closed(number)
            self._answers[number].set()
        self.grown.unpark_all()


def readable(log: Keeper | Follower, query: Fetch) -> list[tuple[int, int, int]]:
    """Give the positions of a fetch that can be read now, each with the end of its partition."""
    found: list[tuple[int, int, int]] = []
    for partition, offset in query.positions:
        span = log.partitions[partition].span
        if span.start <= offset < span.end:
            found.append((partition, offset, span.end))
    return found


def read_at_hand(backend: LogBackend, log: Keeper | Follower, query: Fetch) -> list[Run] | None:
    """Read without waiting; ``None`` if that takes the disk."""
    runs: list[Run] = []
    size = query.size_max
    for partition, offset, end in readable(log, query):
        more = backend.read_at_hand(partition, offset, size)
        if more is None:
            return None
        more = within([run for run in more if run.end <= end], size, has_more=bool(runs))
        size -= sum(len(run.body) for run in more)
        runs += more
        if size <= 0:
            break
    return runs


def _closed(number: int) -> Answer:
    from stores.log.messages import QueryFailed

    return QueryFailed(number, StoreClosed.code, "the log is closed")
