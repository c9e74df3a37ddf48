"""The keeper's desk for readers elsewhere: answers what they ask, at once or when there is more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from stores.log import messages
from stores.log.effects import LogEffect, ReadFor
from stores.log.limits import FETCH_SIZE_MAX, WAIT_TICKS_MAX
from stores.log.messages import Cursors, Fetch, LogMessage, Query, TimeQuery
from stores.log.partitions import Partitions
from stores.log.runs import Run
from stores.log.waiting import WaitingFetches, is_ready
from wire.errors import StoreError
from wire.identifiers import EndpointId, EntityId


class Readers:
    """Looks nothing up itself: ``ReadFor`` has the driver read, and ``was_read`` answers."""

    def __init__(
        self,
        effects: list[LogEffect],
        answer: Callable[[EntityId, LogMessage], None],
        cursors: Callable[[], Cursors],
    ) -> None:
        """Append to ``effects``, answer by ``answer``; ``cursors`` are all that there are."""
        self._effects = effects
        self._answer = answer
        self._cursors = cursors
        self._waiting = WaitingFetches()

    def __len__(self) -> int:
        """Count who waits."""
        return len(self._waiting)

    def ask(self, reader: EntityId, query: Query, partitions: Partitions) -> None:
        """Take in a question; one that makes no sense is answered with the error."""
        try:
            self._look_up(reader, query, partitions)
        except StoreError as error:
            self._answer(reader, messages.QueryFailed(query.query, error.code, str(error)[:200]))

    def _look_up(self, reader: EntityId, query: Query, partitions: Partitions) -> None:
        match query:
            case messages.StateQuery(number):
                starts, ends = partitions.starts(), partitions.ends()
                self._answer(reader, messages.State(number, starts, ends, self._cursors()))
            case TimeQuery(_, partition, _):
                _ = partitions[partition]  # it raises if there is none
                self._effects.append(ReadFor(reader, query))
            case Fetch(number, positions, size_max, wait_ticks):
                size, ticks = min(size_max, FETCH_SIZE_MAX), min(wait_ticks, WAIT_TICKS_MAX)
                query = Fetch(number, positions, size, ticks)
                if is_ready(query, partitions):
                    self._effects.append(ReadFor(reader, query))
                elif not query.wait_ticks or not self._waiting.add(reader, query):
                    self._answer(reader, _fetched(query, (), partitions))
            case _:
                assert_never(query)

    def was_read(
        self,
        reader: EntityId,
        query: Fetch | TimeQuery,
        runs: Sequence[Run],
        found: int | None,
        partitions: Partitions,
    ) -> None:
        """Answer a remote reader with what the backend gave."""
        if isinstance(query, TimeQuery):
            span = partitions[query.partition].span
            offset = span.end if found is None else max(found, span.start)
            self._answer(reader, messages.Found(query.query, offset))
        else:
            self._answer(reader, _fetched(query, tuple(runs), partitions))

    def read_failed(self, reader: EntityId, query: Fetch | TimeQuery, error: StoreError) -> None:
        """Tell a remote reader that the backend could not give it."""
        self._answer(reader, messages.QueryFailed(query.query, error.code, str(error)[:200]))

    def tick(self, partitions: Partitions) -> None:
        """Let one tick pass: whose time is over is told that there is nothing."""
        for reader, fetch in self._waiting.take_late():
            self._answer(reader, _fetched(fetch, (), partitions))

    def look_again(self, partitions: Partitions) -> None:
        """Read for those who waited for what is there now."""
        for reader, fetch in self._waiting.take_ready(partitions):
            self._effects.append(ReadFor(reader, fetch))

    def discard_endpoint(self, endpoint: EndpointId) -> None:
        """Forget all readers of an endpoint."""
        self._waiting.discard_endpoint(endpoint)


def _fetched(fetch: Fetch, runs: tuple[Run, ...], partitions: Partitions) -> messages.Fetched:
    spans = [partitions[partition].span for partition, _ in fetch.positions]
    starts, ends = tuple(span.start for span in spans), tuple(span.end for span in spans)
    return messages.Fetched(fetch.query, runs, starts, ends)
