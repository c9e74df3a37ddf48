"""A watch of a store: what there is, a mark, and then every commit, without a lie.

It keeps no queue of its own: it reads on in the history of its master or clone, from the revision
that it has got to. So fifty watches cost no more memory than one, closing one waits for nothing,
and a slow reader does not hold up the rest. What it promises is what etcd's watch does:

- ordered: revisions never go down;
- unique: no commit comes twice;
- reliable: between two marks no commit to the watched keys is left out;
- atomic: all changes of a commit come together, or none;
- resumable: a watch from the revision after the last one seen goes on as if it had never ended;
- bookmarkable: a mark says that everything up to its revision has come.

When the history does not reach back far enough, or a clone had to load its master's state anew, the
watch says so: a gap, and then again what there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol

from stores.group.positions import Position
from stores.history import Commit, History
from stores.scanning import PAGE_COUNT_MAX, Page, Span
from stores.table import Columns, Entry
from wire.public import public

TAKE_COUNT: Final = 256
"""Items given at once: half a millisecond's work, so that other readers have their turn."""

LOOK_COUNT: Final = 4_096
"""Commits looked at at once, most of which may be to other keys: a few milliseconds' work."""

MARK_INTERVAL: Final = 1_000
"""Revisions without a change of the watched keys after which a mark comes: a watch that resumes
there reads no more than these again."""

BEHIND: Final = "what happened since is kept no more"
"""Why most gaps are: a reader that was away, or too slow."""

ANOTHER: Final = "another store began under the name"
"""Why a watch cannot go on after a bookmark of the store that was there before."""

Selection = Span | frozenset[bytes]
"""Which keys are watched: a stretch of their order, or some of them."""


@dataclass(frozen=True, slots=True)
class Present:
    """A key that is there when the watch begins, or begins anew."""

    key: bytes
    entry: Entry


