"""Entries of a group's journal as bytes: a run of them is what one row holds."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Protocol

import cbor2

from stores.group.clock import Times
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.positions import MemberId
from wire.limits import KIB

RUN_ENTRIES_MAX: Final = 2_000
"""Entries of one row, as many as are handled at a time elsewhere."""

RUN_SIZE_MAX: Final = 1024 * KIB
"""Bytes of one row, unless a single entry is larger: it is in memory twice while it is read."""

_ACTION, _LEAD, _VOTERS, _TIME, _DISMISSALS = range(5)
_LENGTH_SIZE: Final = 4


class Bodies(Protocol):
    """How a machine writes its actions."""

    def encode(self, body: object) -> bytes:
        """Give an action as bytes."""

    def decode(self, data: bytes) -> object:
        """Give the action of these bytes; raises ``ValueError``."""


@dataclass(slots=True)
class EntryRun:
    """Consecutive entries of one term."""

    first: int
    """The index of the first one."""
    term: int
    kinds: bytearray
    bodies: list[bytes]

    @property
    def last(self) -> int:
        """The index of the last one."""
        return self.first + len(self.bodies) - 1

    def pack(self) -> bytes:
        """Give kinds, lengths and bodies in one piece."""
        lengths = struct.pack(f">{len(self.bodies)}I", *map(len, self.bodies))
        return b"".join((self.kinds, lengths, *self.bodies))

    @classmethod
    def unpack(cls, first: int, term: int, count: int, data: bytes) -> EntryRun:
        """Read what ``pack`` gave; raises ``ValueError``."""
        start = count * (1 + _LENGTH_SIZE)
        if count < 1 or len(data) < start:
            raise ValueError(f"{len(data)} bytes are no run of {count} entries")
        ends = list(accumulate(struct.unpack_from(f">{count}I", data, count), initial=start))
        if ends[-1] != len(data):
            raise ValueError("the entries are longer or shorter than their run")
        bodies = [data[at:end] for at, end in pairwise(ends)]
        return cls(first, term, bytearray(data[:count]), bodies)

    def cut(self, last: int) -> None:
        """Drop the entries above an index."""
        del self.kinds[last + 1 - self.first :]
        del self.bodies[last + 1 - self.first :]

    def entries(self, codec: Bodies) -> list[Entry]:
        """Give the entries; raises ``ValueError``."""
        term = self.term
        return [
            ActionEntry(term, codec.decode(body)) if kind == _ACTION else _rare(kind, term, body)
            for kind, body in zip(self.kinds, self.bodies, strict=True)
        ]


def runs_of(first: int, entries: Sequence[Entry], codec: Bodies) -> Iterable[EntryRun]:
    """Divide entries, the first of them with this index, into runs."""
    run, size = EntryRun(first, 0, bytearray(), []), 0
    for index, entry in enumerate(entries, first):
        kind, body = _encoded(entry, codec)
        size += len(body)
        is_full = size > RUN_SIZE_MAX or len(run.bodies) == RUN_ENTRIES_MAX
        if is_full or entry.term != run.term:
            if run.bodies:
                yield run
            run, size = EntryRun(index, entry.term, bytearray(), []), len(body)
        run.kinds.append(kind)
        run.bodies.append(body)
    if run.bodies:
        yield run


def _encoded(entry: Entry, codec: Bodies) -> tuple[int, bytes]:
    match entry:
        case ActionEntry(body=body):
            return _ACTION, codec.encode(body)
        case LeadEntry(times=times):
            return _LEAD, cbor2.dumps(list(times))
        case VotersEntry(voters=voters, dismissed=()):
            return _VOTERS, cbor2.dumps([list(voter) for voter in voters])
        case VotersEntry(voters=voters, dismissed=names):
            return _DISMISSALS, cbor2.dumps([[list(voter) for voter in voters], list(names)])
        case TimeEntry(times=times):
            return _TIME, cbor2.dumps(list(times))


def _rare(kind: int, term: int, body: bytes) -> Entry:
    match kind:
        case 1:
            return LeadEntry(term, Times(*cbor2.loads(body)))
        case 2:
            return VotersEntry(term, tuple(MemberId(*voter) for voter in cbor2.loads(body)))
        case 3:
            return TimeEntry(term, Times(*cbor2.loads(body)))
        case 4:
            voters, names = cbor2.loads(body)
            return VotersEntry(term, tuple(MemberId(*voter) for voter in voters), tuple(names))
        case _:
            raise ValueError(f"entries of kind {kind} are of a later version")
