"""The latest mutations of a store, by revision: what a watch that fell behind goes on from.

Every master and clone keeps it, whether anybody watches or not: a watch is resumed after the fact.
That costs next to nothing: one record for a whole run of puts, as the bytes that they came in; only
a watch looks into them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import Final

from stores.actions import (
    Action,
    BatchResultCommand,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
    WriterId,
)
from stores.encoding import decode_action
from stores.group.positions import Position
from stores.table import Entry
from wire.limits import MIB
from wire.public import public

HISTORY_COUNT_MAX: Final = 1_000_000
"""Mutations kept: some seconds of the fastest writer, and days of a quiet store. No reader
that needs more of them is faster with them than with a snapshot."""

HISTORY_SIZE_MAX: Final = 32 * MIB
"""Bytes of mutations kept, values that were overwritten included: twice as many as a writer may
have under way, so that a reader that keeps up with writers does not lose the thread."""

RECORD_SIZE: Final = 200
"""Bytes that a record takes besides its keys and values, roughly."""

_MEMO_COUNT: Final = 8
"""Records that are remembered as what they mean: watchers of one store read the same ones."""


@public
class ChangeOf(Enum):
    """What a commit did to a key."""

    PUT = "put"
    ERASE = "erase"
    EXPIRE = "expire"
    CLEAR = "clear"


_ERASE: Final = ChangeOf.ERASE
"""As a name of this module: a member of an enumeration takes Python 3.11 ten times as long."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What became of one key."""

    kind: ChangeOf
    key: bytes
    entry: Entry | None
    """What is stored now; ``None`` if it is gone."""


@dataclass(frozen=True, slots=True)
class Commit:
    """All that one mutation changed."""

    revision: int
    writer: WriterId | None
    """Who asked for it; ``None`` for an expiry."""
    changes: tuple[KeyChange, ...]
    position: Position | None = None
    """The journal entry that brought it; ``None`` outside of replica groups."""


@dataclass(slots=True)
class _Gone:
    """Keys that were there, and that one action removed."""

    writer: WriterId | None
    kind: ChangeOf
    removed: tuple[tuple[int, bytes], ...]
    """Which key, and how many mutations after the first of the action."""


@dataclass(frozen=True, slots=True)
class _Cleared:
    """All keys that were there."""

    writer: WriterId
    keys: list[bytes]


_Record = bytes | Action | _Gone | _Cleared | tuple[Commit, ...]


class History:
    """Mutations up to now, without a gap, as far back as count and bytes allow."""

    def __init__(
        self,
        revision: int,
        *,
        count_max: int = HISTORY_COUNT_MAX,
        size_max: int = HISTORY_SIZE_MAX,
    ) -> None:
        """Start after this revision."""
        self.floor = revision
        """All mutations after it are here."""
        self.generation = 0
        """Counts how often the history began anew: revisions of before mean nothing then."""
        self._count_max = count_max
        self._size_max = size_max
        self._lasts: list[int] = []
        self._records: list[_Record] = []
        self._sizes: list[int] = []
        self._positions: list[Position | None] = []
        self._start = 0
        self._size = 0
        self._memo: dict[int, list[Commit]] = {}

    def __len__(self) -> int:
        """Count the records."""
        return len(self._records) - self._start

    def restart(self, revision: int) -> None:
        """Forget everything: what is known now was not reached by mutations that were seen."""
        self.floor = revision
        self.generation += 1
        self._lasts, self._records, self._sizes, self._positions = [], [], [], []
        self._start = self._size = 0
        self._memo.clear()

    def add(
        self,
        action: Action,
        payload: bytes | None,
        size: int,
        revision: int,
        present: Collection[bytes],
        position: Position | None = None,
    ) -> None:
        """Keep what is about to happen after ``revision``, while ``present`` are the keys there.

        ``size`` is that of the action in bytes, and ``payload`` its encoding, if there is one;
        ``position`` names the entry of a replica group's journal that it is in.
        """
        if isinstance(action, PutCommand):
            record: _Record = action if payload is None else payload
            last = revision + len(action.pairs) // 2
        elif isinstance(action, BatchResultCommand):
            record, last = _without_absent(action, present), revision + 1
        elif isinstance(action, (EraseCommand, ExpireCommand)):
            record, last = _removal(action, present), revision + len(action.keys)
        elif isinstance(action, ClearCommand):
            # A million keys at the speed of C, and nothing to the garbage collector.
            record, last = _Cleared(action.writer, list(present)), revision + 1
            size = sum(map(len, present))
        else:
            return  # an answer, which changes nothing
        self._append(record, size + RECORD_SIZE, last, position)

    def skip(self, revision: int) -> None:
        """Go on after a later revision: those up to it are nothing that was ever shown here."""
        self._append((), RECORD_SIZE, revision, None)

    def commits(self, after: int, until: int) -> Iterator[Commit]:
        """Go through what was changed after one revision, up to another; what changed no key lacks.

        Everything after ``floor`` is here; ask for no earlier one.
        """
        assert after >= self.floor, (after, self.floor)
        at = bisect_right(self._lasts, after, self._start)
        while at < len(self._records):
            for commit in self._expanded(at):
                if commit.revision > until:
                    return
                if commit.revision > after:
                    yield commit
            at += 1

    def position_of(self, revision: int) -> Position | None:
        """Give the journal entry that made a revision; ``None`` if that is not here."""
        at = bisect_left(self._lasts, revision, self._start)
        is_here = revision > self.floor and at < len(self._lasts)
        return self._positions[at] if is_here else None

    # -- steps -----------------------------------------------------------------------------------

    def _append(self, record: _Record, size: int, last: int, position: Position | None) -> None:
        self._records.append(record)
        self._lasts.append(last)
        self._sizes.append(size)
        self._positions.append(position)
        self._size += size
        while self._size > self._size_max or last - self.floor > self._count_max:
            self._drop_first()
        if self._start > len(self._records) // 2:
            del self._records[: self._start]
            del self._lasts[: self._start]
            del self._sizes[: self._start]
            del self._positions[: self._start]
            self._start = 0

    def _drop_first(self) -> None:
        start = self._start
        self.floor = self._lasts[start]
        self._size -= self._sizes[start]
        self._records[start] = b""
        self._memo.pop(self.floor, None)
        self._start = start + 1

    def _expanded(self, at: int) -> list[Commit]:
        last = self._lasts[at]
        commits = self._memo.get(last)
        if commits is None:
            first = (self._lasts[at - 1] if at > self._start else self.floor) + 1
            record = self._records[at]
            if isinstance(record, tuple):
                return list(record)
            if isinstance(record, bytes):
                record = decode_action(record)
            commits = self._memo[last] = _commits(record, first, self._positions[at])
            if len(self._memo) > _MEMO_COUNT:
                del self._memo[next(iter(self._memo))]
        return commits


