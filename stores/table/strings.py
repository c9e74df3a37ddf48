"""Byte strings in one block, laid out as Arrow lays out a column.

So pages travel and become columns without an object for each key and value.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from operator import lt
from typing import overload

from wire.errors import DecodeError


class Strings(Sequence[bytes]):
    """Byte strings behind one another, none of them empty; equal to any sequence of the same."""

    __slots__ = ("content", "ends")

    def __init__(self, content: bytes, ends: array[int]) -> None:
        """Take the bytes of all, and the place where each ends in them, behind a zero."""
        self.content = content
        self.ends = ends

    @classmethod
    def of(cls, items: Sequence[bytes]) -> Strings:
        """Lay items out; raises ``OverflowError`` for 2 GiB of them."""
        return items if isinstance(items, Strings) else cls(b"".join(items), ends_of(items))

    @classmethod
    def unpacked(cls, content: bytes, packed_ends: bytes) -> Strings:
        """Read what travelled; raises ``DecodeError`` for strings that overlap, or are empty."""
        ends = unpacked("i", packed_ends)
        numbers = ends.tolist()
        if numbers[:1] != [0] or numbers[-1] != len(content):
            raise DecodeError("byte strings in a block end elsewhere than the block does")
        if not all(map(lt, numbers, islice(numbers, 1, None))):
            raise DecodeError("byte strings in a block overlap, or one is empty")
        return cls(content, ends)

    def __len__(self) -> int:
        """Count them."""
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[bytes]:
        """Cut them out, one after the other."""
        return map(self.content.__getitem__, map(slice, self.ends, islice(self.ends, 1, None)))

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        """Cut one or several of them out."""
        if isinstance(at, slice):
            return list(self)[at]
        number = range(len(self))[at]
        return self.content[self.ends[number] : self.ends[number + 1]]

    def __eq__(self, other: object) -> bool:
        """Tell whether the other sequence has the same strings."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # a list, which it equals, has none either

    def __repr__(self) -> str:
        """Show them."""
        return f"Strings.of({list(self)!r})"


def ends_of(items: Iterable[bytes]) -> array[int]:
    """Say where each item ends if they are laid out, behind a zero."""
    return array("i", accumulate(map(len, items), initial=0))


# -- numbers that travel ---------------------------------------------------------------------------


def packed(numbers: array[int]) -> bytes:
    """Write numbers one after the other, the lowest byte of each first."""
    return _turned(numbers).tobytes()


def unpacked(code: str, data: bytes) -> array[int]:
    """Read numbers of the type that ``array`` has the code of; raises ``DecodeError``."""
    numbers = array(code)
    try:
        numbers.frombytes(data)
    except ValueError as error:
        raise DecodeError(f"numbers end in the middle: {error}") from None
    return _turned(numbers)


def _turned(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
