"""Revisions that are kept for a while, for readers that go through a store page by page.

A pin remembers what stood under each key that changed since. So it costs nothing while nothing is
written, and its limits are on what it remembers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from stores.order import order_of
from stores.scanning import Page, Span, scan
from stores.table.overlay import Overlay, Past
from stores.table.rows import Rows, rows_of
from stores.table.table import Table
from wire.errors import RevisionGone
from wire.limits import MIB

PIN_TICKS: Final = 600
"""Ticks without a question after which a revision is let go: a minute, as a reader may pause."""

PINS_MAX: Final = 16
"""Revisions kept at a time; readers that begin at one revision share it. Each write looks into all
of them."""

PINS_SIZE_MAX: Final = 64 * MIB
"""Bytes that all pins remember; beyond, the one that was idle longest is let go."""

REMEMBERED_SIZE: Final = 200
"""Bytes that a remembered entry takes besides key and value, roughly."""


@dataclass(slots=True)
class _Pin:
    revision: int
    table: Table
    """The table of now, or the one before a clear."""
    past: Past = field(default_factory=dict)
    removed: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Places and keys that were removed since, in order."""
    size: int = 0
    idle_ticks: int = 0


class _View:
    """The entries of one pinned revision."""

    def __init__(self, pin: _Pin, overlay: Overlay) -> None:
        self._pin = pin
        self._overlay = overlay

    def rows(self, keys: Iterable[bytes]) -> Rows:
        pin, overlay = self._pin, self._overlay
        staged = overlay.past if pin.table is overlay.committed else {}
        return rows_of(pin.table.columns, keys, pin.past, staged)


class Pins:
    """The pinned revisions of one member; none of it is replicated."""

    def __init__(self, overlay: Overlay) -> None:
        """Keep nothing yet."""
        self._overlay = overlay
        self._pins: dict[int, _Pin] = {}
        self._size = 0

    def __len__(self) -> int:
        """Count the revisions that are kept."""
        return len(self._pins)

    def pin(self) -> int:
        """Keep the revision of now, and give it; a reader asks for it with each page."""
        revision = self._overlay.revision
        if revision not in self._pins:
            if len(self._pins) >= PINS_MAX:
                self._drop_idlest()
            self._pins[revision] = _Pin(revision, self._overlay.committed)
        self._pins[revision].idle_ticks = 0
        return revision

    def scan(self, span: Span, limit: int, revision: int, step: int = 1) -> Page:
        """Give the first entries of a span as of a pinned revision; raises ``RevisionGone``.

        The revision of now needs no pin yet.
        """
        if revision not in self._pins and revision == self._overlay.revision:
            self.pin()
        pin = self._pins.get(revision)
        if pin is None:
            raise RevisionGone(
                f"revision {revision} is not kept here: read from the start again, without a pause"
                f" of {PIN_TICKS // 10} s between pages"
            )
        pin.idle_ticks = 0
        hidden = dict.fromkeys(self._hidden(pin, span, limit))
        if pin.table is self._overlay.committed:
            hidden.update(dict.fromkeys(self._overlay.hidden_keys()))
        view = _View(pin, self._overlay)
        return scan(pin.table.index(), view, pin.revision, span, limit, hidden, step)

    def tick(self) -> None:
        """Let a tick pass."""
        for pin in list(self._pins.values()):
            pin.idle_ticks += 1
            if pin.idle_ticks > PIN_TICKS:
                self._drop(pin.revision)

    def remember(self, keys: Sequence[bytes], *, is_removal: bool) -> None:
        """Take note of keys that are about to change, or to go, for readers."""
        overlay, size = self._overlay, 0
        table = overlay.committed
        for pin in self._pins.values():
            if pin.table is not table:
                continue  # It has a table of before a clear to itself.
            before, past = pin.size, pin.past
            for key in keys:
                if key not in past:
                    entry = past[key] = overlay.entry(key)
                    pin.size += REMEMBERED_SIZE + len(key)
                    pin.size += 0 if entry is None else len(entry.value)
                if is_removal and past[key] is not None:
                    self._remove(pin, key)
            size += pin.size - before
        self._size += size
        self._make_room()

    def clear(self) -> None:
        """Take note that everything is about to go: the readers keep the table of now."""
        table = self._overlay.committed
        for pin in self._pins.values():
            if pin.table is table:
                pin.size += table.columns.size
                self._size += table.columns.size
        self._make_room()

    # -- steps -----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        while self._size > PINS_SIZE_MAX:
            self._drop_idlest()

    def _hidden(self, pin: _Pin, span: Span, limit: int) -> Iterator[bytes]:
        """Give the first keys of a span that the table has no more, enough for a page."""
        present, count = pin.table.columns.values, 0
        start = bisect_left(pin.removed, (span.start, b""))
        for at in range(start, len(pin.removed)):
            place, key = pin.removed[at]
            if count > limit or (span.stop is not None and place >= span.stop):
                return
            if key not in present:
                count += 1
                yield key

    def _remove(self, pin: _Pin, key: bytes) -> None:
        removed = (order_of(key), key)
        at = bisect_left(pin.removed, removed)
        if at == len(pin.removed) or pin.removed[at] != removed:
            insort(pin.removed, removed)

    def _drop_idlest(self) -> None:
        """Let go of the one that was idle longest, and of those of one tick of the oldest."""
        self._drop(max(self._pins, key=lambda revision: self._pins[revision].idle_ticks))

    def _drop(self, revision: int) -> None:
        self._size -= self._pins.pop(revision).size
