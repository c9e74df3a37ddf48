"""What observers are told of a table, in the order of commits: a slice at a time, if it is much."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from stores.actions import Action, ClearCommand
from stores.effects import Changed
from stores.table.events import changes_of, differences, removals
from stores.table.overlay import Layer, Overlay, Past, keys_of
from stores.work import SLICE_COUNT


class Telling:
    """Tells of each change, after all before it, as the latest state may be told of later.

    A cleared table, and the difference of two states, are looked at in steps: ``step`` takes the
    next one. What is committed meanwhile waits, and takes two looks along for each key of its own:
    so fewer changes wait than the two states have keys, however fast they come.
    """

    def __init__(self) -> None:
        """Start without an observer."""
        self.observer: Callable[[Changed], None] | None = None
        """Called with each change; set it with ``observe``."""
        self._waiting: deque[Changed | Iterator[Changed | None]] = deque()
        self._kept: Past | None = None
        """What stood under keys that changed since the latest state came, which is not all told."""
        self._hidden: Layer | None = None
        """What observers know of, while another state comes in its place."""

    def observe(self, observer: Callable[[Changed], None] | None) -> None:
        """Tell ``observer`` from now on; ``None`` ends it, and drops what waits."""
        self.observer = observer
        if observer is None:
            self._waiting.clear()
            self._kept = self._hidden = None

    @property
    def has_more(self) -> bool:
        """True while ``step`` has something to do."""
        return bool(self._waiting)

    def step(self, count: int = SLICE_COUNT) -> None:
        """Look at the next keys, so many at most, and tell what changed."""
        waiting, observer = self._waiting, self.observer
        while waiting and count > 0 and observer is not None:
            first = waiting[0]
            if isinstance(first, Changed):
                waiting.popleft()
                observer(first)
                count -= 1
                continue
            for change in islice(first, count):
                count -= 1
                if change is not None:
                    observer(change)
            if count:  # It had no more.
                waiting.popleft()

    # -- one change ------------------------------------------------------------------------------

    def change(self, action: Action, overlay: Overlay) -> None:
        """Tell what an action is about to change."""
        if self._hidden is not None:
            self.step(2 * len(keys_of(action)))
            return
        if isinstance(action, ClearCommand):
            self._kept = None  # The table stays as it is: another one begins.
            self._tell(removals(action, overlay.shown, overlay.revision + 1))
            return
        observer, waiting, kept = self.observer, self._waiting, self._kept
        assert observer is not None, "somebody observes"
        for change in changes_of(action, overlay):
            if not waiting:
                observer(change)
                continue
            waiting.append(change)
            if kept is not None:
                kept.setdefault(change.key, change.before)
            self.step(2)

    # -- another state in the place of one -------------------------------------------------------

    @property
    def has_hidden(self) -> bool:
        """True while observers know of another state than there is."""
        return self._hidden is not None

    def hide(self, overlay: Overlay) -> None:
        """Tell nothing until ``reveal``: what is there is about to go, and observers know of it."""
        if self.observer is not None and self._hidden is None:
            self._hidden = overlay.shown

    def reveal(self, overlay: Overlay) -> None:
        """Tell what is different now from what observers know of."""
        hidden, self._hidden = self._hidden, None
        if self.observer is not None and hidden is not None:
            new, self._kept = overlay.shown, {}
            self._tell(differences(hidden, new, new.keys(), self._kept, overlay.revision))

    def _tell(self, changes: Iterator[Changed | None]) -> None:
        self._waiting.append(changes)
        self.step()
