"""The whole applied state in parts: what a snapshot carries, and how it is put together again.

Frozen are lists of references, at the speed of C; a part is built when it is asked for. Nothing
that is applied later changes it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add
from typing import Final, NamedTuple, overload

from stores.group.positions import START, Position
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX
from stores.quota import UNLIMITED, Quota
from stores.table.bodies import SessionRow
from stores.table.lineage import LINEAGE_MAX, Reign
from stores.table.sessions import SESSIONS_MAX
from stores.table.table import Columns, Entry
from stores.table.writers import WRITERS_MAX, LedgerRow
from wire.errors import DecodeError

ENTRY_SIZE: Final = 16
"""Bytes of an entry in a part besides key and value, roughly: heads and a revision."""


@dataclass(frozen=True, slots=True)
class HeadPart:
    """The first part: all that is small."""

    revision: int
    position: Position
    """The last entry that the machine has applied."""
    entry_count: int
    quota: Quota = UNLIMITED
    reigns: tuple[Reign, ...] = ()


@dataclass(frozen=True, slots=True)
class EntriesPart:
    """Some of the entries, as columns: they are encoded at a third of the cost.

    Tuples, at which the collector of cycles looks once only: a snapshot may have a million.
    """

    pairs: tuple[bytes, ...]
    """Key, value, key, value, and so on."""
    revisions: tuple[int, ...]
    """One for each pair."""
    expiries: tuple[int, ...] = ()
    """Position of a pair, its expiry in ns, and so on; only for those that have one."""


@dataclass(frozen=True, slots=True)
class WritersPart:
    """Some records of the ledger, in its order."""

    rows: tuple[LedgerRow, ...]


@dataclass(frozen=True, slots=True)
class SessionsPart:
    """All sessions, if there are any."""

    rows: tuple[SessionRow, ...]


Part = HeadPart | EntriesPart | WritersPart | SessionsPart


class _Entries(NamedTuple):
    keys: tuple[bytes, ...]
    values: tuple[bytes, ...]
    revisions: array[int]
    expiries: tuple[int | None, ...]
    """Empty if none expires."""
    largest: int
    """No key with its value has more bytes."""

    @classmethod
    def of(cls, columns: Columns) -> _Entries:
        keys = tuple(columns.values)
        expiries = tuple(map(columns.expiries.get, keys)) if columns.expiries else ()
        # They enter and leave together, and so stand in one order.
        revisions = array("Q", columns.revisions.values())
        return cls(keys, tuple(columns.values.values()), revisions, expiries, columns.largest)

    def ends(self) -> list[int]:
        """Find where each part ends; one entry always fits in a part."""
        if (self.largest + ENTRY_SIZE) * CHUNK_COUNT_MAX <= CHUNK_SIZE_MAX:  # in no time
            count = len(self.keys)
            return [*range(CHUNK_COUNT_MAX, count, CHUNK_COUNT_MAX), *([count] if count else [])]
        sizes = map(add, map(len, self.keys), map(len, self.values))
        # What is used up to an entry, each as large as its bytes and its share of the count.
        used = list(accumulate(sizes))
        ends, end, count = list[int](), 0, len(used)
        while end < count:
            start, before = end, used[end - 1] if end else 0
            last = min(start + CHUNK_COUNT_MAX, count)
            room = before + CHUNK_SIZE_MAX - ENTRY_SIZE * CHUNK_COUNT_MAX
            end = max(bisect_right(used, room, start, last), start + 1)
            ends.append(end)
        return ends

    def part(self, start: int, end: int, hidden: Mapping[bytes, object]) -> EntriesPart:
        pairs, revisions, expiries = list[bytes](), list[int](), list[int]()
        if not hidden and not self.expiries:
            pairs = [b""] * (2 * (end - start))
            pairs[::2], pairs[1::2] = self.keys[start:end], self.values[start:end]
            return EntriesPart(tuple(pairs), tuple(self.revisions[start:end]))
        for at in range(start, end):
            if (key := self.keys[at]) in hidden:
                continue
            expires_at_ns = self.expiries[at] if self.expiries else None
            if expires_at_ns is not None:
                expiries += (len(revisions), expires_at_ns)
            pairs += (key, self.values[at])
            revisions.append(self.revisions[at])
        return EntriesPart(tuple(pairs), tuple(revisions), tuple(expiries))


class Frozen(Sequence[Part]):
    """The state at one moment, cut into parts of 256 KiB at most."""

    def __init__(
        self,
        head: HeadPart,
        columns: Columns,
        past: Mapping[bytes, Entry | None],
        small: Sequence[Part],
    ) -> None:
        """Freeze a table; ``past`` is what stands under some of its keys instead.

        The ``small`` parts come behind the entries.
        """
        self._past = dict(past)
        others = Columns()
        for key, entry in past.items():
            others.set(key, entry)
        self._makers: list[tuple[_Entries, int, int, Mapping[bytes, object]]] = []
        for entries, hidden in ((_Entries.of(columns), self._past), (_Entries.of(others), {})):
            start = 0
            for end in entries.ends():
                self._makers.append((entries, start, end, hidden))
                start = end
        self._head = head
        self._small = small

    def __len__(self) -> int:
        """Count the parts."""
        return 1 + len(self._makers) + len(self._small)

    @overload
    def __getitem__(self, number: int) -> Part: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Part]: ...

    def __getitem__(self, number: int | slice) -> Part | Sequence[Part]:
        """Build a part."""
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        if number == 0:
            return self._head
        if 1 <= number <= len(self._makers):
            entries, start, end, hidden = self._makers[number - 1]
            return entries.part(start, end, hidden)
        return self._small[number - 1 - len(self._makers)]


def small_parts(writers: Iterable[LedgerRow], sessions: Iterable[SessionRow]) -> list[Part]:
    """Give the records of writers, and sessions, in parts."""
    parts: list[Part] = list(writers_parts(writers))
    if rows := tuple(sessions):
        parts.append(SessionsPart(rows))
    return parts


def writers_parts(rows: Iterable[LedgerRow]) -> list[WritersPart]:
    """Give the records of writers in parts."""
    return [WritersPart(some) for some in _divided(rows)]


def _divided(rows: Iterable[LedgerRow]) -> Iterator[tuple[LedgerRow, ...]]:
    """Cut records into what one part holds."""
    part, size = list[LedgerRow](), 0
    for row in rows:
        size += 1 + len(row.outcomes)
        if part and size > CHUNK_COUNT_MAX:
            yield tuple(part)
            part, size = [], 1 + len(row.outcomes)
        part.append(row)
    if part:
        yield tuple(part)


@dataclass(slots=True)
class Thawed:
    """A state that is put together again, part by part."""

    head: HeadPart
    columns: Columns = field(default_factory=Columns)
    writers: list[LedgerRow] = field(default_factory=list)
    sessions: list[SessionRow] = field(default_factory=list)
    part_count: int = 1
    """Those that are in it, with the head."""

    def take(self, part: object) -> None:
        """Take the next part in; raises ``DecodeError``."""
        self.part_count += 1
        match part:
            case EntriesPart():
                _take_entries(part, self.columns)
            case WritersPart(rows):
                self.writers += rows
            case SessionsPart(rows):
                self.sessions += rows
            case _:
                raise DecodeError(f"a snapshot of a table has a {type(part).__name__} in it")


def thaw(parts: Sequence[object], begun: Thawed | None = None) -> Thawed:
    """Put all parts together; raises ``DecodeError`` if they are no whole state.

    If ``begun`` has the first ones of these parts, it goes on from there.
    """
    head = parts[0] if parts else HeadPart(0, START, 0)
    if not isinstance(head, HeadPart):
        raise DecodeError("a snapshot of a table does not begin with its head")
    thawed = begun if begun is not None and begun.head is head else Thawed(head)
    for part in parts[thawed.part_count :]:
        thawed.take(part)
    columns = thawed.columns
    if len(columns) != head.entry_count or len(columns.revisions) != head.entry_count:
        found = len(columns)
        raise DecodeError(f"a snapshot of {head.entry_count} entries has {found} different keys")
    is_unique = len({row.writer for row in thawed.writers}) == len(thawed.writers)
    if not is_unique or len(thawed.writers) > WRITERS_MAX or len(head.reigns) > LINEAGE_MAX:
        raise DecodeError("a snapshot of a table has too many writers or terms, or one twice")
    nonces = {row.nonce for row in thawed.sessions} | {row.session for row in thawed.sessions}
    if len(nonces) != 2 * len(thawed.sessions) or len(thawed.sessions) > SESSIONS_MAX:
        raise DecodeError("a snapshot of a table has too many sessions, or one twice")
    return thawed


def _take_entries(part: EntriesPart, columns: Columns) -> None:
    keys, values = part.pairs[::2], part.pairs[1::2]
    columns.values.update(zip(keys, values, strict=True))
    columns.revisions.update(zip(keys, part.revisions, strict=True))
    columns.size += sum(map(len, part.pairs))
    columns.note_largest(keys, values)
    for at, expires_at_ns in zip(part.expiries[::2], part.expiries[1::2], strict=True):
        columns.expiries[keys[at]] = expires_at_ns
