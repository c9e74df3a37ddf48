"""The appends that are remembered of one named producer, as they are written. Pure.

A log remembers up to ten million of them. So they are kept in blocks, each encoded once, as
snapshots and files have them: a twelfth of what they take as numbers in tuples and a dictionary,
and to write all of a producer again copies bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect, bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, overload

import cbor2

from wire import cbor

Appended = tuple[int, int, int]
"""A sequence number, with the partition and the offset of what was appended under it."""

BLOCK_COUNT: Final = 64
"""Appends of one block: what is in none is encoded with each checkpoint, some 30 microseconds."""

DECODED_MAX: Final = 64
"""Blocks that stay decoded: a producer that repeats what it appended goes through one at a time."""

_WIDTH: Final = 3
"""Numbers of one append."""


class Block(NamedTuple):
    """``BLOCK_COUNT`` appends."""

    first: int
    """The first one's sequence number."""
    encoded: bytes
    """All of them, one after the other."""

    def appended(self) -> list[Appended]:
        """Decode them."""
        found = cbor2.loads(cbor.head(cbor.ARRAY, BLOCK_COUNT) + self.encoded)
        return [tuple(each) for each in found]


class Appends(Sequence[Appended]):
    """Appends in the order of their sequence numbers; they never change."""

    __slots__ = ("_blocks", "_latest", "_skipped")

    def __init__(self, blocks: Sequence[Block], skipped: int, latest: array[int]) -> None:
        """Have blocks, of which the first appends are left out, and numbers of later ones."""
        self._blocks = blocks
        self._skipped = skipped
        self._latest = latest

    @classmethod
    def of(cls, appended: Iterable[Appended]) -> Appends:
        """Take some."""
        if isinstance(appended, Appends):
            return appended
        some = list(appended)
        end = len(some) - len(some) % BLOCK_COUNT
        each = [some[at : at + BLOCK_COUNT] for at in range(0, end, BLOCK_COUNT)]
        blocks = tuple(Block(part[0][0], _encoded(part)) for part in each)
        return cls(blocks, 0, array("Q", chain.from_iterable(some[end:])))

    def __len__(self) -> int:
        """Count them."""
        return len(self._blocks) * BLOCK_COUNT - self._skipped + len(self._latest) // _WIDTH

    @overload
    def __getitem__(self, number: int) -> Appended: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Appended]: ...

    def __getitem__(self, number: int | slice) -> Appended | Sequence[Appended]:
        """Give one, or some."""
        return tuple(self)[number]

    def __iter__(self) -> Iterator[Appended]:
        """Give all, decoded."""
        for block in self._blocks[:1]:
            yield from block.appended()[self._skipped :]
        for block in self._blocks[1:]:
            yield from block.appended()
        yield from _appended(self._latest)

    def __eq__(self, other: object) -> bool:
        """Compare them, one by one."""
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Equal ones have equal hashes."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show them as a tuple does."""
        return repr(tuple(self))

    def encoded(self) -> bytes:
        """Write them, as CBOR writes a list of lists."""
        pieces = [cbor.head(cbor.ARRAY, len(self))]
        blocks = self._blocks
        if self._skipped:
            pieces.append(_encoded(blocks[0].appended()[self._skipped :]))
            blocks = blocks[1:]
        pieces += [block.encoded for block in blocks]
        return b"".join((*pieces, _encoded(_appended(self._latest))))

    def thawed(self) -> Window:
        """Give a window that has them."""
        return Window(self._blocks, self._skipped, self._latest)


class Window:
    """The latest appends of one producer."""

    __slots__ = ("_blocks", "_front", "_latest", "_skipped", "last")

    def __init__(
        self, blocks: Iterable[Block] = (), skipped: int = 0, latest: Iterable[int] = ()
    ) -> None:
        """Start with what an ``Appends`` has."""
        self._blocks = deque(blocks)
        self._skipped = skipped
        self._front = array("Q")
        """The sequence numbers of the first block, once some of it is left out."""
        self._latest = array("Q", latest)
        self.last = 0
        """The last sequence number that was added."""
        if self._skipped:
            self._open_front()
        if self._latest:
            self.last = self._latest[-_WIDTH]
        elif self._blocks:
            self.last = self._blocks[-1].appended()[-1][0]

    def __len__(self) -> int:
        """Count the appends."""
        return len(self._blocks) * BLOCK_COUNT - self._skipped + len(self._latest) // _WIDTH

    @property
    def first(self) -> int:
        """The first sequence number of those that are remembered, of which there is one."""
        if self._skipped:
            return self._front[self._skipped]
        return self._blocks[0].first if self._blocks else self._latest[0]

    def add(self, sequence: int, partition: int, offset: int) -> None:
        """Remember an append."""
        latest = self._latest
        latest.extend((sequence, partition, offset))
        self.last = sequence
        if len(latest) == BLOCK_COUNT * _WIDTH:
            self._blocks.append(Block(latest[0], _encoded(_appended(latest))))
            self._latest = array("Q")

    def drop(self) -> None:
        """Forget the first append."""
        if not self._blocks:
            del self._latest[:_WIDTH]
            return
        if not self._skipped:
            self._open_front()
        self._skipped += 1
        if self._skipped == BLOCK_COUNT:
            self._blocks.popleft()
            self._skipped = 0

    def place(self, sequence: int) -> tuple[int, int] | None:
        """Give partition and offset of an append; ``None`` if it is not remembered."""
        if not len(self) or sequence < self.first:
            return None
        latest = self._latest
        if latest and sequence >= latest[0]:
            at = _WIDTH * bisect_left(latest[::_WIDTH], sequence)
            is_found = at < len(latest) and latest[at] == sequence
            return (latest[at + 1], latest[at + 2]) if is_found else None
        number = bisect(self._blocks, sequence, key=lambda block: block.first) - 1
        appended = _decoded(self._blocks[number])
        at = bisect_left(appended, (sequence,))
        found = appended[at] if at < len(appended) else None
        return found[1:] if found is not None and found[0] == sequence else None

    def frozen(self) -> Appends:
        """Give what it has now."""
        return Appends(tuple(self._blocks), self._skipped, self._latest[:])

    def _open_front(self) -> None:
        self._front = array("Q", [each[0] for each in self._blocks[0].appended()])


@lru_cache(maxsize=DECODED_MAX)
def _decoded(block: Block) -> list[Appended]:
    return block.appended()


def encoded(appended: Sequence[Appended]) -> bytes:
    """Write appends, as CBOR writes a list of lists."""
    return appended.encoded() if isinstance(appended, Appends) else cbor2.dumps(appended)


def _appended(numbers: array[int]) -> list[Appended]:
    return list(zip(numbers[::_WIDTH], numbers[1::_WIDTH], numbers[2::_WIDTH], strict=True))


def _encoded(appended: Sequence[Appended]) -> bytes:
    """Write them without the head of a list."""
    return cbor2.dumps(appended)[len(cbor.head(cbor.ARRAY, len(appended))) :]
