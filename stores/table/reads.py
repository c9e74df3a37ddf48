"""What readers of one member see: what is committed and applied there, and nothing else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from stores.actions import WriterId
from stores.group.positions import Position
from stores.history import History
from stores.outcomes import Outcome
from stores.persistence import Census
from stores.scanning import LATEST, Page, Span, scan
from stores.table.lineage import Lineage, Standing
from stores.table.overlay import Overlay
from stores.table.pins import Pins
from stores.table.rows import Rows
from stores.table.table import Columns, Entry
from stores.table.writers import Writers
from stores.watches import Bookmark, Selection, Watcher


class AppliedReads:
    """The reads of a member. Which moment they are of is for the group: see ``Member.read``."""

    history: History
    """The latest committed mutations, for watches."""
    _overlay: Overlay
    _lineage: Lineage
    _pins: Pins
    _writers: Writers

    @property
    def position(self) -> Position:
        """The last entry that is applied."""
        return self._lineage.position

    def position_of(self, revision: int) -> Position | None:
        """Give the entry that made a revision, to fence with; ``None`` if it is kept no more."""
        return self.history.position_of(revision)

    @property
    def revision(self) -> int:
        """How many mutations made what readers see."""
        return self._overlay.revision

    @property
    def size(self) -> int:
        """Bytes of the keys and values, with what is staged."""
        return self._overlay.committed.columns.size

    def outcomes_of(self, writer: WriterId, number: int, first: int) -> Sequence[Outcome]:
        """Give what became of a registered writer's requests from ``first`` on that are applied."""
        return self._writers.outcomes_of(writer, number, first)

    @property
    def used(self) -> tuple[int, int]:
        """Entries, and the bytes of their keys and values, as the quota counts them."""
        return len(self), self.size

    @property
    def memory_size(self) -> int:
        """Bytes of keys and values: all of them are in memory."""
        return self.size

    @property
    def is_blank(self) -> bool:
        """True before the first mutation."""
        return not self.revision

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._overlay)

    def get(self, key: bytes) -> bytes | None:
        """Give the encoded value of an encoded key, or ``None`` if the key is missing."""
        return self._overlay.get(key)

    def entry(self, key: bytes) -> Entry | None:
        """Give the value with its revision and expiry, in ns of the group's elapsed time."""
        return self._overlay.entry(key)

    def revisions(self, keys: Sequence[bytes]) -> Iterable[int | None]:
        """Give which mutation set each key, or ``None`` where it is missing."""
        return self._overlay.revisions(keys)

    def count_within(self, keys: Sequence[bytes], size: int) -> int:
        """Say how many of some keys have, with their values, so many bytes; but one at least."""
        columns = self._overlay.committed.columns
        if columns.largest * len(keys) <= size:  # in no time
            return len(keys)
        values = columns.values
        used = list(accumulate(len(key) + len(values.get(key, b"")) for key in keys))
        return max(bisect_right(used, size), 1)

    def rows(self, keys: Iterable[bytes]) -> Rows:
        """Give the entries of those keys that are there, for a file."""
        return self._overlay.rows(keys)

    def __iter__(self) -> Iterator[bytes]:
        """Go through all keys, encoded; nothing may be applied meanwhile."""
        return iter(self._overlay)

    def keys(self) -> list[bytes]:
        """Give all keys, encoded."""
        return list(self._overlay)

    def snapshot(self) -> Columns:
        """Copy what readers see."""
        return self._overlay.copy()

    def census(self) -> Census:
        """Count what is in the table, where nothing is staged."""
        return Census.of(self._overlay.committed.columns)

    def scan(self, span: Span, limit: int, revision: int | None = None, step: int = 1) -> Page:
        """Give the first entries of a span in the order of keys, as of now or of a revision.

        ``LATEST`` is the one of now, which is kept if there are more pages. With a ``step`` it is
        every so many-th entry, and the revision is kept for those between. Raises ``InvalidData``,
        and ``RevisionGone`` for a revision that is not kept.
        """
        if revision:
            return self._pins.scan(span, limit, revision, step)
        overlay = self._overlay
        index, hidden = overlay.committed.index(), overlay.hidden_keys()
        page = scan(index, overlay, overlay.revision, span, limit, hidden, step)
        if revision == LATEST and (page.continuation is not None or step > 1):
            self._pins.pin()
        return page

    def prepare_scan(self, count: int) -> int:
        """Put so many keys in order, at most, before a scan; says how many it were."""
        return self._overlay.committed.catch_up(count)

    def watch(self, selection: Selection, after: Bookmark | None = None) -> Watcher | None:
        """Watch what is committed: from what there is, or from after a bookmark.

        ``None`` if this member is not as far as the bookmark yet: ask again after a commit. A
        bookmark of another history, or one that is too old, makes the watch begin with a ``Gap``.
        """
        if after is None:
            return Watcher(self, selection, None)
        position = after.position
        standing = Standing.FORGOTTEN if position is None else self._lineage.standing(position)
        if standing is Standing.AHEAD:
            return None
        lost = None if standing is Standing.KNOWN else standing.value
        return Watcher(self, selection, after.revision + 1, lost)
