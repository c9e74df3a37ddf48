"""Which messages of a sender were seen already: at most once, whatever path they come by."""

from __future__ import annotations

from typing import Final

from wire.identifiers import EndpointId
from wire.limits import GROUP_COUNT, SEQUENCE_MAX
from wire.messages import NodeHeader, PackedType

PAGE_BITS: Final = 10
PAGE_SIZE: Final = 1 << PAGE_BITS
"""Numbers of one page: as many as a frame has, so that a frame touches two pages at most."""

PAGES: Final = 64
"""Pages remembered of each sender: the last 64,513 numbers at least, 65,536 at most, in 11 kB. That
covers the reordering of sixty full frames while the mesh finds new paths; what is older counts as
seen, since a late message is a smaller evil than a double one."""

WINDOWS_PER_ENDPOINT: Final = 2
"""Sequence windows remembered for each endpoint that may be known: one for each kind of messages.
Those of endpoints that left are among them, as what they sent may still be on the way."""

_OFFSET: Final = PAGE_SIZE - 1
_PLACE: Final = PAGES - 1
_RUNS: Final = tuple((1 << count) - 1 for count in range(PAGE_SIZE + 1))
FULL: Final = _RUNS[PAGE_SIZE]  # A page of which all was seen: one object for all senders.
assert PAGE_SIZE >= GROUP_COUNT


class SequenceWindow:
    """The message numbers of one sender that came in: exact for the last 64 pages, and small.

    While they come in one run, the run's ends are all there is. From the first gap on there is a
    page of bits for each 1,024 numbers. An endpoint sees only those messages of a sender that are
    routed through it, so that gaps are normal and mean nothing.
    """

    __slots__ = ("_begin", "_end", "_pages")

    def __init__(self) -> None:
        self._begin = 0
        self._end = -1
        self._pages: list[int] | None = None

    @classmethod
    def closed(cls) -> SequenceWindow:
        """Give a window that admits nothing, for what cannot be right."""
        window = cls()
        window._end = SEQUENCE_MAX
        return window

    def admit_range(self, first: int, count: int) -> int | None:
        """Take note of ``count`` messages in a row, up to 1,024.

        Returns ``None`` if all are new, else the mask of those that are: bit ``i`` stands for
        message ``first + i``. Those that were seen, or are too old to tell, are not new.
        """
        if first == self._end + 1 and self._pages is None:
            self._end += count
            return None
        return self.admit_mask(first, _RUNS[count])

    def admit_mask(self, first: int, mask: int) -> int | None:
        """Do as ``admit_range`` for the messages ``first + i`` of each set bit ``i`` of a mask."""
        pages, last = self._pages, first + mask.bit_length() - 1
        if pages is None:
            if self._begin <= first and last <= self._end:
                return 0
            if self._end < 0:
                self._begin, self._end = first, first - 1
                if not mask & (mask + 1):
                    self._end = last
                    return None
            pages = self._pages = self._make_pages()
        block, top = first >> PAGE_BITS, last >> PAGE_BITS
        end_block = self._end >> PAGE_BITS
        if last > self._end:
            self._end = last
            if top != end_block:
                for fresh in range(max(end_block, top - PAGES) + 1, top + 1):
                    pages[fresh & _PLACE] = 0
                end_block = top
        oldest = end_block - PAGES + 1
        bits = mask << (first & _OFFSET)
        new = 0
        if block >= oldest:
            seen = pages[block & _PLACE]
            new = bits & FULL & ~seen
            page = seen | new
            pages[block & _PLACE] = page if page != FULL else FULL
        if top > block and top >= oldest:
            seen = pages[top & _PLACE]
            upper = (bits >> PAGE_SIZE) & ~seen
            page = seen | upper
            pages[top & _PLACE] = page if page != FULL else FULL
            new |= upper << PAGE_SIZE
        new >>= first & _OFFSET
        return None if new == mask else new

    def missing(self, first: int, mask: int) -> int:
        """Give the mask of what ``admit_mask`` would call new, without taking note of anything."""
        pages, end, last = self._pages, self._end, first + mask.bit_length() - 1
        oldest = (max(end, last) >> PAGE_BITS) - PAGES + 1
        too_old = max(0, (oldest << PAGE_BITS) - first)
        mask = mask >> too_old << too_old
        if pages is None:
            low, high = max(self._begin, first), min(end, last)
            return mask & ~(_RUNS[high - low + 1] << low - first) if low <= high else mask
        for block in range(first >> PAGE_BITS, (last >> PAGE_BITS) + 1):
            if oldest <= block <= end >> PAGE_BITS:
                at = (block << PAGE_BITS) - first
                seen = pages[block & _PLACE]
                mask &= ~(seen << at if at >= 0 else seen >> -at)
        return mask

    def _make_pages(self) -> list[int]:
        """Write the run that came so far as pages. What is before it may still come."""
        begin, end = self._begin, self._end
        pages = [0] * PAGES
        end_block = end >> PAGE_BITS
        for block in range(max(begin >> PAGE_BITS, end_block - PAGES + 1), end_block + 1):
            start = block << PAGE_BITS
            low, high = max(begin, start) - start, min(end - start, _OFFSET)
            pages[block & _PLACE] = _RUNS[high - low + 1] << low if low else _RUNS[high + 1]
        return pages


class SequenceWindows:
    """What was seen of everybody, commands and data apart: commands overtake in the outboxes."""

    def __init__(self, local: EndpointId, endpoints_max: int) -> None:
        """Admit nothing of ``local``: what comes back to its own sender was seen, whoever says."""
        self._local = local
        self._count_max = WINDOWS_PER_ENDPOINT * (endpoints_max + 1)
        self._windows: dict[tuple[EndpointId, bool], SequenceWindow] = {}

    def of(self, header: NodeHeader) -> SequenceWindow:
        """Give the window that messages with this header count in.

        Beyond the limit the one goes that nobody has asked for longest: who made up endpoints could
        otherwise have those of the living forgotten, and repeat what they sent.
        """
        key = (header.sender, header.type is PackedType.COMMAND)
        window = self._windows.pop(key, None)
        if window is None:
            if len(self._windows) >= self._count_max:
                del self._windows[next(iter(self._windows))]
            is_own = header.sender == self._local
            window = SequenceWindow.closed() if is_own else SequenceWindow()
        self._windows[key] = window
        return window
