"""What a log's backend takes and gives: all that a keeper or follower finds again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stores.actions import WriterId
from stores.log.messages import Cursors
from stores.log.partitions import Partition
from stores.log.producers import ProducerRow
from stores.log.runs import Run
from stores.outcomes import WriterRow


@dataclass(frozen=True, slots=True)
class EpochEnds:
    """Where the log ended when a life of its keeper began."""

    epoch: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What a backend kept, and the epoch of the keeper that starts with it."""

    log_id: int
    """Names this history for ever: the epoch of its first keeper. Zero: a copy of nothing yet."""
    epoch: int
    partitions: Sequence[Partition]
    cursors: Cursors = ()
    epochs: Sequence[EpochEnds] = ()
    """Of a keeper: its lives, the present one last."""
    writers: Sequence[WriterRow] = ()
    producers: Sequence[ProducerRow] = ()


@dataclass(frozen=True, slots=True)
class LogChanges:
    """What one commit makes durable, all of it or nothing."""

    log_id: int | None = None
    """Given where it changes: a follower copies another log from now on."""
    epoch: int | None = None
    """Given where it changes: a follower is level with another life of its keeper."""
    cleared: Sequence[tuple[int, int]] = ()
    """Partitions that lose all entries first, and begin at the offset."""
    runs: Sequence[Run] = ()
    starts: Sequence[tuple[int, int]] = ()
    """Partitions that begin later now."""
    cursors: Cursors = ()
    forgotten_consumers: Sequence[str] = ()
    """Consumers that go, before the cursors are set."""
    writers: Sequence[WriterRow] = ()
    forgotten_writers: Sequence[WriterId] = ()
    producers: Sequence[ProducerRow] = ()
    forgotten_producers: Sequence[str] = ()


class LogBackend(Protocol):
    """Where a log is kept. Methods may block, and raise ``BackendFailure``, where not said."""

    @property
    def is_durable(self) -> bool:
        """True if methods block, so that they belong in a thread."""

    def load_keeper(self, epoch_min: int, partition_count: int | None) -> LoadedLog:
        """Give everything, with an epoch of at least ``epoch_min`` that no keeper here ever had.

        A log that exists has its partitions already: another number raises ``InvalidData``.
        """

    def load_follower(self) -> LoadedLog:
        """Give the copy that is there, with the epoch that it is of; maybe a copy of nothing."""

    def commit(self, changes: LogChanges) -> None:
        """Make changes durable. After a failure the backend is of no more use: close it."""

    def read(self, partition: int, offset: int, size_max: int) -> list[Run]:
        """Give committed runs from the one with ``offset`` on, one at least if it is there."""

    def read_at_hand(self, partition: int, offset: int, size_max: int) -> list[Run] | None:
        """Do as ``read`` does without blocking; ``None`` if that takes the disk."""

    def find(self, partition: int, timestamp_ns: int) -> int | None:
        """Give the first offset that was appended at this time or later, if there is one."""

    def close(self) -> None:
        """Let go of files and locks."""
