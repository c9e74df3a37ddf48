"""A log without a copy: what its proxy asks, and where its handle reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import trio

from endpoint.replicas.attaching import TICKS_PER_SECOND
from endpoint.replicas.logs.log_reading import Batch, Extent, is_of_another
from endpoint.replicas.logs.log_receipts import LogPromotion
from endpoint.replicas.parts import AnyEffect, Kind
from endpoint.replicas.proxying import FindReplicas, ProxyPart
from endpoint.replicas.receipts import named, store_error
from stores.log.bookmarks import LogBookmark
from stores.log.limits import OFFSET_END, PARTITIONS_MAX, WAIT_TICKS_MAX
from stores.log.messages import (
    Answer,
    Counted,
    CountQuery,
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
from stores.replica.effects import QueryAnswered
from stores.replica.logs.outside import LogProxy
from wire.errors import ErrorCode, NoSuchPartition, NotAllowed, PromotionRefused, StoreClosed


class LogProxyPart(ProxyPart[LogProxy, QueryAnswered]):
    """The questions of a log's proxy."""

    kind: ClassVar[Kind] = "log"

    def __init__(self, core: LogProxy, find_replicas: FindReplicas, patience: float) -> None:
        """Ask for so many seconds of ``patience``, where no keeper answers."""
        super().__init__(core, find_replicas)
        self.source = RemoteSource(self, patience)
        """Where the handle reads."""

    # -- for the runner --------------------------------------------------------------------------

    def take(self, effect: AnyEffect) -> tuple[int, QueryAnswered]:
        """Give the number of a question with its answer, out of what a core of this kind asks."""
        assert isinstance(effect, QueryAnswered), effect
        return effect.answer.query, effect

    # -- for handles -----------------------------------------------------------------------------

    async def promote(self, options: dict[str, object], *, is_forced: bool) -> LogPromotion:
        """Refuse it."""
        raise PromotionRefused(
            f"log {self.runner.name}: a proxy has no copy: promote a follower, which has one"
        )

    async def ask(self, make: Callable[[int], Query]) -> QueryAnswered:
        """Ask the leader what ``make`` makes of a number; raises what it could not do."""
        runner = self.runner
        if runner.error is not None:
            raise runner.error
        with self._questions.ask(self.core.cancel) as question:
            runner.carry_out(self.core.ask(make(question.number)))
            await question.wait()
        if question.answer is None:
            raise runner.error or StoreClosed(f"log {runner.name} is closed: attach it again")
        return question.answer


class RemoteSource:
    """The leader, wherever it is."""

    def __init__(self, part: LogProxyPart, patience: float) -> None:
        """Ask through ``part``, with so many seconds of ``patience``."""
        self._part = part
        self._patience = patience
        self._counted: tuple[bytes | None, int] = None, 0

    @property
    def name(self) -> str:
        """Give the name of the log."""
        return self._part.runner.name

    @property
    def known_count(self) -> int:
        """Give the number of partitions, if the leader of this group has said it."""
        group, count = self._counted
        return count if group == self._part.core.group else 0

    @property
    def group(self) -> bytes | None:
        """Give the group whose leader is followed, or was last."""
        return self._part.core.group

    async def partition_count(self) -> int:
        """Give the number of partitions, as the leader says."""
        try:
            state = await self.state()
            group, count = state.bookmark.group, len(state.spans)
        except NotAllowed:  # It may append all the same.
            counted, group = await self._ask(CountQuery)
            assert isinstance(counted, Counted), counted
            count = counted.partition_count
        self._counted = group, count
        return count

    async def fetch(
        self,
        positions: Positions,
        size_max: int,
        seconds: float,
        seen: Sequence[LogBookmark] = (),
    ) -> Batch:
        """Have the leader read, and wait. It answers no question that no log has an answer to."""
        none = next((number for number, _ in positions if number >= PARTITIONS_MAX), None)
        if none is not None:
            raise NoSuchPartition(
                f"log {self.name} has no partition {none}: a log has {PARTITIONS_MAX} at most"
            )
        positions = tuple((number, min(offset, OFFSET_END - 1)) for number, offset in positions)
        wanted = tuple(offset for _, offset in positions)
        last = tuple(each.position for each in seen)
        deadline = trio.current_time() + seconds
        while True:
            left = max(0.0, deadline - trio.current_time())
            ticks = WAIT_TICKS_MAX if math.isinf(left) else math.ceil(left * TICKS_PER_SECOND)
            ticks = min(ticks, WAIT_TICKS_MAX)
            found = await self._part.ask(
                partial(Fetch, positions=positions, size_max=size_max, wait_ticks=ticks, seen=last)
            )
            if is_of_another(seen, found.group):
                return Batch((), (), found.group)
            answer = self._checked(found)
            assert isinstance(answer, Fetched), answer
            is_over = trio.current_time() >= deadline
            if answer.runs or answer.offsets != wanted or is_over:
                return Batch(answer.runs, answer.offsets, found.group)

    async def state(self) -> Extent:
        """Ask what there is."""
        state, group = await self._ask(StateQuery)
        assert isinstance(state, State), state
        spans = [Span(*span) for span in zip(state.starts, state.ends, strict=True)]
        return Extent(spans, state.cursors, LogBookmark(group, state.last))

    async def offsets_at(self, timestamp_ns: int) -> tuple[int, ...]:
        """Have the leader look them up."""
        found, _ = await self._ask(partial(TimeQuery, timestamp_ns=max(timestamp_ns, 0)))
        assert isinstance(found, Found), found
        return found.offsets

    async def _ask(self, make: Callable[[int], Query]) -> tuple[Answer, bytes | None]:
        """Give the answer, with the group that gave it."""
        found = await self._part.ask(make)
        return self._checked(found), found.group

    def _checked(self, found: QueryAnswered) -> Answer:
        """Give the answer; raises what it says if there is none."""
        answer = found.answer
        if isinstance(answer, QueryFailed):
            text = answer.text
            if answer.code is ErrorCode.KEEPER_UNREACHABLE:
                text = unreachable(self._patience)
            raise store_error(answer.code, named(self._part.runner.what, text))
        return answer


def unreachable(seconds: float) -> str:
    """Say that no keeper answers, and what to do."""
    return (
        f"no keeper answered within {seconds:g} s: attach one with attach_log, and peer with its"
        " mesh"
    )
