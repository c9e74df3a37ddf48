"""Consumers of a log: all partitions in one stream, and cursors that outlive them."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.replicas.logs.log_reading import (
    READ_LIMIT,
    Batch,
    LogEntry,
    Source,
    Start,
    entries_of,
    is_of_another,
)
from endpoint.replicas.receipts import Receipt
from stores.log.bookmarks import LogBookmark
from stores.log.limits import FETCH_SIZE_MAX
from stores.log.requests import check_name
from wire.errors import InvalidData, NoSuchPartition, OffsetOutOfRange, RequestTimeout, StoreClosed
from wire.public import public

Commit = Callable[[str, Mapping[int, int]], Awaitable[Receipt]]
"""Remembers the offsets of a consumer with this name."""


@public
class LogConsumer(EitherClosing):
    """Entries of a log, in order within each partition.

    What was handed out and not committed comes again after a restart. Of several tasks that read
    one consumer each entry goes to one, and ``commit`` is for all of them; of two consumers of one
    name each gets everything.
    """

    def __init__(
        self,
        source: Source,
        commit: Commit,
        name: str | None,
        start: Start | Mapping[int, int],
        partitions: tuple[int, ...] | None,
    ) -> None:
        """Use ``Log.consume``; ``commit`` is that of the log."""
        self.name = None if name is None else check_name(name)
        self._source = source
        self._commit = commit
        self._start = start
        self._partitions = partitions
        self._positions: dict[int, int] = {}
        """What is read next."""
        self._seen: dict[int, LogBookmark] = {}
        """Of which log the positions are, with what was read last there; not of one sought."""
        self._ready: deque[LogEntry] = deque()
        self._partition_count = 0
        """How many there are, once it is known where to begin."""
        self._is_closed = False
        self._turn = trio.Lock()
        """Of the task that waits for entries, for all that read."""
        self._fetching: trio.CancelScope | None = None
        """Of what waits for entries, if there is one."""

    def __repr__(self) -> str:
        """Show the log, the consumer's name, and where it reads next."""
        name = "anonymous" if self.name is None else repr(self.name)
        return f"<LogConsumer {name} of {self._source.name} positions={self._positions}>"

    async def get(self, timeout: Seconds = None) -> LogEntry:
        """Wait for the next entry, for ``timeout`` seconds at most; then ``RequestTimeout``.

        Raises ``OffsetOutOfRange`` when retention went past, when entries that were read are
        lost, or when another log began under the name: ``seek`` where it says that the partition
        goes on. Where no keeper answers, it takes as long as the log's ``patience``, and raises
        ``KeeperUnreachable``.
        """
        limit = arguments.seconds("timeout", timeout)
        if await self.await_ready(limit):
            return self.take()
        raise self.late(limit)

    async def get_batch(self, limit: int = READ_LIMIT, timeout: Seconds = None) -> list[LogEntry]:
        """Wait for entries, and take those that are there; none after ``timeout`` seconds.

        Raises what ``get`` does, but for ``RequestTimeout``.
        """
        limit = arguments.count("limit", limit)
        await self.await_ready(arguments.seconds("timeout", timeout))
        return self.take_batch(limit)

    def late(self, limit: float) -> RequestTimeout:
        """Say that nothing came within so many seconds; for a front end."""
        return RequestTimeout(f"log {self._source.name}: no entry within {limit:g} s")

    def is_ready(self) -> bool:
        """Tell whether there is something to take; for a front end."""
        return bool(self._ready)

    async def await_ready(self, limit: float) -> bool:
        """Wait until there is something to take; false after so many seconds; for a front end."""
        if not self._ready:
            await self._refill(limit)
        return bool(self._ready)

    def take(self) -> LogEntry:
        """Take the next entry, which is there; for a front end."""
        return self._ready.popleft()

    def take_batch(self, limit: int) -> list[LogEntry]:
        """Take so many of the entries that are there, if any; for a front end."""
        return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]

    def give_back(self, entries: Sequence[LogEntry]) -> None:
        """Have what was taken, and reached no reader, come next; for a front end."""
        if not self._is_closed:
            self._ready.extendleft(reversed(entries))

    def seek(self, partition: int, offset: int) -> None:
        """Go on from there in a partition; raises ``NoSuchPartition``, or the next read does."""
        partition = arguments.count("partition", partition, least=0)
        offset = arguments.number("offset", offset)
        if self._partition_count:
            self._check_partitions(self._partition_count, partition)
        self._positions[partition] = offset
        self._seen.pop(partition, None)
        self._ready = deque(entry for entry in self._ready if entry.partition != partition)

    async def commit(self) -> Receipt:
        """Remember that all that was handed out is dealt with; raises without a name.

        A partition of which nothing was handed out is remembered as where it began: what comes
        without a consumer is not passed over, wherever ``start`` was. Raises ``OffsetOutOfRange``
        when another log began under the name.
        """
        if self.name is None:
            raise InvalidData("a consumer without a name commits nothing: log.consume('name')")
        await self._place()
        if is_of_another(self._seen_at(self._positions), self._source.group):
            await self._find_anew()
        return await self._commit(self.name, await self.positions())

    async def positions(self) -> dict[int, int]:
        """Give the next offset of each partition: the one after what was handed out last."""
        await self._place()
        waiting: dict[int, int] = {}
        for entry in self._ready:
            waiting.setdefault(entry.partition, entry.offset)
        return {**self._positions, **waiting}

    def close(self) -> None:
        """Read no more; what was not committed comes again to the next consumer of this name.

        What waits in ``get`` is told so at once.
        """
        self._is_closed = True
        self._ready.clear()
        if self._fetching is not None:
            self._fetching.cancel()

    # Steps.

    async def _refill(self, timeout: float) -> None:
        deadline = trio.current_time() + timeout
        self._check_open()
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_at(deadline) as waiting:
                await self._turn.acquire()
            if waiting.cancelled_caught:
                return
        try:
            self._check_open()
            if not self._ready:  # Another task may have left some.
                with trio.CancelScope() as self._fetching:
                    await self._read_on(max(0.0, deadline - trio.current_time()))
        finally:
            self._fetching = None
            self._turn.release()
        self._check_open()

    def _check_open(self) -> None:
        if self._is_closed:
            what = f"a consumer of log {self._source.name}"
            raise StoreClosed(f"{what} was closed: log.consume() gives another one")

    async def _read_on(self, timeout: float) -> None:
        await self._place()
        # Take turns: the partition that was first is last now.
        for partition in list(self._positions)[:1]:
            self._positions[partition] = self._positions.pop(partition)
        while (batch := await self._fetch(positions := dict(self._positions), timeout)) is None:
            await self._find_anew()
        for entry in entries_of(batch, positions, self._source.name):
            self._ready.append(entry)
            self._positions[entry.partition] = entry.offset + 1
        for partition, seen in zip(positions, self._seen_at(positions), strict=True):
            self._seen[partition] = seen._replace(group=batch.group)
        for run in batch.runs:
            self._seen[run.partition] = LogBookmark(batch.group, run.position)

    async def _fetch(self, positions: Mapping[int, int], timeout: float) -> Batch | None:
        """Read on; ``None`` if the log that is there is not the one that was read."""
        seen = self._seen_at(positions)
        batch = await self._source.fetch(tuple(positions.items()), FETCH_SIZE_MAX, timeout, seen)
        return None if is_of_another(seen, batch.group) else batch

    def _seen_at(self, positions: Mapping[int, int]) -> list[LogBookmark]:
        """Give what was seen of each; nothing at offset zero, which is the same in every log."""
        nothing = LogBookmark()
        return [
            self._seen.get(partition, nothing) if offset else nothing
            for partition, offset in positions.items()
        ]

    async def _find_anew(self) -> None:
        """Look at the log that began under the name; raises ``OffsetOutOfRange``.

        It may have more partitions, which are read from where they begin, or fewer.
        """
        state = await self._source.state()
        group = state.bookmark.group
        self._partition_count = len(state.spans)
        if self._partitions is None:
            for partition in [each for each in self._positions if each >= len(state.spans)]:
                del self._positions[partition]
            for partition, span in enumerate(state.spans):
                if partition not in self._positions:
                    self._positions[partition] = span.start
                    self._seen[partition] = LogBookmark(group)
        self._check_partitions(len(state.spans), *self._positions)
        seen = self._seen_at(self._positions)
        for (partition, offset), each in zip(self._positions.items(), seen, strict=True):
            if is_of_another([each], group):
                start = state.spans[partition].start
                raise OffsetOutOfRange(
                    partition, offset, start, is_another_log=True, log=self._source.name
                )

    async def _place(self) -> None:
        """Find out where to begin."""
        if self._partition_count:
            return
        found, cursors, (group, _) = await self._source.state()
        spans = dict(enumerate(found))
        committed = {} if self.name is None else dict(dict(cursors).get(self.name, ()))
        self._check_partitions(len(spans), *self._positions, *(self._partitions or ()))
        for partition in spans if self._partitions is None else self._partitions:
            if partition in self._positions:
                continue  # sought already
            if partition in committed:
                self._positions[partition] = committed[partition]
            elif isinstance(self._start, Start):
                is_early = self._start is Start.EARLIEST
                span = spans[partition]
                self._positions[partition] = span.start if is_early else span.end
            else:
                self._positions[partition] = self._start.get(partition, spans[partition].start)
            self._seen[partition] = LogBookmark(group)
        self._partition_count = len(spans)

    def _check_partitions(self, count: int, *partitions: int) -> None:
        """Raise ``NoSuchPartition`` for one that is not among so many."""
        wrong = next((each for each in partitions if each >= count), None)
        if wrong is not None:
            self._positions.pop(wrong, None)
            raise NoSuchPartition(
                f"log {self._source.name} has no partition {wrong}, but {count} from 0 on"
            )

    def __aiter__(self) -> Self:
        """Iterate until the log is closed."""
        return self

    async def __anext__(self) -> LogEntry:
        """Wait for the next entry."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None
