"""Encoded values as JSON texts, each written once for all clients of a gateway. Pure."""

from __future__ import annotations

from typing import Final

from peermesh.gateways.websocket.limits import SHARED_SIZE_MAX, TEXT_SIZE_MAX
from peermesh.gateways.websocket.mapping import members
from wire.decoding import decode
from wire.errors import DecodeError
from wire.limits import VALUE_DEPTH_MAX
from wire.shape import check_shape

VALUE_SIZE_MIN: Final = 32
"""Characters that each value within another takes at least: its type, and where its data is."""


class Texts:
    """Writes values, and remembers those that further clients will want in a moment."""

    def __init__(self, depth_max: int, entries_max: int) -> None:
        """Refuse values that are deeper, or hold more values, than that."""
        self._shape = depth_max, min(entries_max, TEXT_SIZE_MAX // VALUE_SIZE_MIN)
        # Each value takes a byte at least, and the decoder has a limit of depth itself.
        self._size_sure = self._shape[1] if depth_max >= VALUE_DEPTH_MAX else 0
        self._known: dict[bytes, str | None] = {}
        self._size = 0

    def find(self, payload: bytes) -> str | None:
        """Give the members of an encoded value's object; ``None`` if they would be too long.

        Raises ``DecodeError`` for what is no value.
        """
        # In JSON nothing is shorter.
        if len(payload) > TEXT_SIZE_MAX:
            return None
        if payload in self._known:
            return self._known[payload]
        found = self._write(payload)
        size = len(payload) + len(found or "")
        self._size += size
        if self._size > SHARED_SIZE_MAX:
            self._known.clear()
            self._size = size
        self._known[payload] = found
        return found

    def _write(self, payload: bytes) -> str | None:
        if len(payload) > self._size_sure:
            try:
                check_shape(payload, *self._shape)
            except DecodeError:
                return None
        found = members(decode(payload))
        return found if len(found) <= TEXT_SIZE_MAX else None
