"""What we use of cbor2, in plain Python: a stand-in for executors that get no compiled packages.

``delivery`` puts it into a zip under the name ``cbor2``. It decodes tables three times slower
(``benchmarks.plain_cbor``), knows only the options that the mesh gives, and refuses what cbor2
refuses with them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

DEPTH_MAX: Final = 400
"""Levels of nesting where no other limit is given: cbor2's own."""

_HEADS: Final = {24: struct.Struct("!B"), 25: struct.Struct("!H"), 26: struct.Struct("!I")} | {
    27: struct.Struct("!Q")
}
_FLOATS: Final = {25: struct.Struct("!e"), 26: struct.Struct("!f"), 27: struct.Struct("!d")}

_SPECIAL: Final = {"inf": b"\xf9\x7c\x00", "-inf": b"\xf9\xfc\x00", "nan": b"\xf9\x7e\x00"}
"""Reals that cbor2 writes in two bytes."""

Hook = Callable[[Any, bool], Any]


class CBORError(Exception):
    """What all errors of this module are."""


class CBORDecodeError(CBORError, ValueError):
    """Bytes that are no CBOR, or not what the options allow."""


class UndefinedType:
    """The type of ``undefined``."""

    def __repr__(self) -> str:
        """Show it as cbor2 does."""
        return "undefined"


undefined: Final = UndefinedType()


@dataclass(frozen=True)
class CBORTag:
    """A tag, with what it stands before."""

    tag: int
    value: Any


@dataclass(frozen=True)
class CBORSimpleValue:
    """A simple value without a meaning."""

    value: int

    def __repr__(self) -> str:
        """Show it as cbor2 does."""
        return f"CBORSimpleValue({self.value})"


class CBORDecoder:
    """Decodes one item from a stream."""

    def __init__(
        self,
        source: BytesIO,
        *,
        max_depth: int = DEPTH_MAX,
        semantic_decoders: Mapping[int, Hook] | None = None,
        tag_hook: Hook | None = None,
        object_hook: Hook | None = None,
        **_allowed: bool,
    ) -> None:
        """Read from ``source``; indefinite lengths and duplicate keys are never allowed."""
        self._source = source
        self._depth_max = max_depth
        self._hooks = semantic_decoders or {}
        self._tag_hook = tag_hook
        self._object_hook = object_hook
        self._data = b""
        self._at = 0

    def decode(self, *, immutable: bool = False) -> Any:  # noqa: ANN401 - any item
        """Decode one item, and leave the stream behind it."""
        before = self._source.tell()
        self._data, self._at = self._source.read(), 0
        item = self._item(immutable, self._depth_max)
        self._source.seek(before + self._at)
        return item

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise CBORDecodeError("premature end of the bytes")
        self._at += size
        return taken

    def _item(self, immutable: bool, depth: int) -> Any:  # noqa: ANN401, FBT001 - any item; a hook's own argument
        first = self._take(1)[0]
        major, code = first >> 5, first & 31
        if major == 7:
            return self._special(code)
        number = self._number(code)
        if major < 2:
            return ~number if major else number
        if major == 2:
            return self._take(number)
        if major == 3:
            return self._take(number).decode()
        if major < 6 and number == 0:
            return self._container(major, 0, immutable, depth)
        if depth <= 0:
            raise CBORDecodeError("nested too deep")
        return self._container(major, number, immutable, depth - 1)

    def _number(self, code: int) -> int:
        if code < 24:
            return code
        if code not in _HEADS:
            raise CBORDecodeError(f"length {code} is indefinite, or reserved")
        number: int = _HEADS[code].unpack(self._take(_HEADS[code].size))[0]
        return number

    def _special(self, code: int) -> Any:  # noqa: ANN401 - any item
        if code in _FLOATS:
            return _FLOATS[code].unpack(self._take(_FLOATS[code].size))[0]
        if 20 <= code <= 23:
            return (False, True, None, undefined)[code - 20]
        number = self._number(code)
        if code == 24 and number < 32:
            raise CBORDecodeError("a simple value in two bytes that fits in one")
        return CBORSimpleValue(number)

    def _container(self, major: int, number: int, immutable: bool, depth: int) -> Any:  # noqa: ANN401, FBT001 - as above
        if major == 4:
            items = [self._item(immutable, depth) for _ in range(number)]
            return tuple(items) if immutable else items
        if major == 5:
            return self._map(number, immutable, depth)
        value = self._item(immutable, depth)
        hook = self._hooks.get(number)
        if hook is not None:
            return hook(value, immutable)
        tag = CBORTag(number, value)
        return tag if self._tag_hook is None else self._tag_hook(tag, immutable)

    def _map(self, size: int, immutable: bool, depth: int) -> Any:  # noqa: ANN401, FBT001 - as above
        table: dict[str | bytes, Any] = {}
        for _ in range(size):
            key = self._item(immutable=True, depth=depth)
            if type(key) not in (str, bytes) or key in table:
                raise CBORDecodeError("a key that is neither text nor bytes, or is there twice")
            table[key] = self._item(immutable, depth)
        return table if self._object_hook is None else self._object_hook(table, immutable)


def loads(data: bytes, *, immutable: bool = False, **options: Any) -> Any:  # noqa: ANN401 - any item
    """Decode the first item of some bytes."""
    return CBORDecoder(BytesIO(data), **options).decode(immutable=immutable)


def dumps(value: Any) -> bytes:  # noqa: ANN401 - any item
    """Encode what the mesh's own messages are made of."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major << 5 | number,))
    for code, packer in _HEADS.items():
        if number < 1 << 8 * packer.size:
            return bytes((major << 5 | code,)) + packer.pack(number)
    raise ValueError("an integer of more than 64 bits")


def _write(value: Any, parts: list[bytes]) -> None:  # noqa: ANN401 - any item
    if value is None or isinstance(value, bool):
        parts.append({None: b"\xf6", False: b"\xf4", True: b"\xf5"}[value])
    elif isinstance(value, int):
        parts.append(_head(0, value) if value >= 0 else _head(1, ~value))
    elif isinstance(value, float):
        parts.append(_SPECIAL.get(str(value)) or b"\xfb" + struct.pack("!d", value))
    elif isinstance(value, bytes | str):
        text = value.encode() if isinstance(value, str) else bytes(value)
        parts += (_head(3 if isinstance(value, str) else 2, len(text)), text)
    elif isinstance(value, list | tuple):
        parts.append(_head(4, len(value)))
        for item in value:
            _write(item, parts)
    else:
        raise TypeError(f"no CBOR for {type(value).__name__}")