@public
@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to this revision has come."""

    revision: int
    position: Position | None = None
    """The journal entry that made it; ``None`` outside of replica groups."""
    group: bytes | None = None
    """The group that it is of: one that begins anew has other entries under the same positions."""


@public
@dataclass(frozen=True, slots=True)
class Gap:
    """What happened after one revision is not known any more: forget what was watched.

    What there is follows, up to the next mark.
    """

    after: int
    reason: str = BEHIND


Item = Present | Bookmark | Gap | Commit


class Source(Protocol):
    """The master or clone that is watched."""

    history: History

    @property
    def position(self) -> Position | None:
        """The journal entry that did so last; ``None`` outside of replica groups."""

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""

    def entry(self, key: bytes) -> Entry | None:
        """Give the whole entry of a key."""

    def scan(self, span: Span, limit: int) -> Page:
        """Give the first entries of a span."""

    def snapshot(self) -> Columns:
        """Copy what readers see."""


class Watcher:
    """One watch: where it is, and what comes next."""

    def __init__(
        self,
        source: Source,
        selection: Selection,
        from_revision: int | None,
        lost: str | None = None,
    ) -> None:
        """Start with what there is; or with the first commit that has at least this revision.

        ``lost`` says why that commit is not to be had here: then the watch begins with a gap.
        """
        self.revision = 0 if from_revision is None else from_revision - 1
        """Everything up to it has been given."""
        self._source = source
        self._selection = selection
        self._is_of_everything = isinstance(selection, Span) and selection.is_everything
        self._generation = source.history.generation
        self._present: Iterator[tuple[bytes, Entry]] | None = None
        self._present_revision = 0
        self._present_position: Position | None = None
        self._lost = lost
        self._is_begun = from_revision is not None
        self._is_marked = False
        self._told_revision = self.revision

    def __repr__(self) -> str:
        """Show in one line what matters when something hangs."""
        state = "what there is" if self._present is not None else "what happens"
        return f"<Watcher at {self.revision}, telling {state}>"

    @property
    def is_telling_present(self) -> bool:
        """True while what there is is being told, before the mark."""
        return not self._is_begun or self._present is not None

    @property
    def is_caught_up(self) -> bool:
        """True if nothing can come before the store's revision changes."""
        revision = self._source.revision
        if self.is_telling_present or self._is_behind():
            return False
        return self.revision > revision or (self._is_marked and self.revision == revision)

    def take(self) -> list[Item]:
        """Give what comes next, a little at a time; nothing if nothing was found yet."""
        # A master that is asked takes in what its handle has gathered: it does so only now.
        revision = self._source.revision
        items: list[Item] = []
        if not self._is_begun:
            self._begin()
        elif self._is_behind():
            items.append(Gap(self.revision, self._lost or BEHIND))
            self._lost = None
            self._begin()
        if self._present is not None:
            self._take_present(self._present, items)
        else:
            self._take_commits(revision, items)
        return items

    # -- steps -----------------------------------------------------------------------------------

    def _is_behind(self) -> bool:
        history = self._source.history
        if self._lost is not None or history.generation != self._generation:
            return True
        # What there is was copied, and can be told to its end however long that takes.
        return self._present is None and self.revision < history.floor

    def _begin(self) -> None:
        source = self._source
        self._is_begun, self._is_marked = True, False
        self._generation = source.history.generation
        self._present_revision, self._present_position = source.revision, source.position
        self._present = iter(_entries(source, self._selection))

    def _take_present(self, present: Iterator[tuple[bytes, Entry]], items: list[Item]) -> None:
        found = list(islice(present, TAKE_COUNT))
        items += [Present(key, entry) for key, entry in found]
        if len(found) < TAKE_COUNT:
            self._present = None
            self._mark(self._present_revision, self._present_position, items)

    def _take_commits(self, until: int, items: list[Item]) -> None:
        if until < self.revision:
            return  # a clone that is not as far as whoever was watched before
        commits = self._source.history.commits(self.revision, until)
        for looked, commit in enumerate(commits, start=1):
            self.revision = commit.revision
            if (chosen := self._chosen(commit)) is not None:
                items.append(chosen)
                self._told_revision = commit.revision
            if looked == LOOK_COUNT or len(items) == TAKE_COUNT:
                return
        self.revision = until
        if not self._is_marked or until - self._told_revision >= MARK_INTERVAL:
            self._mark(until, self._source.position, items)

    def _mark(self, revision: int, position: Position | None, items: list[Item]) -> None:
        self.revision = self._told_revision = revision
        self._is_marked = True
        items.append(Bookmark(revision, position))

    def _chosen(self, commit: Commit) -> Commit | None:
        if self._is_of_everything:
            return commit
        selection = self._selection
        changes = tuple(change for change in commit.changes if change.key in selection)
        if len(changes) == len(commit.changes):
            return commit
        return replace(commit, changes=changes) if changes else None


def _entries(source: Source, selection: Selection) -> Iterable[tuple[bytes, Entry]]:
    """Give what there is now; what is read of it later is as of now, too."""
    if not isinstance(selection, Span):
        return _some(source, selection)
    if selection.is_everything:
        return _all(source.snapshot())
    return _pages(source, selection)


def _all(columns: Columns) -> Iterator[tuple[bytes, Entry]]:
    for key in columns:
        entry = columns.entry(key)
        assert entry is not None, "the copy is ours alone"
        yield key, entry


def _some(source: Source, keys: Collection[bytes]) -> list[tuple[bytes, Entry]]:
    found = [(key, source.entry(key)) for key in sorted(keys)]
    return [(key, entry) for key, entry in found if entry is not None]


def _pages(source: Source, span: Span) -> Iterable[tuple[bytes, Entry]]:
    entries: deque[tuple[bytes, Entry]] = deque()
    while True:
        page = source.scan(span, PAGE_COUNT_MAX)
        entries += page.entries
        if page.continuation is None:
            return entries
        span = span.after(page.continuation)
