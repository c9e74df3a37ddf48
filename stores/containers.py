"""Adding to and taking from sets, tables and vectors, on their bytes.

Containers are built piece by piece, and each piece makes a new value. To decode and encode all of a
container for it would cost a microsecond an element or more. So this works with the encodings of
the elements, and remembers those of the containers that changed last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from wire import cbor
from wire.decoding import check, decode
from wire.encoding import encode
from wire.errors import DecodeError, InvalidData, TypeClash
from wire.values import Set, Table, Value

SET_START: Final = cbor.head(cbor.TAG, cbor.TAG_SET)
TABLE_START: Final = cbor.head(cbor.TAG, cbor.TAG_TABLE)

MEMO_COUNT: Final = 64
"""Containers whose elements are remembered: as many as may well be built at the same time."""

MEMO_SIZE_MAX: Final = 1 << 20
"""Bytes of a container that is remembered; its elements take several times as much."""

_PartsT = TypeVar("_PartsT")
Change = Callable[[bytes, Value], bytes]
"""Makes a container from a container and an operand."""


_CONTAINERS_BEGIN: Final = 0x80
"""The first bytes of arrays, maps and tags; those of plain numbers and strings are below."""


def addition_to(stored: bytes) -> Change | None:
    """Give what adds to a container, told by its first bytes; ``None`` if it is none."""
    if stored[0] < _CONTAINERS_BEGIN:
        return None
    major = stored[0] >> 5
    if major == cbor.ARRAY:
        return push
    if major == cbor.MAP or stored.startswith(TABLE_START):
        return set_item
    return insert if stored.startswith(SET_START) else None


def subtraction_from(stored: bytes) -> Change | None:
    """Give what takes from a container, told by its first bytes; ``None`` if it is none."""
    addition = addition_to(stored)
    return None if addition is None else _OPPOSITES[addition]


# -- sets ------------------------------------------------------------------------------------------


def insert(stored: bytes, element: Value) -> bytes:
    """Give a set with the element in it."""
    encoded = encode(element)
    _check_nesting(_set_of([encoded]))
    elements = _SETS.take(stored)
    position = bisect_left(elements, encoded)
    if elements[position : position + 1] == [encoded]:
        return _SETS.keep(stored, elements)
    elements.insert(position, encoded)
    return _SETS.keep(_set_of(elements), elements)


def remove(stored: bytes, element: Value) -> bytes:
    """Give a set without the element."""
    elements, encoded = _SETS.take(stored), encode(element)
    position = bisect_left(elements, encoded)
    if elements[position : position + 1] != [encoded]:
        return _SETS.keep(stored, elements)
    del elements[position]
    return _SETS.keep(_set_of(elements), elements)


def _set_of(elements: list[bytes]) -> bytes:
    return SET_START + cbor.head(cbor.ARRAY, len(elements)) + b"".join(elements)


def _elements_of(stored: bytes) -> list[bytes]:
    elements = decode(stored)
    assert isinstance(elements, Set), type(elements)
    return sorted(map(encode, elements))


# -- tables ----------------------------------------------------------------------------------------


class _Items:
    """The encoded keys of a table, sorted, and beside each of them key and value as one."""

    def __init__(self, pairs: dict[bytes, bytes]) -> None:
        self.keys = sorted(pairs)
        self.pairs = [pairs[key] for key in self.keys]

    def find(self, key: bytes) -> tuple[int, bool]:
        """Give the place of a key, and whether it is there."""
        position = bisect_left(self.keys, key)
        return position, self.keys[position : position + 1] == [key]

    def joined(self) -> bytes:
        if self.keys and not self._are_strings():
            head = TABLE_START + cbor.head(cbor.ARRAY, 2 * len(self.keys))
        else:
            head = cbor.head(cbor.MAP, len(self.keys))
        return head + b"".join(self.pairs)

    def _are_strings(self) -> bool:
        # Bytes and texts are neighbours in the order of encodings: the ends tell of all.
        return self.keys[0][0] >> 5 >= cbor.BYTES and self.keys[-1][0] >> 5 <= cbor.TEXT


def set_item(stored: bytes, item: Value) -> bytes:
    """Give a table with the item, a vector of key and value, in it."""
    if not isinstance(item, tuple):
        raise TypeClash("a table takes a vector of key and value")
    if len(item) != 2:
        raise InvalidData(f"a table takes a vector of key and value, not one of {len(item)}")
    key, value = map(encode, item)
    pair = key + value
    _check_nesting(_Items({key: pair}).joined())
    items = _TABLES.take(stored)
    position, is_there = items.find(key)
    if is_there:
        items.pairs[position] = pair
    else:
        items.keys.insert(position, key)
        items.pairs.insert(position, pair)
    return _TABLES.keep(items.joined(), items)


def remove_item(stored: bytes, name: Value) -> bytes:
    """Give a table without the key."""
    items = _TABLES.take(stored)
    position, is_there = items.find(encode(name))
    if not is_there:
        return _TABLES.keep(stored, items)
    del items.keys[position], items.pairs[position]
    return _TABLES.keep(items.joined(), items)


def _items_of(stored: bytes) -> _Items:
    table = decode(stored)
    assert isinstance(table, Table), type(table)
    encoded = ((encode(key), encode(value)) for key, value in table.items())
    return _Items({key: key + value for key, value in encoded})


# -- vectors ---------------------------------------------------------------------------------------


def push(stored: bytes, element: Value) -> bytes:
    """Give a vector with the element at its end."""
    encoded = encode(element)
    if 0x80 <= encoded[0] < 0xE0:  # Only containers, and what has a tag, are nested.
        _check_nesting(cbor.head(cbor.ARRAY, 1) + encoded)
    count, start = _array_head(stored)
    return cbor.head(cbor.ARRAY, count + 1) + stored[start:] + encoded


def pop(stored: bytes, _ignored: Value = None) -> bytes:
    """Give a vector without its last element; an empty one stays as it is."""
    vector = decode(stored)
    assert isinstance(vector, tuple), type(vector)
    if not vector:
        return stored
    count, start = _array_head(stored)
    shorter = cbor.head(cbor.ARRAY, count - 1) + stored[start : -len(encode(vector[-1]))]
    try:
        check(shorter)
    except DecodeError:
        # The last element takes more bytes than it needs: whoever encoded it was not we.
        return encode(vector[:-1])
    return shorter


def _array_head(stored: bytes) -> tuple[int, int]:
    """Give the number of elements, and where the first one begins."""
    code = stored[0] & 0x1F
    if code < 24:
        return code, 1
    start = 1 + (1 << code - 24)
    return int.from_bytes(stored[1:start], "big"), start


# -- what all have in common -----------------------------------------------------------------------


def _check_nesting(container: bytes) -> None:
    """Refuse an element that is nested too deeply for a container around it."""
    try:
        check(container)
    except DecodeError as error:
        raise InvalidData(f"it does not fit into a container: {error}") from error


class _Memo(Generic[_PartsT]):
    """The parts of containers that changed last, by their encodings.

    All loops of a process share it, each in a thread of its own: each look and each change is one
    call, between whose steps no other thread comes.
    """

    def __init__(self, split: Callable[[bytes], _PartsT]) -> None:
        self._split = split
        self._known: OrderedDict[bytes, _PartsT] = OrderedDict()

    def take(self, stored: bytes) -> _PartsT:
        """Give the parts, for the caller to change: they are forgotten until they are kept."""
        parts = self._known.pop(stored, None)
        return self._split(stored) if parts is None else parts

    def keep(self, encoded: bytes, parts: _PartsT) -> bytes:
        """Remember the parts of a container; gives the container."""
        if len(encoded) <= MEMO_SIZE_MAX:
            self._known[encoded] = parts
            if len(self._known) > MEMO_COUNT:
                with suppress(KeyError):  # Others may have taken all since.
                    self._known.popitem(last=False)
        return encoded


_SETS: Final = _Memo(_elements_of)
_TABLES: Final = _Memo(_items_of)
_OPPOSITES: Final[dict[Change, Change]] = {insert: remove, set_item: remove_item, push: pop}
