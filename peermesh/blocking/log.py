"""Logs for threads: every call crosses to the loop and waits; receipts can be waited for later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Unpack

from endpoint.barriers import Barrier, Seconds
from endpoint.closing import Closing
from endpoint.outcome import Outcome
from endpoint.replicas.logs.log import Log as Core
from endpoint.replicas.logs.log_consumer import LogConsumer as CoreConsumer
from endpoint.replicas.logs.log_entries import READ_LIMIT, LogEntry, Start
from endpoint.replicas.logs.log_handle import LogHandle as CoreHandle
from endpoint.replicas.logs.log_promoting import LogPromotion
from endpoint.replicas.logs.log_receipts import AppendReceipt
from endpoint.replicas.receipts import Receipt
from peermesh.blocking.idling import Idling
from peermesh.blocking.living import FAILURES, Passage
from stores.log.partitions import Span
from stores.quota import QuotaLimits
from stores.statistics import LogStatistics
from wire.errors import RequestTimeout, StoreClosed
from wire.values import Value


class LogHandle(Idling, Closing):
    """An append-only store of entries with offsets, however it is kept.

    All methods may be called from any thread. Many entries go fastest with ``append_batch``.
    """

    def __init__(self, passage: Passage, core: CoreHandle) -> None:
        """Ask the handle in the loop's thread."""
        self._passage = passage
        self._log = core

    def name(self) -> str:
        """Give the log's name."""
        return self._log.name()

    def partition_count(self) -> int:
        """Give the number of partitions, which never changes."""
        return self._passage.call(self._log.partition_count)

    def append(
        self,
        value: Value,
        key: Value = None,
        *,
        partition: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append an entry; ``receipt.result(timeout)`` gives its place."""
        return self.append_batch(
            (value,), key, partition=partition, producer=producer, sequence=sequence
        )

    def append_batch(
        self,
        values: Iterable[Value],
        key: Value = None,
        *,
        partition: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append entries to one partition, one after the other, all or none of them."""
        return self._passage.call(
            partial(
                self._log.append_batch,
                list(values),
                key,
                partition=partition,
                producer=producer,
                sequence=sequence,
            )
        )

    def append_entries(
        self,
        entries: Iterable[tuple[Value, Value]],
        *,
        partition: int,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append entries, each a key or ``None`` and a value, to one partition: all or none."""
        append = partial(
            self._log.append_entries,
            list(entries),
            partition=partition,
            producer=producer,
            sequence=sequence,
        )
        return self._passage.call(append)

    def trim(self, partition: int, offset: int) -> Receipt:
        """Let the entries of a partition before an offset go."""
        return self._passage.call(self._log.trim, partition, offset)

    def read(
        self, partition: int, offset: int, limit: int = READ_LIMIT, timeout: Seconds = 0.0
    ) -> list[LogEntry]:
        """Read entries from an offset on: what is there, or after ``timeout`` seconds nothing."""
        return self._passage.call(self._log.read, partition, offset, limit, timeout)

    def consume(
        self,
        name: str | None = None,
        *,
        start: Start | Mapping[int, int] = Start.EARLIEST,
        partitions: Iterable[int] | None = None,
    ) -> LogConsumer:
        """Give a consumer: ``for entry in log.consume("name")``."""
        self._passage.check()
        core = self._log.consume(name, start=start, partitions=partitions)
        return LogConsumer(self._passage, core)

    def offsets(self) -> dict[int, Span]:
        """Give the first offset of each partition, and the one after the last."""
        return self._passage.call(self._log.offsets)

    def offset_at(self, partition: int, when: datetime | int) -> int:
        """Give the offset of the first entry that was appended at this time or later."""
        return self._passage.call(self._log.offset_at, partition, when)

    def commit(self, consumer: str, positions: Mapping[int, int]) -> Receipt:
        """Remember that a consumer is done with all before these offsets."""
        return self._passage.call(self._log.commit, consumer, positions)

    def committed(self, consumer: str) -> dict[int, int]:
        """Give the next offsets that a consumer wants; empty if it has committed nothing."""
        return self._passage.call(self._log.committed, consumer)

    def consumers(self) -> dict[str, dict[int, int]]:
        """Give all named consumers with what they have committed."""
        return self._passage.call(self._log.consumers)

    def forget_consumer(self, consumer: str) -> Receipt:
        """Forget a consumer, with what it has committed."""
        return self._passage.call(self._log.forget_consumer, consumer)

    def lag(self, consumer: str) -> int:
        """Count the entries that are there and that a consumer has not committed."""
        return self._passage.call(self._log.lag, consumer)

    async def _await_idle(self, how: Barrier) -> Outcome | None:
        return await self._log.runner.wait(how)

    def close(self) -> None:
        """Let go of the log, after what was asked here has its outcome."""
        with suppress(StoreClosed, *FAILURES):  # Then it is closed.
            self._passage.call(self._log.close)


class Log(LogHandle):
    """A log that one endpoint keeps; see ``peermesh.Log``.

    All methods may be called from any thread.
    """

    def __init__(self, passage: Passage, core: Core) -> None:
        """Use ``Endpoint.attach_log``, ``attach_log_clone`` or ``attach_log_proxy``."""
        super().__init__(passage, core)
        self._core = core

    def __repr__(self) -> str:
        """Show the log's name, and its role here."""
        return self._passage.show(f"Log {self.name()}", self._core)

    def is_keeper(self) -> bool:
        """Tell whether the log's keeper is here now: promotions change it."""
        return self._core.is_keeper()

    def promote(
        self,
        topics: Iterable[str] = (),
        *,
        replicas: int = 0,
        force: bool = False,
        **keep: object,
    ) -> LogPromotion:
        """Make this follower the keeper of its log; see ``peermesh.Log.promote``."""
        ask = partial(self._core.promote, topics, replicas=replicas, force=force, **keep)
        return self._passage.call(self._promote, ask)

    async def _promote(self, ask: Callable[[], Awaitable[LogPromotion]]) -> LogPromotion:
        return await ask()

    def statistics(self) -> LogStatistics:
        """Count what this handle has; see ``peermesh.Log.statistics``."""
        return self._passage.call_sync(self._core.statistics)

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change how much the log may hold; see ``peermesh.Log.set_quota``."""
        self._passage.call_sync(partial(self._core.set_quota, **limits))


class LogConsumer(Closing):
    """Entries of a log, in order within each partition, for one thread."""

    def __init__(self, passage: Passage, core: CoreConsumer) -> None:
        """Use ``Log.consume``."""
        self._passage = passage
        self._core = core

    def get(self, timeout: Seconds = None) -> LogEntry:
        """Wait for the next entry, for ``timeout`` seconds at most; then ``RequestTimeout``."""
        try:
            return self._passage.call(self._core.get, timeout)
        except RequestTimeout:
            raise
        except TimeoutError as error:
            raise RequestTimeout(str(error)) from None

    def get_batch(self, limit: int = READ_LIMIT, timeout: Seconds = None) -> list[LogEntry]:
        """Wait for entries, and take those that are there; none after ``timeout`` seconds."""
        return self._passage.call(self._core.get_batch, limit, timeout)

    def seek(self, partition: int, offset: int) -> None:
        """Go on from there in a partition."""
        self._passage.call_sync(self._core.seek, partition, offset)

    def commit(self) -> Receipt:
        """Remember that all that was handed out is dealt with."""
        return self._passage.call(self._core.commit)

    def positions(self) -> dict[int, int]:
        """Give the next offset of each partition."""
        return self._passage.call(self._core.positions)

    def __iter__(self) -> Iterator[LogEntry]:
        """Iterate until the log is closed."""
        while True:
            try:
                yield self.get()
            except StoreClosed:
                return

    def __repr__(self) -> str:
        """Show the log, and the consumer's name."""
        return self._passage.show("LogConsumer", self._core)

    def close(self) -> None:
        """Hand out nothing more."""
        with suppress(StoreClosed, *FAILURES):  # Then it is closed.
            self._passage.call_sync(self._core.close)