def _without_absent(action: BatchResultCommand, present: Collection[bytes]) -> BatchResultCommand:
    """Leave out the removals of what is not there."""
    for change in action.changes:
        if change.value is None:
            break
    else:
        return action
    changes = tuple(
        change for change in action.changes if change.value is not None or change.key in present
    )
    return BatchResultCommand(action.writer, action.request, action.has_held, changes)


def _removal(action: EraseCommand | ExpireCommand, present: Collection[bytes]) -> _Gone:
    keys = action.keys
    removed: tuple[tuple[int, bytes], ...]
    if len(keys) == 1:  # One among others, without what serves runs.
        removed = ((0, keys[0]),) if keys[0] in present else ()
    else:
        first: dict[bytes, int] = {}
        for number, key in enumerate(keys):
            if key in present:
                first.setdefault(key, number)
        removed = tuple((number, key) for key, number in first.items())
    if isinstance(action, ExpireCommand):
        return _Gone(None, ChangeOf.EXPIRE, removed)
    return _Gone(action.writer, _ERASE, removed)


def _commits(
    record: Action | _Gone | _Cleared, first: int, position: Position | None
) -> list[Commit]:
    """Tell what a record means, commit by commit; the first one has this revision."""
    match record:
        case PutCommand(writer, _, expiry_ns, pairs):
            return _puts(writer, expiry_ns, pairs, first, position)
        case BatchResultCommand(writer, _, _, changes):
            done = tuple(
                KeyChange(ChangeOf.ERASE, change.key, None)
                if change.value is None
                else KeyChange(
                    ChangeOf.PUT, change.key, Entry(change.value, first, change.expiry_ns)
                )
                for change in changes
            )
            return [Commit(first, writer, done, position)] if done else []
        case _Cleared(writer, keys):
            gone = tuple(KeyChange(ChangeOf.CLEAR, key, None) for key in keys)
            return [Commit(first, writer, gone, position)] if gone else []
        case _Gone(writer, kind, removed):
            return [
                Commit(first + number, writer, (KeyChange(kind, key, None),), position)
                for number, key in removed
            ]
        case _:
            raise AssertionError(f"nobody keeps a {type(record).__name__}")


def _puts(
    writer: WriterId,
    expiry_ns: int | None,
    pairs: Sequence[bytes],
    first: int,
    position: Position | None,
) -> list[Commit]:
    return [
        Commit(revision, writer, (_put(key, Entry(value, revision, expiry_ns)),), position)
        for revision, key, value in zip(count(first), pairs[::2], pairs[1::2])
    ]


def _put(key: bytes, entry: Entry) -> KeyChange:
    return KeyChange(ChangeOf.PUT, key, entry)
