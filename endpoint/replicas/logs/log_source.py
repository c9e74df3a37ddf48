"""Where the handle of a log reads: in the copy that is here, or at the keeper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import trio

from endpoint.replicas.disk import on_disk
from endpoint.replicas.logs.log_part import LogPart
from endpoint.replicas.logs.log_reading import Batch, has_news, readable
from endpoint.replicas.patience import TICKS_PER_SECOND
from endpoint.replicas.receipts import store_error
from endpoint.replicas.runner import Runner
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.limits import WAIT_TICKS_MAX
from stores.log.messages import (
    Answer,
    Cursors,
    Fetch,
    Fetched,
    Found,
    Positions,
    Query,
    QueryFailed,
    State,
    StateQuery,
    TimeQuery,
)
from stores.log.partitions import Span
from stores.log.proxy import Proxy
from wire.errors import KeeperUnreachable


class LocalSource:
    """The keeper's log, or a follower's copy."""

    def __init__(self, part: LogPart, patience_seconds: float) -> None:
        """Read from the backend of ``part``."""
        self._part = part
        self._runner = part.runner
        self._patience_seconds = patience_seconds

    @property
    def name(self) -> str:
        """Give the name of the log."""
        return self._runner.name

    @property
    def _log(self) -> Keeper | Follower:
        """What it is now: promotions change it."""
        log = self._part.core
        assert isinstance(log, Keeper | Follower), log
        return log

    async def partition_count(self) -> int:
        """Give the number of partitions: a follower waits for its first state."""
        runner = self._runner
        await await_sync(runner, self._patience_seconds)
        runner.check()
        return len(self._log.partitions)

    async def fetch(self, positions: Positions, size_max: int, seconds: float) -> Batch:
        """Read what is committed here."""
        await self.partition_count()
        query = Fetch(0, positions, size_max, 0)
        with trio.move_on_after(seconds):
            while not has_news(self._log.partitions, positions):
                await self._part.grown.park()
                self._runner.check()
        runs = await self._part.read(query) if readable(self._log.partitions, positions) else []
        return Batch(runs, [self._log.partitions[partition].span for partition, _ in positions])

    async def state(self) -> tuple[Sequence[Span], Cursors]:
        """Give what is committed here."""
        count = await self.partition_count()
        spans = [self._log.partitions[number].span for number in range(count)]
        cursors = tuple((name, tuple(at.items())) for name, at in self._log.cursors.items())
        return spans, cursors

    async def offset_at(self, partition: int, timestamp_ns: int) -> int:
        """Look it up in the backend."""
        await self.partition_count()
        backend = self._part.backend
        assert backend is not None
        span = self._log.partitions[partition].span
        found = await on_disk(backend.find, partition, timestamp_ns)
        return span.end if found is None else min(max(found, span.start), span.end)


class RemoteSource:
    """The keeper, wherever it is."""

    def __init__(self, part: LogPart, patience_seconds: float) -> None:
        """Ask through ``part``."""
        assert isinstance(part.core, Proxy), part.core
        self._part = part
        self._runner = part.runner
        self._log = part.core
        self._patience_seconds = patience_seconds

    @property
    def name(self) -> str:
        """Give the name of the log."""
        return self._runner.name

    async def partition_count(self) -> int:
        """Give the number of partitions, as the keeper said."""
        welcome = self._log.contact.welcome
        if welcome is None:
            await await_sync(self._runner, self._patience_seconds)
            welcome = self._log.contact.welcome
        self._runner.check()
        assert welcome is not None, self._log
        return welcome.partition_count

    async def fetch(self, positions: Positions, size_max: int, seconds: float) -> Batch:
        """Have the keeper read, and wait."""
        await self.partition_count()
        deadline = trio.current_time() + seconds
        while True:
            left = max(0.0, deadline - trio.current_time())
            ticks = WAIT_TICKS_MAX if math.isinf(left) else math.ceil(left * TICKS_PER_SECOND)
            ticks = min(ticks, WAIT_TICKS_MAX)
            answer = await self._ask(
                partial(Fetch, positions=positions, size_max=size_max, wait_ticks=ticks)
            )
            assert isinstance(answer, Fetched), answer
            starts_ends = zip(answer.starts, answer.ends, strict=True)
            batch = Batch(answer.runs, [Span(start, end) for start, end in starts_ends])
            is_lost = any(
                offset < span.start
                for (_, offset), span in zip(positions, batch.spans, strict=True)
            )
            if batch.runs or is_lost or trio.current_time() >= deadline:
                return batch

    async def state(self) -> tuple[Sequence[Span], Cursors]:
        """Ask what the keeper has."""
        await self.partition_count()
        state = await self._ask(StateQuery)
        assert isinstance(state, State), state
        spans = [Span(*span) for span in zip(state.starts, state.ends, strict=True)]
        return spans, state.cursors

    async def offset_at(self, partition: int, timestamp_ns: int) -> int:
        """Have the keeper look it up."""
        await self.partition_count()
        found = await self._ask(partial(TimeQuery, partition=partition, timestamp_ns=timestamp_ns))
        assert isinstance(found, Found), found
        return found.offset

    async def _ask(self, make: Callable[[int], Query]) -> Answer:
        answer = await self._part.ask_keeper(make)
        if isinstance(answer, QueryFailed):
            raise store_error(answer.code, f"log {self._runner.name}: {answer.text}")
        return answer


async def await_sync(runner: Runner, seconds: float) -> None:
    """Wait for a first state; raises ``KeeperUnreachable``."""
    if runner.is_synced:
        return
    await runner.await_synced(seconds)
    if not runner.is_synced:
        raise runner.error or KeeperUnreachable(
            f"log {runner.name}: no keeper answered within {seconds:g} s: attach one with"
            " attach_log, and peer with its mesh"
        )
