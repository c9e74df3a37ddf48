"""A table that runs ahead of what is committed, and what its readers see instead.

A leader judges a request against all that it has appended. So staged actions can be done in the
table at once; what stood under their keys is kept aside, for readers and for an undo. Most writes
are judged without a look at the table: their actions wait in a queue, and are done once, when they
are committed, as at a follower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from stores.actions import (
    Action,
    BatchResultCommand,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
)
from stores.group.terms import FORCED_TERMS
from stores.table.rows import Rows, rows_of
from stores.table.table import Columns, Entry, Table

Past = dict[bytes, Entry | None]
"""What readers see under a key instead of what the table has; ``None`` if nothing."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Raises the revision, and changes nothing."""

    count: int


SKIP_MIN: Final = 1 << 32
"""More revisions than a lost history can have: none of them ever comes again."""

SKIP_PER_TERM: Final = 1 << 8
"""Revisions for each term of a stretch, whose first one is drawn: two leads that were taken by
force from one state do not have the same revisions, either. All in all it is less than 2^41, so
that millions of leads by force fit in what revisions there are."""


def skip_of(term: int) -> Skip:
    """Give by how much the revision is raised where a term begins a lead by force."""
    return Skip(SKIP_MIN + term % FORCED_TERMS * SKIP_PER_TERM)


Change = Action | Skip
"""What can be staged and committed."""


def keys_of(action: Change) -> Sequence[bytes]:
    """Give the keys that an action names, present or not. A clear names none."""
    if isinstance(action, PutCommand):
        return action.pairs[::2]
    if isinstance(action, BatchResultCommand):
        return [change.key for change in action.changes]
    return action.keys if isinstance(action, (EraseCommand, ExpireCommand)) else ()


def mutation_count(action: Change) -> int:
    """Give by how much an action raises the revision."""
    if isinstance(action, PutCommand):
        return len(action.pairs) // 2
    match action:
        case Skip(count):
            return count
        case EraseCommand() | ExpireCommand():
            return len(action.keys)
        case BatchResultCommand() | ClearCommand():
            return 1
        case _:
            return 0


@dataclass(slots=True)
class Layer:
    """A table up to the next clear, which begins another one and leaves this as it is."""

    table: Table
    past: Past = field(default_factory=dict)
    latest: dict[bytes, int] = field(default_factory=dict)
    """The number of the last staged action that changes a key; of those in ``past``."""

    def entry(self, key: bytes) -> Entry | None:
        """Give what readers see under a key."""
        return self.past[key] if key in self.past else self.table.columns.entry(key)

    def __iter__(self) -> Iterator[bytes]:
        """Go through the keys that readers see."""
        if not self.past:
            return iter(self.table.columns.values)
        return self._mixed()

    def _mixed(self) -> Iterator[bytes]:
        past = self.past
        yield from (key for key in self.table.columns.values if key not in past)
        yield from (key for key, entry in past.items() if entry is not None)

    def hidden_keys(self) -> list[bytes]:
        """Give the keys that are there, and that the table has no more."""
        values = self.table.columns.values
        return [key for key, entry in self.past.items() if entry is not None and key not in values]

    def keys(self) -> tuple[bytes, ...]:
        """Give the keys that are there, and more: eight milliseconds for a million of them."""
        return (*self.table.columns.values, *self.hidden_keys())


