"""What handles of logs have in common: append, read, consume, commit (design section 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.handle import ReplicaHandle
from endpoint.replicas.logs.log_consumer import LogConsumer
from endpoint.replicas.logs.log_proxy import LogProxyPart
from endpoint.replicas.logs.log_reading import (
    READ_LIMIT,
    LogEntry,
    Source,
    Start,
    check_positions,
    entries_of,
    is_of_another,
)
from endpoint.replicas.logs.log_receipts import AppendReceipt
from endpoint.replicas.logs.part import LogPart
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.runner import YIELD_COUNT
from stores.log.bookmarks import LogBookmark
from stores.log.limits import FETCH_POSITIONS_MAX, FETCH_SIZE_MAX
from stores.log.partitions import Span, lag
from stores.log.requests import check_name
from stores.log.runs import Flat, Run, partition_of
from wire.encoding import encode
from wire.errors import InvalidData, NoSuchPartition, OffsetOutOfRange, StoreError
from wire.scalars import nanoseconds_since_epoch
from wire.values import Value


class LogHandle(ReplicaHandle):
    """An append-only store of entries, in partitions, each with offsets from zero.

    An append with a receipt is there once, in order for each handle and partition. Readers see
    what is committed.
    """

    def __init__(self, part: LogPart | LogProxyPart) -> None:
        """Ask through ``part``, and read where it does."""
        super().__init__(part.runner)
        self.source: Source = part.source
        self._requests = part.core.requests
        self._turns = 0

    async def partition_count(self) -> int:
        """Give the number of partitions, which never changes.

        A handle that has not met the keeper yet waits for it; see ``append``.
        """
        return self.source.known_count or await self.source.partition_count()

    # Appends.

    async def append(
        self,
        value: Value,
        key: Value = None,
        *,
        partition: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append an entry; ``await receipt.applied()`` gives its place.

        Entries of one key go to one partition; without a key and a partition they take turns. With
        ``producer`` and a growing ``sequence`` a repetition is recognised, after restarts of any
        end, and its receipt names the place of the first. Raises ``KeeperUnreachable`` if no keeper
        was ever met within the patience of the handle, and in a group ``NoQuorum`` if the log has
        not begun.
        """
        encoded_key = None if key is None else encode(key)
        _check_append(partition, producer, sequence)
        entry = encoded_key, encode(value)
        return await self._append(entry, encoded_key, partition, (producer, sequence))

    async def append_batch(
        self,
        values: Iterable[Value],
        key: Value = None,
        *,
        partition: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append entries to one partition, one after the other, all or none of them."""
        encoded_key = None if key is None else encode(key)
        _check_append(partition, producer, sequence)
        several = arguments.several("values", values)
        flat = tuple([each for value in several for each in (encoded_key, encode(value))])
        return await self._append(flat, encoded_key, partition, (producer, sequence))

    async def append_entries(
        self,
        entries: Iterable[tuple[Value, Value]],
        *,
        partition: int,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append entries, each a key or ``None`` and a value, to one partition: all or none."""
        _check_append(partition, producer, sequence)
        flat: list[bytes | None] = []
        for key, value in arguments.several("entries", entries):
            flat += (None if key is None else encode(key), encode(value))
        return await self._append(tuple(flat), None, partition, (producer, sequence))

    async def _append(
        self,
        flat: Flat,
        key: bytes | None,
        partition: int | None,
        source: tuple[str | None, int | None],
    ) -> AppendReceipt:
        """Ask for an append. All waiting comes first: what is cancelled then has asked nothing."""
        producer, sequence = source
        count = self.source.known_count or await self.source.partition_count()
        self._since_yield += len(flat) // 2
        if self._since_yield >= YIELD_COUNT:
            await self.breathe()
        number = self._choose(key, partition, producer, count)
        if self.runner.error is not None:
            raise self.runner.error
        request = self._requests.append(number, flat, producer, sequence or 0)
        return AppendReceipt(self.runner.ask(request), number, len(flat) // 2)

    def _no_partition(self, partition: int, count: int) -> NoSuchPartition:
        return NoSuchPartition(
            f"log {self.name()} has the partitions 0 to {count - 1}, not {partition}"
        )

    def _choose(
        self, key: bytes | None, partition: int | None, producer: str | None, count: int
    ) -> int:
        if partition is not None:
            if not 0 <= partition < count:
                raise self._no_partition(partition, count)
            return partition
        if key is not None:
            return partition_of(key, count)
        if producer is not None:
            return partition_of(encode(producer), count)  # the same when it is repeated
        self._turns += 1
        return self._turns % count

    async def trim(self, partition: int, offset: int) -> Receipt:
        """Let the entries of a partition before an offset go, read or not."""
        partition = arguments.count("partition", partition, least=0)
        offset = arguments.number("offset", offset)
        await self.partition_count()
        return self._ask(lambda: self._requests.trim(partition, offset))

    def _ask(self, request: Callable[[], int]) -> Receipt:
        if self.runner.error is not None:
            raise self.runner.error
        return self.runner.ask(request())

    # Reads.

    async def read(
        self, partition: int, offset: int, limit: int = READ_LIMIT, timeout: Seconds = 0.0
    ) -> list[LogEntry]:
        """Read entries from an offset on: what is there, or after ``timeout`` seconds nothing.

        Raises ``OffsetOutOfRange`` for entries that are gone, and for an offset beyond the end that
        no entry ever had here, or none has any more. Raises ``NoSuchPartition``, too, and
        ``KeeperUnreachable``.
        """
        partition = arguments.count("partition", partition, least=0)
        offset = arguments.number("offset", offset)
        limit = arguments.count("limit", limit)
        wait = arguments.seconds("timeout", timeout)
        batch = await self.source.fetch(((partition, offset),), FETCH_SIZE_MAX, wait)
        return entries_of(batch, {partition: offset}, self.name(), limit)

    async def runs(
        self,
        positions: Mapping[int, int],
        size: int = FETCH_SIZE_MAX,
        timeout: Seconds = 0.0,
        *,
        after: LogBookmark | None = None,
    ) -> list[Run]:
        """Read from several partitions with one question, and decode nothing.

        ``positions`` has an offset for each of up to 1,024 partitions. What comes are runs, as the
        leader has them: entries of one partition that were committed together. There are up to
        ``size`` bytes of them, 1 MiB at most, and one run at least if there is an entry; those of
        the partition that is named first come first. A run may begin before the offset asked for.
        Nothing comes after ``timeout`` seconds. Raises as ``read`` does; ``after`` a bookmark of
        ``marked_offsets`` ``OffsetOutOfRange``, too, if another log began since, or if entries
        before ``positions`` that were there then are lost.
        """
        places = _positions_of("positions", positions)
        arguments.count("len(positions)", len(places), most=FETCH_POSITIONS_MAX)
        size = arguments.count("size", size, most=FETCH_SIZE_MAX)
        wait = arguments.seconds("timeout", timeout)
        seen = [] if after is None else [after] * len(places)
        batch = await self.source.fetch(tuple(places.items()), size, wait, seen)
        if is_of_another(seen, batch.group):
            raise await self._another_log(places)
        check_positions(batch, places, self.name())
        return list(batch.runs)

    async def _another_log(self, places: Mapping[int, int]) -> StoreError:
        """Say that the log is another one: where the first place is in it, if it is."""
        spans = await self.offsets()
        partition, offset = next(iter(places.items()))
        if partition not in spans:
            return self._no_partition(partition, len(spans))
        start = spans[partition].start
        return OffsetOutOfRange(partition, offset, start, is_another_log=True, log=self.name())

    def consume(
        self,
        name: str | None = None,
        *,
        start: Start | Mapping[int, int] = Start.EARLIEST,
        partitions: Iterable[int] | None = None,
    ) -> LogConsumer:
        """Give a consumer: ``async for entry in log.consume("name")``.

        One with a name goes on where it has committed; ``start`` is for partitions where it has
        not, and for one without a name: an end of the log, or an offset for each partition. With
        ``partitions`` it reads these alone; of none, nothing ever comes.
        """
        wanted = None
        if partitions is not None:
            several = arguments.several("partitions", partitions)
            wanted = tuple(arguments.count("partitions", each, least=0) for each in several)
        return LogConsumer(self.source, self.commit, name, _start_of(start), wanted)

    async def offsets(self) -> dict[int, Span]:
        """Give the first offset of each partition, and the one after the last."""
        return (await self.marked_offsets())[0]

    async def marked_offsets(self) -> tuple[dict[int, Span], LogBookmark]:
        """Give what ``offsets`` does, and which log it is: for a program that keeps offsets.

        ``runs`` takes it as ``after``.
        """
        state = await self.source.state()
        return dict(enumerate(state.spans)), state.bookmark

    async def offsets_at(self, when: datetime | int) -> dict[int, int]:
        """Give the offset of each partition's first entry that was appended then or later.

        If there is none, it is the one that the next entry will have. A number is in nanoseconds
        since 1970. However many partitions there are, it is one question.
        """
        if isinstance(when, datetime):
            timestamp_ns = nanoseconds_since_epoch(when)
        else:
            timestamp_ns = arguments.number("when", when)
        return dict(enumerate(await self.source.offsets_at(timestamp_ns)))

    async def offset_at(self, partition: int, when: datetime | int) -> int:
        """Give what ``offsets_at`` does for one partition; raises ``NoSuchPartition``."""
        partition = arguments.count("partition", partition, least=0)
        found = await self.offsets_at(when)
        if partition not in found:
            raise self._no_partition(partition, len(found))
        return found[partition]

    # Consumers.

    async def commit(self, consumer: str, positions: Mapping[int, int]) -> Receipt:
        """Remember that a consumer is done with all before these offsets, back or forth."""
        consumer = check_name(consumer)
        pairs = tuple(_positions_of("positions", positions).items())
        await self.partition_count()
        return self._ask(lambda: self._requests.move_cursor(consumer, pairs))

    async def committed(self, consumer: str) -> dict[int, int]:
        """Give the next offsets that a consumer wants; empty if it has committed nothing."""
        consumer = check_name(consumer)
        return (await self.consumers()).get(consumer, {})

    async def consumers(self) -> dict[str, dict[int, int]]:
        """Give all named consumers with what they have committed."""
        state = await self.source.state()
        return {name: dict(positions) for name, positions in state.cursors}

    async def forget_consumer(self, consumer: str) -> Receipt:
        """Forget a consumer, with what it has committed."""
        consumer = check_name(consumer)
        await self.partition_count()
        return self._ask(lambda: self._requests.forget_consumer(consumer))

    async def lag(self, consumer: str) -> int:
        """Count the entries that are there and that a consumer has not committed."""
        consumer = check_name(consumer)
        state = await self.source.state()
        return lag(dict(state.cursors).get(consumer, ()), state.spans)


def _check_append(partition: object, producer: object, sequence: object) -> None:
    if partition is not None:
        arguments.count("partition", partition, least=0)
    if (producer is None) != (sequence is None):
        raise InvalidData("a producer needs a sequence number, and a number a producer")
    if producer is not None:
        arguments.text("producer", producer)
        arguments.number("sequence", sequence)


def _start_of(start: Start | Mapping[int, int]) -> Start | Mapping[int, int]:
    if isinstance(start, Start):
        return start
    if not isinstance(start, Mapping):
        raise TypeError(
            f"start={start!r}: give Start.EARLIEST, Start.LATEST, or an offset for each partition,"
            " as in {0: 7}"
        )
    return _positions_of("start", start)


def _positions_of(name: str, positions: Mapping[int, int]) -> dict[int, int]:
    if not isinstance(positions, Mapping):
        raise TypeError(f"{name}={positions!r}: give an offset for each partition, as in {{0: 7}}")
    return {
        arguments.count(name, partition, least=0): arguments.number(name, offset)
        for partition, offset in positions.items()
    }
