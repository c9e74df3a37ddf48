"""A machine's rows follow its journal lazily: coalesced by key, a slice with each commit.

A checkpoint is of the state at one position: when its last slice is written, every row has that
state, or a later one. So the file also says up to where its rows may *reach*, and who loads it
applies the journal up to there before anything is read. Actions are absolute, so that it does no
harm to apply them to rows that have them already. Writers' records are not: they go with the last
slice, as the revision and the journal's floor do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stores.group.clock import Times
from stores.group.positions import Dismissed, Position, Voters
from stores.persistence import Changes
from wire.limits import MIB

if TYPE_CHECKING:
    from stores.log.parts import Part
    from stores.log.producers import ProducerChange

SLICE_ROWS: Final = 2_000
"""Rows of one slice: a commit that waits for one takes some milliseconds longer."""

SLICE_SIZE: Final = 4 * MIB
"""Bytes of one slice, at least one row: as with rows. What is larger than SQLite's cache is read
and written more than once."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of the machine that its rows are to have."""

    applied: Position
    """The last entry in it; the journal on the disk has it."""
    times: Times
    """The group's clocks there."""
    floor: Position
    """Where the journal begins once it is written, not after ``applied``."""
    voters: Voters
    """Those in force at the floor."""
    machine: bytes = b""
    """What the machine keeps beside its rows."""
    dismissed: Dismissed = ()
    """As the voters."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a checkpoint, for one commit."""

    checkpoint: Checkpoint
    changes: Changes
    is_last: bool
    reached: int = 0
    """The rows of this slice are of the state at this index, if it is after the checkpoint's. The
    journal on the disk has it, with this commit at the latest."""


@dataclass(frozen=True, slots=True)
class Books:
    """All that is small of a log at a checkpoint, for one commit; the runs are in the file."""

    checkpoint: Checkpoint
    parts: Sequence[Part]
    starts: tuple[int, ...]
    """Of each partition, where the runs begin that are to stay in the file."""
    producers: Sequence[ProducerChange] = ()
    """The named producers that changed since the last checkpoint, in the order of that."""
