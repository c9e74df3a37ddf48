"""Watching a store: what there is, a mark, and then every commit; see ``stores.watches``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.replicas.stores.part import TablePart
from endpoint.replicas.stores.reading import Entry, decode_entry
from stores import history, watches
from stores.history import ChangeOf
from stores.scanning import make_span
from stores.watches import TAKE_COUNT, Bookmark, Gap, Selection, Source, Watcher
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData, NotAllowed, RequestTimeout, StoreClosed
from wire.identifiers import EndpointId
from wire.public import public
from wire.values import Value

DECODED_COUNT: Final = 2 * TAKE_COUNT
"""Commits kept decoded for the other watches of a store: what each takes at a time, and they take
turns."""


@public
@dataclass(frozen=True, slots=True)
class Change:
    """What became of one key."""

    kind: ChangeOf
    key: Value
    entry: Entry | None
    """What is stored now; ``None`` if the key is gone."""


@public
@dataclass(frozen=True, slots=True)
class Commit:
    """All that one mutation changed of the keys that are watched."""

    revision: int
    writer: EndpointId | None
    """The endpoint whose handle asked for it; ``None`` for an expiry."""
    changes: tuple[Change, ...]


class DecodedCommits:
    """Commits that watches of a store have decoded, for the others."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[int, tuple[history.Commit, Commit]] = {}

    def of(self, commit: history.Commit, epoch_ns: int) -> Commit:
        """Decode a commit, unless another watch of the store has done that."""
        known = self._known
        found = known.get(commit.revision)
        if found is not None and found[0] is commit:
            return found[1]
        writer = commit.writer
        endpoint = None if writer is None else writer.entity.endpoint
        shown = Commit(
            commit.revision, endpoint, tuple(_decode(each, epoch_ns) for each in commit.changes)
        )
        known[commit.revision] = (commit, shown)
        if len(known) > DECODED_COUNT:
            del known[next(iter(known))]
        return shown


WatchItem = Entry | Bookmark | Gap | Commit
"""What a watch gives: entries that are there, a mark, and then commits, and marks from time to
time. After a gap it begins anew with the entries that are there."""


def selection_of(prefix: Value, keys: Iterable[Value] | None) -> Selection:
    """Make a selection of the user's own values; raises ``InvalidData`` for both at once."""
    if keys is None:
        return make_span(prefix=None if prefix is None else encode(prefix))
    if prefix is not None:
        raise InvalidData("watch a prefix, or some keys: not both at once")
    return frozenset(map(encode, arguments.several("keys", keys)))


def start_of(from_revision: int | None, after: Bookmark | None) -> int | Bookmark | None:
    """Say where a watch begins; raises ``InvalidData`` for two answers at once."""
    if after is None:
        return from_revision
    if from_revision is not None:
        raise InvalidData("give from_revision, or after: not both at once")
    if not isinstance(after, Bookmark):
        raise InvalidData(f"after={after!r:.60}: give a Bookmark that a watch gave")
    return after


