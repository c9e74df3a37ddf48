"""What a keeper decides about each request: where an append goes, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, assert_never

from stores.log.limits import CONSUMERS_MAX, CURSORS_MAX
from stores.log.messages import (
    Append,
    ForgetConsumer,
    MoveCursor,
    Positions,
    Request,
    Requests,
    Trim,
)
from stores.log.partitions import Partitions
from stores.log.runs import size_of
from stores.log.staging import LogStage
from stores.outcomes import Applied, Refused
from stores.quota import UNLIMITED, Meter
from wire.decoding import check_all, is_canonical
from wire.errors import DecodeError, InvalidData, StoreError


class KnownProducers(Protocol):
    """What is remembered of named producers; see ``stores.log.producers``."""

    def find(self, name: str, sequence: int) -> tuple[int, int] | None:
        """Give where this was appended already; raises ``SequenceUnknown``."""

    def add(self, name: str, sequence: int, partition: int, offset: int) -> None:
        """Remember an append."""


class Judge:
    """Decides by what is committed, and by what it decided before."""

    def __init__(
        self, partitions: Partitions, consumers: Mapping[str, object], producers: KnownProducers
    ) -> None:
        """Look at what is committed in ``partitions``, and at known consumers and producers."""
        self.staged_ends = list(partitions.ends())
        """Where the partitions end with what is not committed yet."""
        self.meter = Meter("the log", UNLIMITED)
        """The quota; its driver puts another one in this place before anything is asked."""
        self.used = partitions.used()
        """Entries and bytes of what is committed, or on its way to be."""
        self._partitions = partitions
        self._consumers = consumers
        self._producers = producers

    def perform(self, request: Request, stage: LogStage, now_ns: int) -> Applied | Refused:
        """Decide about one request; what it brings goes to the stage."""
        try:
            match request:
                case Append():
                    return self._append(request, stage, now_ns)
                case MoveCursor(consumer, positions):
                    return self._move_cursor(consumer, positions, stage)
                case ForgetConsumer(consumer):
                    stage.forget_consumer(consumer)
                    return Applied(0)
                case Trim(partition, offset):
                    return self._trim(partition, offset, stage)
                case _:
                    assert_never(request)
        except StoreError as error:
            return Refused(error.code, str(error)[:200])

    def _append(self, request: Append, stage: LogStage, now_ns: int) -> Applied:
        partition, producer = request.partition, request.producer
        _ = self._partitions[partition]  # it raises if there is none
        if producer is not None:
            found = self._producers.find(producer, request.sequence)
            if found is not None:
                if found[0] != partition:
                    raise InvalidData(
                        f"producer {producer} appended {request.sequence} to partition {found[0]}"
                    )
                return Applied(found[1], answer=False)
        entries, size = self.used
        room = self.meter.room(entries + stage.count, size + stage.size)
        count, added = len(request.entries) // 2, size_of(request.entries)
        room.take(count, added)
        offset = self.staged_ends[partition]
        self.staged_ends[partition] = offset + count
        stage.append(partition, offset, request.entries, added, now_ns)
        self.meter.count(entries + stage.count, size + stage.size)
        if producer is not None:
            self._producers.add(producer, request.sequence, partition, offset)
        return Applied(offset)

    def _move_cursor(self, consumer: str, positions: Positions, stage: LogStage) -> Applied:
        for partition, offset in positions:
            _ = self._partitions[partition]  # it raises if there is none
            if offset > self.staged_ends[partition]:
                raise InvalidData(
                    f"partition {partition} ends at {self.staged_ends[partition]}: a consumer"
                    f" cannot be done with what is before {offset}"
                )
        if consumer not in self._consumers and consumer not in stage.cursors:
            self._check_consumers(len(self._consumers.keys() | stage.cursors.keys()) + 1)
        stage.move_cursor(consumer, positions)
        return Applied(0)

    def _check_consumers(self, count: int) -> None:
        if count > CONSUMERS_MAX:
            raise InvalidData(f"a log has up to {CONSUMERS_MAX} consumers: forget some")
        if count * len(self._partitions) > CURSORS_MAX:
            raise InvalidData(f"a log has up to {CURSORS_MAX} cursors: forget some consumers")

    def _trim(self, partition: int, offset: int, stage: LogStage) -> Applied:
        start = max(self._partitions[partition].start, min(offset, self.staged_ends[partition]))
        stage.starts[partition] = max(start, stage.starts.get(partition, 0))
        return Applied(start)


def vet(asked: Requests) -> None:
    """Make sure that keys and values from outside are encodings; raises ``DecodeError``."""
    entries: list[bytes | None] = []
    for request in asked.requests:
        if isinstance(request, Append):
            entries += request.entries
    for key in {*entries[::2]}:
        if key is not None and not is_canonical(key):
            raise DecodeError("a key is not the deterministic encoding of a value")
    values = [value for value in entries[1::2] if value is not None]
    if 2 * len(values) < len(entries):
        raise DecodeError("an entry has no value")
    check_all(values)
