"""The keys of a table in their order: sorted at the first question, kept so at little cost.

A write only notes which keys came or went; the next reader puts them in their places. Once
more has been noted than sorting anew would cost, the index is given up: a store that is not scanned
any more pays nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from stores.order import order_of

BLOCK_COUNT: Final = 512
"""Keys in a block after it was split: moving so many costs as much as finding the block."""

MANY_SHARE: Final = 16
"""A block takes this part of its length at once, and sorts itself; fewer places one by one."""

SLACK_COUNT: Final = 1_024
"""Keys that may have come or gone, on top of half of those there are, before sorting is cheaper."""


class KeyIndex:
    """Sorted places in blocks of some hundreds, and the key of each place."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        """Note the encoded keys: ``catch_up`` puts them in their places."""
        self._keys: dict[bytes, bytes] = {}
        self._blocks: list[list[bytes]] = []
        self._firsts: list[bytes] = []
        self._block_keys: list[list[bytes] | None] = []
        """The keys of each block, from the first scan as a whole until it changes: to look a
        million of them up takes longer than all else that a scan does."""
        coming = tuple(keys)  # The collector of cycles looks at a tuple of bytes once only.
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
        for key in fresh if noted else ():
            noted.pop(key, None)
        self._place(key for key in fresh if key in present)
        self._remove(key for key in fresh if key not in present)
        return len(fresh)

    def parts(
        self, start: bytes, stop: bytes | None, count: int, step: int = 1
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Go through every ``step``-th place from ``start`` on, up to ``stop`` without it.

        Places come with their keys, in parts of ``count`` at most.
        """
        if not self._blocks:
            return
        first, look_up = self._find(start), self._keys.__getitem__
        at = bisect_left(self._blocks[first], start)
        for number in range(first, len(self._blocks)):
            block = self._blocks[number]
            is_last = stop is not None and block[-1] >= stop
            end = bisect_left(block, stop) if is_last and stop is not None else len(block)
            keys = self._block_keys[number]
            if keys is None and step == 1 and count >= len(block):
                keys = self._block_keys[number] = list(map(look_up, block))
            while at < end:
                part = slice(at, min(end, at + count * step), step)
                places = block[part]
                yield places, list(map(look_up, places)) if keys is None else keys[part]
                at += min(count, len(range(at, end, step))) * step
            if is_last:
                return
            at -= len(block)

    # -- steps -----------------------------------------------------------------------------------

    def _sort(self, keys: Iterable[bytes]) -> None:
        """Put everything in its place at once: half the work of one after the other."""
        self._keys = {order_of(key): key for key in keys}
        places, step = sorted(self._keys), BLOCK_COUNT
        self._blocks = [places[at : at + step] for at in range(0, len(places), step)]
        self._firsts = [block[0] for block in self._blocks]
        self._block_keys = [None] * len(self._blocks)
        self._noted.clear()

    def _place(self, keys: Iterable[bytes]) -> None:
        """Put keys in their places, neighbours together."""
        coming = {order_of(key): key for key in keys}
        known, at = self._keys, 0
        places = sorted(place for place in coming if place not in known)
        known.update(coming)
        if places and not self._blocks:
            self._blocks, self._firsts, self._block_keys = [[]], [b""], [None]
        while at < len(places):
            number = self._find(places[at])
            is_last = number + 1 == len(self._blocks)
            end = None if is_last else bisect_left(places, self._firsts[number + 1], at)
            self._insert(number, places[at:end])
            at = len(places) if end is None else end

    def _insert(self, number: int, places: list[bytes]) -> None:
        """Put places that are in order into a block, and split what is too long."""
        block = self._blocks[number]
        if len(places) * MANY_SHARE > len(block):
            block += places
            block.sort()
        else:
            for place in places:
                insort(block, place)
        parts = [block]
        if len(block) > 2 * BLOCK_COUNT:
            parts = [block[at : at + BLOCK_COUNT] for at in range(0, len(block), BLOCK_COUNT)]
        self._blocks[number : number + 1] = parts
        self._firsts[number : number + 1] = [part[0] for part in parts]
        self._block_keys[number : number + 1] = [None] * len(parts)

    def _find(self, place: bytes) -> int:
        """Say in which block a place is, or would be."""
        at = bisect_left(self._firsts, place)
        is_first = at < len(self._firsts) and self._firsts[at] == place
        return at if is_first else max(at - 1, 0)

    def _remove(self, keys: Iterable[bytes]) -> None:
        """Take out the places of those keys that are known."""
        for place in map(order_of, keys):
            if self._keys.pop(place, None) is None:
                continue
            number = self._find(place)
            block = self._blocks[number]
            del block[bisect_left(block, place)]
            if block:
                self._firsts[number], self._block_keys[number] = block[0], None
            else:
                del self._blocks[number], self._firsts[number], self._block_keys[number]
