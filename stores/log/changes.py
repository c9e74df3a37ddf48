"""What a log's backend takes and gives: all that a keeper or follower finds again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
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


class Role(Enum):
    """Whose a log in a backend is. The numbers are those of files."""

    KEEPER = 0
    COPY = 1
    DEPOSED = 2
    """A keeper's, until another one was promoted: it follows, and goes on so after a restart."""


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """What a backend kept, and the epoch of the keeper that starts with it."""

    log_id: int
    """Names this history for ever: the epoch of its first keeper. Zero: a copy of nothing yet."""
    epoch: int
    partitions: Sequence[Partition]
    cursors: Cursors = ()
    epochs: Sequence[EpochEnds] = ()
    """The lives of the keeper that are known, one after the other, the latest last."""
    writers: Sequence[WriterRow] = ()
    producers: Sequence[ProducerRow] = ()
    role: Role = Role.KEEPER
    known_epoch: int = 0
    """Of a later keeper, by which the one that kept this was deposed."""
    exposed: Sequence[str] = ()
    """Files that others could read until now, a sentence for each."""


@dataclass(frozen=True, slots=True)
class LogChanges:
    """What one commit makes durable, all of it or nothing."""

    log_id: int | None = None
    """Given where it changes: a follower copies another log from now on."""
    epoch: int | None = None
    """Given where it changes: a follower is level with another life of its keeper."""
    cleared: Sequence[tuple[int, int]] = ()
    """Partitions that lose all entries first, and begin at the offset."""
    cut: Sequence[tuple[int, int]] = ()
    """Partitions that lose the runs from the offset on first; it is where one begins."""
    runs: Sequence[Run] = ()
    starts: Sequence[tuple[int, int]] = ()
    """Partitions that begin later now."""
    lives: Sequence[EpochEnds] | None = None
    """Given where they change: all lives of the keeper that are known, the latest last."""
    role: Role | None = None
    """Given where it changes."""
    known_epoch: int | None = None
    """Given where it changes: by which keeper this one was deposed."""
    cursors: Cursors = ()
    forgotten_consumers: Sequence[str] = ()
    """Consumers that go, before the cursors are set."""
    is_memory_new: bool = False
    """All writers and producers that were known go first."""
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

        What a deposed keeper left is given as it is, with its role, and begins no life. A copy
        raises ``BackendFailure``: who wants it to lead says so, by a promotion.
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
