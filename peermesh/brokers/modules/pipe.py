"""The line between a process module and its broker: values in frames, over a pair of sockets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable
from struct import Struct
from typing import Final

from wire.decoding import decode
from wire.encoding import encode
from wire.limits import KIB, PAYLOAD_SIZE_MAX
from wire.values import Value

PIECE_SIZE: Final = 64 * KIB
"""Bytes that are made room for before they have come: a length alone costs the sender nothing."""

_LENGTH: Final = Struct("!I")


class Pipe:
    """One end of the line. Any thread may send, one receives."""

    def __init__(self, sock: socket.socket) -> None:
        """Own the socket."""
        self._socket = sock
        self._sending = threading.Lock()
        self._input = sock.makefile("rb", PIECE_SIZE)

    def send(self, value: Value) -> None:
        """Send a value whole; raises ``OSError`` when the other side is gone."""
        self.write([encode(value)])

    def write(self, encoded: Iterable[bytes]) -> None:
        """Send encoded values in one write; raises ``OSError`` when the other side is gone."""
        pieces: list[bytes] = []
        for data in encoded:
            pieces += (_LENGTH.pack(len(data)), data)
        with self._sending:
            self._socket.sendall(b"".join(pieces))

    def receive(self) -> Value | None:
        """Wait for a value; ``None`` at the end. Raises ``DecodeError``."""
        try:
            head = self._input.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                return None
            (size,) = _LENGTH.unpack(head)
            body = self._read(size) if size <= PAYLOAD_SIZE_MAX else b""
        except (OSError, ValueError):
            return None
        return decode(body) if len(body) == size else None

    def _read(self, size: int) -> bytes:
        """Wait for so many bytes; fewer at the end."""
        pieces: list[bytes] = []
        while size and (piece := self._input.read(min(size, PIECE_SIZE))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """End the line."""
        with contextlib.suppress(OSError):  # The other side was faster.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._input.close()
        self._socket.close()
