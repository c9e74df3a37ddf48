"""The keys of a table in their order: sorted at the first question, kept so at little cost.

A write only notes which keys came or went; the next reader puts them in their places. Once
more has been noted than sorting anew would cost, the index is given up: a store that is not scanned
any more pays nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from stores.order import order_of

BLOCK_COUNT: Final = 512
"""Keys in a block after it was split: moving so many costs as much as finding the block."""

SLACK_COUNT: Final = 1_024
"""Keys that may have come or gone, on top of half of those there are, before sorting is cheaper."""


class KeyIndex:
    """Sorted places in blocks of some hundreds, and the key of each place."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """Note the encoded keys: ``catch_up`` puts them in their places."""
        self._keys: dict[bytes, bytes] = {}
        self._blocks: list[list[bytes]] = []
        self._firsts: list[bytes] = []
        coming = list(keys)
        self._expected_count = len(coming)
        self._coming = iter(coming)
        self._noted: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Count the keys, as of the last time that they were put in their places."""
        return len(self._keys)

    @property
    def is_outdated(self) -> bool:
        """True when sorting anew is cheaper than catching up."""
        return len(self._noted) > max(len(self._keys), self._expected_count) // 2 + SLACK_COUNT

    def note(self, keys: Iterable[bytes]) -> None:
        """Take note of keys that may have come or gone."""
        self._noted.update(dict.fromkeys(keys))

    def catch_up(self, present: Mapping[bytes, object], count: int | None = None) -> int:
        """Put what was noted in its place, or take it out; ``present`` holds the keys there are.

        Does so for ``count`` keys at most, and says for how many. ``None`` means all of them.
        """
        noted = self._noted
        if count is None and not self._keys:
            self._sort(key for key in {*self._coming, *noted} if key in present)
            return len(present)
        fresh = list(islice(self._coming, count))
        fresh += islice(noted, None if count is None else count - len(fresh))
        for key in fresh:
            noted.pop(key, None)
            self._place(key, is_present=key in present)
        return len(fresh)

    def places(
        self, start: bytes, stop: bytes | None, count: int, step: int = 1
    ) -> Iterator[list[bytes]]:
        """Go through every ``step``-th place from ``start`` on, up to ``stop`` without it.

        They come in parts, of ``count`` at most.
        """
        if not self._blocks:
            return
        number = self._find(start)
        at = bisect_left(self._blocks[number], start)
        for block in islice(self._blocks, number, None):
            is_last = stop is not None and block[-1] >= stop
            end = bisect_left(block, stop) if is_last and stop is not None else len(block)
            while at < end:
                yield block[at : min(end, at + count * step) : step]
                at += min(count, len(range(at, end, step))) * step
            if is_last:
                return
            at -= len(block)

    def keys(self, places: Iterable[bytes]) -> Iterator[bytes]:
        """Give the keys of places."""
        return map(self._keys.__getitem__, places)

    # -- steps -----------------------------------------------------------------------------------

    def _sort(self, keys: Iterable[bytes]) -> None:
        """Put everything in its place at once: half the work of one after the other."""
        self._keys = {order_of(key): key for key in keys}
        places, step = sorted(self._keys), BLOCK_COUNT
        self._blocks = [places[at : at + step] for at in range(0, len(places), step)]
        self._firsts = [block[0] for block in self._blocks]
        self._noted.clear()

    def _place(self, key: bytes, *, is_present: bool) -> None:
        place = order_of(key)
        is_known = place in self._keys
        if is_present and not is_known:
            self._insert(place, key)
        elif is_known and not is_present:
            self._remove(place)

    def _find(self, place: bytes) -> int:
        """Say in which block a place is, or would be."""
        at = bisect_left(self._firsts, place)
        is_first = at < len(self._firsts) and self._firsts[at] == place
        return at if is_first else max(at - 1, 0)

    def _insert(self, place: bytes, key: bytes) -> None:
        self._keys[place] = key
        if not self._blocks:
            self._blocks, self._firsts = [[place]], [place]
            return
        number = self._find(place)
        block = self._blocks[number]
        block.insert(bisect_left(block, place), place)
        self._firsts[number] = block[0]
        if len(block) > 2 * BLOCK_COUNT:
            rest = block[BLOCK_COUNT:]
            del block[BLOCK_COUNT:]
            self._blocks.insert(number + 1, rest)
            self._firsts.insert(number + 1, rest[0])

    def _remove(self, place: bytes) -> None:
        del self._keys[place]
        number = self._find(place)
        block = self._blocks[number]
        del block[bisect_left(block, place)]
        if block:
            self._firsts[number] = block[0]
        else:
            del self._blocks[number], self._firsts[number]