@public
class Watch(EitherClosing):
    """A watch of a store: ``async for item in store.watch(prefix="job/")``.

    Items are ``Entry`` for what there is, ``Bookmark``, ``Commit`` and ``Gap``. Closing it waits
    for nothing; the ``revision`` at any time is what to resume after, there or elsewhere.
    """

    def __init__(
        self,
        part: TablePart,
        selection: Selection,
        start: int | Bookmark | None,
        decoded: DecodedCommits,
    ) -> None:
        """Use ``Store.watch``."""
        from_revision = None
        if isinstance(start, Bookmark):
            from_revision = start.revision + 1
        elif start is not None:
            from_revision = arguments.number("from_revision", start, least=1)
        self._after = start if isinstance(start, Bookmark) else None
        self._part = part
        self._runner = part.runner
        self._decoded = decoded
        self._selection = selection
        self._from_revision = from_revision
        self._watcher: Watcher | None = None
        self._core: Source | None = None
        self._items: deque[watches.Item | WatchItem] = deque()
        """What the watcher told, and before that items that were given back."""
        self._revision = self._before = (from_revision or 1) - 1
        """What was given now, and before what was taken last."""
        self._is_closed = False

    @property
    def revision(self) -> int:
        """Everything up to it was given: ``watch(…, from_revision=revision + 1)`` goes on there.

        While what there is is being given, it is the revision of before.
        """
        return self._revision

    def __repr__(self) -> str:
        """Show the store, and up to which revision everything was given."""
        state = "closed" if self._is_closed else f"revision={self._revision}"
        return f"<Watch of {self._runner.name} {state}>"

    async def get(self, timeout: Seconds = None) -> WatchItem:
        """Wait for the next item, for ``timeout`` seconds at most.

        Raises ``RequestTimeout`` then, ``StoreClosed`` when nothing more can come, and
        ``NotAllowed`` when this endpoint may not read the store any more.
        """
        limit = arguments.seconds("timeout", timeout)
        if await self.await_ready(limit):
            return self.take()
        raise self.late(limit)

    def late(self, limit: float) -> RequestTimeout:
        """Say that nothing came within so many seconds; for a front end."""
        return RequestTimeout(f"{self._runner.what}: no change within {limit:g} s")

    def is_ready(self) -> bool:
        """Tell whether there is something to take; for a front end."""
        return bool(self._items)

    async def await_ready(self, limit: float) -> bool:
        """Wait until there is something to take; false after so many seconds; for a front end."""
        if self._items:
            return True  # A limit costs several times as much as what is there already.
        with trio.move_on_after(limit):
            while not self._items:
                await self._find()
        return bool(self._items)

    async def _find(self) -> None:
        """Look for items; wait if there cannot be any yet."""
        runner, part = self._runner, self._part
        runner.check_process()
        if isinstance(runner.error, NotAllowed) and not self._is_closed:
            raise runner.error
        if self._is_closed or runner.error is not None:
            raise runner.closed("watch")
        if not runner.is_synced:
            await runner.changed.park()
            return
        watcher = self._find_watcher()
        if watcher is None:
            await part.moved.wait()
            return
        self._items += watcher.take()
        if self._items:
            if len(self._items) >= TAKE_COUNT:
                # Others take the same ones next, while they are kept decoded.
                await trio.lowlevel.cancel_shielded_checkpoint()
            return
        if watcher.is_caught_up:
            await part.moved.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _find_watcher(self) -> Watcher | None:
        """Give the watcher; or another one, if the store has another core than before.

        ``None`` if this copy is not as far yet as the bookmark after which the watch begins.
        """
        core, watcher = self._part.table, self._watcher
        if watcher is not None and core is self._core:
            return watcher
        if watcher is None and self._after is not None:
            self._core = core
            if self._after.group in (None, self._part.core.group):
                self._watcher = core.watch(self._selection, self._after)
            else:
                begin = self._after.revision + 1
                self._watcher = Watcher(core, self._selection, begin, watches.ANOTHER)
            return self._watcher
        start = self._from_revision
        if watcher is not None and self._runner.is_master and not watcher.is_telling_present:
            start = watcher.revision + 1  # a clone that became the master goes on where it was
        elif watcher is not None:
            self._items.append(Gap(watcher.revision))
            start = None
        elif start is not None and self._runner.is_master and start - 1 > core.revision:
            # No mutation has that number yet: it is of another history.
            self._items.append(Gap(start - 1))
            start = None
        self._core, self._watcher = core, Watcher(core, self._selection, start)
        return self._watcher

    def poll(self) -> list[WatchItem]:
        """Take what is there, without waiting."""
        found: list[WatchItem] = []
        self._before = self._revision
        while True:
            found += [self._take() for _ in range(len(self._items))]
            if self._is_closed or not self._runner.is_synced:
                return found
            watcher = self._find_watcher()
            if watcher is None or (watcher.is_caught_up and not self._items):
                return found
            self._items += watcher.take()

    def take(self) -> WatchItem:
        """Take the next item, which is there; for a front end."""
        self._before = self._revision
        return self._take()

    def _take(self) -> WatchItem:
        item = self._items.popleft()
        match item:
            case watches.Present(key, entry):
                return decode_entry(key, entry, self._part.core.epoch_ns)
            case history.Commit(revision):
                self._revision = revision
                return self._decoded.of(item, self._part.core.epoch_ns)
            case Bookmark(revision):
                self._revision = revision
                return replace(item, group=item.group or self._part.core.group)
            case Commit(revision):
                self._revision = revision
                return item
            case Entry() | Gap():
                return item

    def give_back(self, items: Sequence[WatchItem]) -> None:
        """Have what was taken, and reached no reader, come next; for a front end."""
        if not self._is_closed:
            self._items.extendleft(reversed(items))
            revisions = (each.revision - 1 for each in items if isinstance(each, Commit))
            self._revision = min((self._before, *revisions))
            self._part.moved.wake()

    def close(self) -> None:
        """Watch no longer; a task that waits for an item gets ``StoreClosed``."""
        self._is_closed = True
        self._items.clear()
        self._runner.changed.unpark_all()
        self._part.moved.wake()

    def __aiter__(self) -> Self:
        """Iterate until the watch or the store is closed."""
        return self

    async def __anext__(self) -> WatchItem:
        """Wait for the next item."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


def _decode(change: history.KeyChange, epoch_ns: int) -> Change:
    entry = None if change.entry is None else decode_entry(change.key, change.entry, epoch_ns)
    return Change(change.kind, decode(change.key), entry)