class Overlay:
    """The committed state of a table, below what is staged."""

    def __init__(self, table: Table) -> None:
        """Take a table in which all is committed."""
        self.revision = table.revision
        """How many mutations made what readers see."""
        self._layers = deque([Layer(table)])
        self._done: deque[tuple[Change, Sequence[bytes]]] = deque()
        """With the keys that each changes."""
        self._done_count = 0
        self._queue: deque[tuple[Change, int, int]] = deque()
        """With the entries and bytes that each may add."""
        self._queued_entries = self._queued_size = 0

    # -- what is committed -----------------------------------------------------------------------

    @property
    def committed(self) -> Table:
        """The table in which readers look; ``past`` goes before it."""
        return self._layers[0].table

    @property
    def shown(self) -> Layer:
        """What readers see, until a clear is committed, or the whole state goes."""
        return self._layers[0]

    @property
    def past(self) -> Mapping[bytes, Entry | None]:
        """What readers see instead, under keys that staged actions have changed."""
        return self._layers[0].past

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value of a key, or ``None`` if it is missing."""
        layer = self._layers[0]
        if key in layer.past:
            entry = layer.past[key]
            return None if entry is None else entry.value
        return layer.table.columns.values.get(key)

    def entry(self, key: bytes) -> Entry | None:
        """Give the whole entry of a key."""
        return self._layers[0].entry(key)

    def revisions(self, keys: Sequence[bytes]) -> Iterable[int | None]:
        """Give which mutation set each key, or ``None`` where it is missing."""
        layer = self._layers[0]
        past, known = layer.past, layer.table.columns.revisions
        if not past:
            return map(known.get, keys)
        found: list[int | None] = []
        for key in keys:
            if key in past:
                entry = past[key]
                found.append(None if entry is None else entry.revision)
            else:
                found.append(known.get(key))
        return found

    def rows(self, keys: Iterable[bytes]) -> Rows:
        """Give the entries of those keys that are there, in the order of the keys."""
        layer = self._layers[0]
        return rows_of(layer.table.columns, keys, layer.past)

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is there."""
        layer = self._layers[0]
        if key in layer.past:
            return layer.past[key] is not None
        return key in layer.table.columns.values

    def __iter__(self) -> Iterator[bytes]:
        """Go through the keys."""
        return iter(self._layers[0])

    def __len__(self) -> int:
        """Count the entries."""
        layer = self._layers[0]
        values = layer.table.columns.values
        more = sum((entry is not None) - (key in values) for key, entry in layer.past.items())
        return len(values) + more

    def hidden_keys(self) -> list[bytes]:
        """Give the keys that are there, and that the table has no more."""
        return self._layers[0].hidden_keys()

    def copy(self) -> Columns:
        """Copy what readers see."""
        columns = self.committed.columns.copy()
        for key, entry in self.past.items():
            columns.set(key, entry)
        return columns

    # -- what is staged --------------------------------------------------------------------------

    @property
    def has_clear(self) -> bool:
        """True if a clear is staged, and done in the table."""
        return len(self._layers) > 1

    @property
    def size_bound(self) -> tuple[int, int]:
        """Entries and bytes of the latest state, at most; what waits in the queue counts fully."""
        columns = self._layers[-1].table.columns
        return len(columns) + self._queued_entries, columns.size + self._queued_size

    def stage(self, actions: Iterable[Change]) -> None:
        """Add what is to be done after all before it."""
        for action in actions:
            entries, size = _growth(action)
            self._queue.append((action, entries, size))
            self._queued_entries += entries
            self._queued_size += size

    @property
    def unfinished(self) -> Table:
        """The table without what waits in the queue: for a judge that does not look into it."""
        return self._layers[-1].table

    def latest(self) -> Table:
        """Do all that is staged in the table, and give it."""
        while self._queue:
            self._do(self._queue.popleft()[0])
        self._queued_entries = self._queued_size = 0
        return self._layers[-1].table

    def do(self, actions: Iterable[Change]) -> None:
        """Stage what was judged by ``latest``, and do it in the table."""
        for action in actions:
            self._do(action)

    def undo(self) -> list[bytes]:
        """Take back all that is staged; gives keys whose appointments may have been missed."""
        layer = self._layers[0]
        expired = [one.keys for one, _, _ in self._queue if isinstance(one, ExpireCommand)]
        keys = [*layer.past, *(key for keys in expired for key in keys)]
        if self._done:
            layer.table.restore(layer.past, self.revision)
        layer.past.clear()
        layer.latest.clear()
        self._layers = deque([layer])
        self._done.clear()
        self._queue.clear()
        self._queued_entries = self._queued_size = 0
        return keys

    # -- commits ---------------------------------------------------------------------------------

    def commit(self, action: Change) -> None:
        """Show readers the next action. If anything is staged, this is the first of it."""
        if self._done:
            staged, keys = self._done.popleft()
            assert staged is action or staged == action, (staged, action)
            self._settle(action, keys)
            self.revision += mutation_count(action)
            return
        if self._queue:
            staged, entries, size = self._queue.popleft()
            assert staged is action or staged == action, (staged, action)
            self._queued_entries -= entries
            self._queued_size -= size
        layer = self._layers[0]
        table = layer.table
        if isinstance(action, PutCommand):
            table.put(action.pairs, action.expiry_ns)
        elif isinstance(action, ClearCommand):
            # The old table stays as it is, for those that read an earlier revision.
            table = Table(revision=self.revision + 1)
            self._layers = deque([Layer(table)])
        elif isinstance(action, Skip):
            table.revision += action.count
        else:
            table.apply(action)
        self.revision = table.revision

    # -- steps -----------------------------------------------------------------------------------

    def _do(self, action: Change) -> None:
        """Do a staged action in the table, and keep what readers see."""
        self._done_count = number = self._done_count + 1
        layer, keys = self._layers[-1], keys_of(action)
        self._done.append((action, keys))
        table = layer.table
        if isinstance(action, ClearCommand):
            self._layers.append(Layer(Table(revision=table.revision + 1)))
            return
        past, latest, columns = layer.past, layer.latest, table.columns
        for key in keys:
            latest[key] = number
            if key not in past:
                past[key] = columns.entry(key)
        _apply(action, table)

    def _settle(self, action: Change, keys: Sequence[bytes]) -> None:
        """Have readers see an action that is done in the table already."""
        layer = self._layers[0]
        if isinstance(action, ClearCommand):
            self._layers.popleft()
            return
        if not self._done:
            layer.past.clear()
            layer.latest.clear()
            return
        number, past, latest = self._done_count - len(self._done), layer.past, layer.latest
        later: set[bytes] = set()
        for key in keys:
            if latest.get(key) == number:
                del past[key], latest[key]
            elif key in past:  # A key may be in it twice.
                later.add(key)
        if later:
            made = entries_of(action, self.revision)
            past.update((key, entry) for key, entry in made if key in later)


def _apply(action: Change, table: Table) -> None:
    if isinstance(action, Skip):
        table.revision += action.count
    else:
        table.apply(action)


def _growth(action: Change) -> tuple[int, int]:
    """Give how many entries and bytes an action may add, at most."""
    if isinstance(action, PutCommand):
        return len(action.pairs) // 2, sum(map(len, action.pairs))
    if isinstance(action, BatchResultCommand):
        changes = action.changes
        return len(changes), sum(len(one.key) + len(one.value or b"") for one in changes)
    return 0, 0


def entries_of(action: Change, revision: int) -> Iterator[tuple[bytes, Entry | None]]:
    """Give what an action leaves under its keys, in order; ``revision`` is the one before it."""
    match action:
        case PutCommand(_, _, expires_at_ns, pairs):
            for number, key in enumerate(pairs[::2]):
                yield key, Entry(pairs[2 * number + 1], revision + 1 + number, expires_at_ns)
        case BatchResultCommand(_, _, _, changes):
            for change in changes:
                entry = None
                if change.value is not None:
                    entry = Entry(change.value, revision + 1, change.expiry_ns)
                yield change.key, entry
        case _:
            for key in keys_of(action):
                yield key, None
