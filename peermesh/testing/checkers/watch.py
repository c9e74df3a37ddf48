"""``watch``: the six guarantees that etcd gives its watchers, one function each.

Needs ``Commit`` observations of the master, and ``WatchBegun``, ``Watched`` and ``Bookmark`` of the
watchers. A watch has a name; if one begins again under its name, it was resumed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from peermesh.testing.checkers.verdict import Verdict, broken, held
from peermesh.testing.history import History
from peermesh.testing.observations import Bookmark, Commit, WatchBegun, Watched
from wire.encoding import encode

_Place: TypeAlias = tuple[int, bytes]
"""A revision and a key: what a change is known by."""


@dataclass(slots=True)
class _Part:
    """What a watch told between a beginning and the next, or the end."""

    watch: str
    begun: WatchBegun
    told: list[Watched | Bookmark] = field(default_factory=list)

    def changes(self) -> list[Watched]:
        """Give the changes without the bookmarks."""
        return [each for each in self.told if isinstance(each, Watched)]


def ordered(history: History) -> Verdict:
    """Changes come in the order of their revisions."""
    for part in _parts(history):
        revision, before = part.begun.revision, None
        for change in part.changes():
            if change.revision < revision:
                return broken("ordered", "a change comes after a later one", [before, change])
            revision, before = change.revision, change
    return held("ordered", "every watch tells of changes in their order")


def unique(history: History) -> Verdict:
    """No watch tells of a change twice, also when it was resumed."""
    told: dict[tuple[str, int, bytes], Watched] = {}
    for part in _parts(history):
        for change in part.changes():
            place = (part.watch, change.revision, encode(change.key))
            if place in told:
                return broken("unique", "a change is told twice", [told[place], change])
            told[place] = change
    return held("unique", f"{len(told)} changes were told once each")


def reliable(history: History) -> Verdict:
    """No change is left out, and none told that was not committed so.

    Between the first revision that a watch owes and the last that it told of, it has told of all.
    """
    commits = _Commits(history)
    for part in _parts(history):
        changes = part.changes()
        for change in changes:
            commit = commits.by_place.get(_place(change))
            if commit is None or not _is_same(change, commit):
                text = "a change is told that was not committed so"
                return broken("reliable", text, [change, *([commit] if commit else [])])
        if changes:
            # The last revision may be told in part, if it is the last list: see atomic.
            last = max(change.revision for change in changes) - 1
            missing = commits.missing(part.begun.revision, last, set(map(_place, changes)))
            if missing is not None:
                text = f"{part.watch} tells of a later change, and not of this one"
                return broken("reliable", text, [part.begun, missing, changes[-1]])
    return held("reliable", f"{len(commits.by_place)} changes: what was told has no holes")


def atomic(history: History) -> Verdict:
    """Changes with one revision come in one list, and all of them."""
    sizes = Counter(revision for revision, _ in _Commits(history).by_place)
    for part in _parts(history):
        lists: dict[int, list[Watched]] = {}
        for change in part.changes():
            lists.setdefault(change.revision, []).append(change)
        for revision, changes in lists.items():
            if len({change.delivery for change in changes}) > 1:
                return broken("atomic", "one mutation is told in several lists", changes)
            if len({encode(change.key) for change in changes}) < sizes[revision]:
                return broken("atomic", f"only a part of mutation {revision} is told", changes)
    return held("atomic", f"{len(sizes)} mutations were told as a whole")


def resumable(history: History) -> Verdict:
    """A watch that begins again goes on after what it has told, without a hole or a repetition."""
    latest: dict[str, _Part] = {}
    commits = _Commits(history)
    for part in _parts(history):
        before = latest.get(part.watch)
        first = min((change.revision for change in part.changes()), default=None)
        if first is not None and first <= part.begun.revision:
            text = "it tells of a change that is not after where it was resumed"
            return broken("resumable", text, [part.begun, part.changes()[0]])
        if before is not None and first is not None:
            told = set(map(_place, part.changes()))
            missing = commits.missing(part.begun.revision, first, told)
            if missing is not None:
                text = f"{part.watch} leaves out a change after it was resumed"
                return broken("resumable", text, [part.begun, missing, part.changes()[0]])
        latest[part.watch] = part
    return held("resumable", "watches went on where they were resumed")


def bookmarkable(history: History) -> Verdict:
    """Before a bookmark, everything up to its revision has been told, and nothing such after."""
    commits = _Commits(history)
    for part in _parts(history):
        verdict = _check_bookmarks(part, commits)
        if verdict is not None:
            return verdict
    return held("bookmarkable", "bookmarks were true")


def _check_bookmarks(part: _Part, commits: _Commits) -> Verdict | None:
    marked = part.begun.revision
    told: set[_Place] = set()
    for each in part.told:
        if isinstance(each, Watched):
            told.add(_place(each))
            if each.revision <= marked:
                text = f"a change comes after a bookmark of revision {marked}"
                return broken("bookmarkable", text, [each])
            continue
        missing = commits.missing(marked, each.revision, told)
        if missing is not None:
            text = "a bookmark passes a change that was not told"
            return broken("bookmarkable", text, [missing, each])
        marked = max(marked, each.revision)
    return None


GUARANTEES: Final[Mapping[str, Callable[[History], Verdict]]] = {
    "ordered": ordered,
    "unique": unique,
    "reliable": reliable,
    "atomic": atomic,
    "resumable": resumable,
    "bookmarkable": bookmarkable,
}
"""Each guarantee, by etcd's name for it."""


def watch(history: History) -> Verdict:
    """Tell whether all six guarantees hold; if not, the text names the first that does not."""
    for check in GUARANTEES.values():
        verdict = check(history)
        if not verdict:
            return broken("watch", f"{verdict.promise}: {verdict.text}", verdict.witness)
    count = sum(1 for _ in history.seen(Watched))
    return held("watch", f"{count} changes, and all six guarantees hold")


def _parts(history: History) -> Iterator[_Part]:
    """Give the parts of all watches. What is told before any beginning owes everything."""
    parts: dict[str, _Part] = {}
    done: list[_Part] = []
    for _, _, seen in history.seen(WatchBegun, Watched, Bookmark):
        if isinstance(seen, WatchBegun) or seen.watch not in parts:
            begun = seen if isinstance(seen, WatchBegun) else WatchBegun(seen.watch, 0)
            parts[seen.watch] = _Part(seen.watch, begun)
            done.append(parts[seen.watch])
        if not isinstance(seen, WatchBegun):
            parts[seen.watch].told.append(seen)
    yield from done


class _Commits:
    """What the master has committed."""

    def __init__(self, history: History) -> None:
        self.by_place = {_place(commit): commit for _, _, commit in history.seen(Commit)}
        self._sorted = sorted(self.by_place.values(), key=lambda commit: commit.revision)

    def missing(self, after: int, until: int, told: set[_Place]) -> Commit | None:
        """Give the first change of some revisions that is not among those that were told."""
        first = bisect_right(self._sorted, after, key=lambda commit: commit.revision)
        last = bisect_right(self._sorted, until, key=lambda commit: commit.revision)
        owed = self._sorted[first:last]
        return next((commit for commit in owed if _place(commit) not in told), None)


def _place(change: Commit | Watched) -> _Place:
    return change.revision, encode(change.key)


def _is_same(change: Watched, commit: Commit) -> bool:
    is_named = bool(change.kind and commit.kind)
    return tuple(map(encode, change.after)) == tuple(map(encode, commit.after)) and (
        not is_named or change.kind == commit.kind
    )
