"""The state of a store: a table, its revision, and how each action changes them.

A master and its clones apply the same actions with the same code, which is what keeps them equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import compress
from typing import Protocol

from stores.actions import (
    Action,
    BatchResultCommand,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
)
from stores.index import KeyIndex
from stores.lives import instant_of
from wire.public import public


# Not frozen: one is built for every key that a durable master changes.
@dataclass(slots=True)
class Entry:
    """What is stored under a key."""

    value: bytes
    """The value, encoded."""
    revision: int
    """Which mutation set it."""
    expires_at_ns: int | None
    """When the leader removes it, as its group counts time; or the session that it lives with."""

    def dated(self, epoch_ns: int) -> Entry:
        """Give it with its expiry as a time of Unix, where the group counts from ``epoch_ns``."""
        at_ns = instant_of(self.expires_at_ns, epoch_ns)
        return self if at_ns is None else replace(self, expires_at_ns=at_ns)


class Columns:
    """Entries by key, in one dict for each field.

    Bytes and numbers are nothing to the garbage collector, so that a million entries cost it
    nothing; and a run of puts enters at the speed of ``dict.update``.
    """

    __slots__ = ("expiries", "largest", "revisions", "size", "values")

    def __init__(self) -> None:
        """Hold nothing."""
        self.values: dict[bytes, bytes] = {}
        self.revisions: dict[bytes, int] = {}
        self.expiries: dict[bytes, int] = {}
        """Only of keys that expire."""
        self.size = 0
        """Bytes of all keys and values, encoded. Code that fills the dicts itself calls
        ``measure`` afterwards."""
        self.largest = 0
        """More bytes than this no key has ever had together with its value."""

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.values)

    def __iter__(self) -> Iterator[bytes]:
        """Go through the keys."""
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        """Tell whether all entries are equal; their order does not count."""
        if not isinstance(other, Columns):
            return NotImplemented
        return (self.values, self.revisions, self.expiries) == (
            other.values,
            other.revisions,
            other.expiries,
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def entry(self, key: bytes) -> Entry | None:
        """Give the whole entry of a key."""
        value = self.values.get(key)
        if value is None:
            return None
        return Entry(value, self.revisions[key], self.expiries.get(key))

    def set(self, key: bytes, entry: Entry | None) -> None:
        """Set the whole entry of a key; ``None`` removes it."""
        if entry is None:
            self.discard(key)
            return
        before = self.values.get(key)
        self.size += len(entry.value) + (len(key) if before is None else -len(before))
        self.largest = max(self.largest, len(key) + len(entry.value))
        self.values[key] = entry.value
        self.revisions[key] = entry.revision
        self.expire(key, entry.expires_at_ns)

    def put(self, keys: Sequence[bytes], values: Sequence[bytes], first_revision: int) -> None:
        """Set values, each with the next revision; expiries stay as they are."""
        known = self.values
        if len(keys) == 1:  # One waits for its answer, as a rule: what serves runs costs more.
            key, value = keys[0], values[0]
            before = known.get(key)
            self.size += len(value) + (len(key) if before is None else -len(before))
            if (size := len(key) + len(value)) > self.largest:
                self.largest = size
            known[key] = value
            self.revisions[key] = first_revision
            return
        count = len(known)
        key_sizes, value_sizes = [*map(len, keys)], [*map(len, values)]
        self.largest = max(self.largest, max(key_sizes, default=0) + max(value_sizes, default=0))
        replaced = list(map(known.get, keys))
        known.update(zip(keys, values, strict=True))
        last_revision = first_revision + len(keys)
        self.revisions.update(zip(keys, range(first_revision, last_revision), strict=True))
        if len(known) - count == len(keys):  # all are new
            self.size += sum(key_sizes) + sum(value_sizes)
        elif all(replaced) and len(set(keys)) == len(keys):  # none is: a value is never empty
            self.size += sum(value_sizes) - sum(map(len, filter(None, replaced)))
        else:
            self.size += _growth(keys, values, replaced)

    def expire(self, key: bytes, expires_at_ns: int | None) -> None:
        """Set or remove the expiry of a key that is there."""
        if expires_at_ns is not None:
            self.expiries[key] = expires_at_ns
        elif self.expiries:
            self.expiries.pop(key, None)

    def discard(self, key: bytes) -> None:
        """Remove a key, or do nothing if it is missing."""
        before = self.values.pop(key, None)
        if before is not None:
            self.size -= len(key) + len(before)
            del self.revisions[key]
            self.expiries.pop(key, None)

    def measure(self) -> None:
        """Count the bytes anew, after the dicts were filled directly."""
        self.size = sum(map(len, self.values)) + sum(map(len, self.values.values()))
        self.largest = _largest(self.values, self.values.values())

    def note_largest(self, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        """Take note of keys that were filled in directly, with their values."""
        self.largest = max(self.largest, _largest(keys, values))

    def copy(self) -> Columns:
        """Copy the references: a millisecond for 100,000 entries."""
        columns = Columns()
        columns.values = self.values.copy()
        columns.revisions = self.revisions.copy()
        columns.expiries = self.expiries.copy()
        columns.size, columns.largest = self.size, self.largest
        return columns


def _largest(keys: Iterable[bytes], values: Iterable[bytes]) -> int:
    """Give what no key has more bytes than with its value: what the largest ones have together."""
    return max(map(len, keys), default=0) + max(map(len, values), default=0)


def _growth(
    keys: Sequence[bytes], values: Sequence[bytes], replaced: Sequence[bytes | None]
) -> int:
    """Give the bytes that a run adds to what was there: a key may be in it more than once."""
    before = dict(zip(keys, replaced, strict=True))
    after = dict(zip(keys, values, strict=True))
    known = sum(map(len, compress(before, before.values())))
    gone = sum(map(len, filter(None, before.values())))
    return sum(map(len, after)) - known + sum(map(len, after.values())) - gone


@public
class ChangeKind(Enum):
    """What happened to a key (Broker's store events)."""

    INSERT = "insert"
    UPDATE = "update"
    ERASE = "erase"
    EXPIRE = "expire"
    CLEAR = "clear"
    """It went because everything did."""


class Walk(Protocol):
    """Something that reads the table as it was at one moment, a little at a time."""

    def remember(self, keys: Iterable[bytes]) -> None:
        """Take note of what stands under keys that are about to change."""


class Table:
    """The entries of a store and the number of mutations that made them.

    Every mutation raises the revision by one, also one that finds nothing to change: so clones
    know the revision of each action by counting.
    """

    def __init__(self, columns: Columns | None = None, revision: int = 0) -> None:
        """Start with what a backend kept, or with nothing."""
        self.columns = Columns() if columns is None else columns
        self.revision = revision
        self.walk: Walk | None = None
        """What goes through the entries of one moment: it is told of keys before they change."""
        self._index: KeyIndex | None = None

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.columns.values)

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value, or ``None`` if the key is missing."""
        return self.columns.values.get(key)

    def index(self) -> KeyIndex:
        """Give the keys in their order; until it is given up, the table keeps it up to date."""
        index = self._known_index()
        index.catch_up(self.columns.values)
        return index

    def catch_up(self, count: int) -> int:
        """Put so many keys in order, at most, so that ``index`` has less to do; says how many."""
        return self._known_index().catch_up(self.columns.values, count)

    def apply(self, action: Action) -> bool:
        """Carry out what a leader committed; false if it is an answer, and changes nothing."""
        if isinstance(action, PutCommand):
            self.put(action.pairs, action.expiry_ns)
        elif isinstance(action, (EraseCommand, ExpireCommand)):
            self.erase(action.keys)
        elif isinstance(action, BatchResultCommand):
            self.change(action)
        elif isinstance(action, ClearCommand):
            self.clear()
        else:
            return False
        return True

    def put(self, pairs: Sequence[bytes], expires_at_ns: int | None) -> None:
        """Set keys, one mutation each."""
        keys, values = pairs[::2], pairs[1::2]
        if self.walk is not None:
            self.walk.remember(keys)
        if self._index is not None:
            known = self.columns.values
            self._note([key for key in keys if key not in known])
        columns = self.columns
        columns.put(keys, values, self.revision + 1)
        self.revision += len(keys)
        if expires_at_ns is not None or columns.expiries:
            for key in keys:
                columns.expire(key, expires_at_ns)

    def erase(self, keys: Sequence[bytes]) -> None:
        """Remove keys, one mutation each, missing or not."""
        self._prepare(keys)
        for key in keys:
            self.columns.discard(key)
        self.revision += len(keys)

    def clear(self) -> None:
        """Remove everything, as one mutation."""
        self.revision += 1
        self.columns, self._index = Columns(), None
        self.walk = None  # It has the old columns to itself, and goes on.

    def change(self, result: BatchResultCommand) -> None:
        """Do what a batch did, as one mutation."""
        columns, changes = self.columns, result.changes
        self._prepare([change.key for change in changes])
        self.revision += 1
        for change in changes:
            if change.value is None:
                columns.discard(change.key)
                continue
            columns.put((change.key,), (change.value,), self.revision)
            columns.expire(change.key, change.expiry_ns)

    def restore(self, past: Mapping[bytes, Entry | None], revision: int) -> None:
        """Have some keys, and the revision, be as they were; ``None`` stands for a missing key."""
        self._prepare(list(past))
        for key, entry in past.items():
            self.columns.set(key, entry)
        self.revision = revision

    def _known_index(self) -> KeyIndex:
        if self._index is None:
            self._index = KeyIndex(self.columns.values)
        return self._index

    def _prepare(self, keys: Sequence[bytes]) -> None:
        """Have those know that go through the table, or keep its order."""
        if self.walk is not None:
            self.walk.remember(keys)
        if self._index is not None:
            self._note(keys)

    def _note(self, keys: Sequence[bytes]) -> None:
        assert self._index is not None, "there is an index to note it"
        self._index.note(keys)
        if self._index.is_outdated:
            self._index = None
