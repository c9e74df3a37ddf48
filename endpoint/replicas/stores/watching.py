"""Watching a store: what there is, a mark, and then every commit; see ``stores.watches``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.replicas.stores.reading import Entry, decode_entry
from endpoint.replicas.stores.store_part import StorePart
from stores import history, watches
from stores.clone import Clone
from stores.history import ChangeOf
from stores.master import Master
from stores.scanning import make_span
from stores.watches import TAKE_COUNT, Bookmark, Gap, Selection, Watcher
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData, NotAllowed, StoreClosed
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

    def of(self, commit: history.Commit) -> Commit:
        """Decode a commit, unless another watch of the store has done that."""
        known = self._known
        found = known.get(commit.revision)
        if found is not None and found[0] is commit:
            return found[1]
        writer = commit.writer
        endpoint = None if writer is None else writer.entity.endpoint
        shown = Commit(commit.revision, endpoint, tuple(map(_decode, commit.changes)))
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
    if isinstance(keys, (str, bytes)):
        raise InvalidData("keys are several: watch keys=[key] for one of them")
    return frozenset(map(encode, keys))


@public
class Watch(EitherClosing):
    """A watch of a store: ``async for item in store.watch(prefix="job/")``.

    Items are ``Entry`` for what there is, ``Bookmark``, ``Commit`` and ``Gap``. Closing it waits
    for nothing; the ``revision`` at any time is what to resume after, there or elsewhere.
    """

    def __init__(
        self,
        part: StorePart,
        selection: Selection,
        from_revision: int | None,
        decoded: DecodedCommits,
    ) -> None:
        """Use ``Store.watch``."""
        if from_revision is not None:
            from_revision = arguments.number("from_revision", from_revision, least=1)
        self._part = part
        self._runner = part.runner
        self._decoded = decoded
        self._selection = selection
        self._from_revision = from_revision
        self._watcher: Watcher | None = None
        self._core: Master | Clone | None = None
        self._items: deque[watches.Item] = deque()
        self._revision = (from_revision or 1) - 1
        self._is_recalled = False
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

        Raises ``TimeoutError`` then, ``StoreClosed`` when nothing more can come, and
        ``NotAllowed`` when this endpoint may not read the store any more.
        """
        limit = arguments.seconds("timeout", timeout)
        with trio.move_on_after(limit):
            while not self._items:
                await self._find()
            return self._take()
        raise TimeoutError(f"no change within {limit:g} s")

    async def _find(self) -> None:
        """Look for items; wait if there cannot be any yet."""
        runner, part = self._runner, self._part
        runner.check_process()
        if isinstance(runner.error, NotAllowed) and not self._is_closed:
            raise runner.error
        if self._is_closed or runner.error is not None:
            raise StoreClosed("the watch, or its store, is closed")
        if not runner.is_synced:
            await runner.changed.park()
            return
        if self._is_recalling():
            await part.moved.wait()
            return
        watcher = self._find_watcher()
        self._items += watcher.take()
        if self._items:
            return
        if watcher.is_caught_up:
            await part.moved.wait()
        else:
            await trio.lowlevel.checkpoint()

    def _is_recalling(self) -> bool:
        """Have a clone ask its master for what came before its time; true until that is there."""
        if self._watcher is not None or self._from_revision is None or self._runner.is_master:
            return False
        if not self._is_recalled:
            self._is_recalled = True
            self._part.recall(self._from_revision - 1)
        return self._part.is_recalling

    def _find_watcher(self) -> Watcher:
        """Give the watcher; or another one, if the store has another core than before."""
        core, watcher = self._part.core, self._watcher
        if watcher is not None and core is self._core:
            return watcher
        start = self._from_revision
        if watcher is not None and self._runner.is_master and not watcher.is_telling_present:
            start = watcher.revision + 1  # a clone that became the master goes on where it was
        elif watcher is not None:
            self._items.append(Gap(watcher.revision))
            start = None
        self._core, self._watcher = core, Watcher(core, self._selection, start)
        return self._watcher

    def poll(self) -> list[WatchItem]:
        """Take what is there, without waiting."""
        found: list[WatchItem] = []
        while True:
            found += [self._take() for _ in range(len(self._items))]
            if self._is_closed or not self._runner.is_synced or self._is_recalling():
                return found
            watcher = self._find_watcher()
            if watcher.is_caught_up and not self._items:
                return found
            self._items += watcher.take()

    def _take(self) -> WatchItem:
        item = self._items.popleft()
        match item:
            case watches.Present(key, entry):
                return decode_entry(key, entry)
            case history.Commit(revision):
                self._revision = revision
                return self._decoded.of(item)
            case Bookmark(revision):
                self._revision = revision
                return item
            case Gap():
                return item

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


def _decode(change: history.KeyChange) -> Change:
    entry = None if change.entry is None else decode_entry(change.key, change.entry)
    return Change(change.kind, decode(change.key), entry)
