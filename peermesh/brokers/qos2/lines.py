"""Bytes into lines, and bodies into lines and back: how both dialogues are framed.

A body ends with a line ``END``. With ``stuffed``, a line of the body that says ``END`` or begins
with a dot is sent with a dot more; with ``lengths`` the body is as many bytes as its ``BEGIN``
says, and a line feed.
"""

from __future__ import annotations

import hashlib
from typing import Final

from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.limits import LINE_SIZE_MAX

END: Final = b"END"
DOT: Final = b"."


class LineDecoder:
    """Bytes of one connection, cut anywhere: gives lines, and bodies of a known size."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._buffer = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """Take in what has come; give it out before feeding more, and little is held."""
        self._buffer += data

    def __len__(self) -> int:
        """Count the bytes that are held."""
        return len(self._buffer)

    def take(self, size: int | None) -> bytes | None:
        """Give the next ``size`` bytes, or for ``None`` the next line with its end.

        ``None`` means that it has not come yet. Raises ``DialogueError`` for a line without end.
        """
        if size is not None:
            return self._cut(size) if len(self._buffer) >= size else None
        end = self._buffer.find(b"\n", self._searched)
        if (len(self._buffer) if end < 0 else end) >= LINE_SIZE_MAX:
            raise DialogueError("LINE TOO LONG")
        self._searched = len(self._buffer)
        return None if end < 0 else self._cut(end + 1)

    def _cut(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._searched = 0
        return taken


def is_end(line: bytes) -> bool:
    """Tell whether a line ends a body."""
    return line.strip() == END


def stuff(payload: bytes) -> bytes:
    """Make lines of a payload among which none ends it. It ends with a line feed."""
    return b"".join(
        DOT + line if line.startswith(DOT) or is_end(line) else line for line in lines_of(payload)
    )


def unstuff(line: bytes) -> bytes:
    """Take back what ``stuff`` did to a line."""
    return line.removeprefix(DOT)


def lines_of(payload: bytes) -> list[bytes]:
    """Cut a payload into lines, each with a line feed; one is added to the last if it has none."""
    if payload and not payload.endswith(b"\n"):
        payload += b"\n"
    return [line + b"\n" for line in payload.split(b"\n")[:-1]]


def can_be_plain(payload: bytes) -> bool:
    """Tell whether the plain dialogue can carry a payload, up to its last line feed."""
    return not any(is_end(line) for line in lines_of(payload))


def digest(payload: bytes) -> str:
    """Give the MD5 by which a consumer names a message. It protects against nobody."""
    return hashlib.md5(payload, usedforsecurity=False).hexdigest()


def plain_digests(payload: bytes) -> frozenset[str]:
    r"""Give the MD5s by which a person may name a message: telnet says ``\r\n``, a shell not.

    The payload as it is, with and without its last line end, and each with plain line feeds.
    """
    unix = payload.replace(b"\r\n", b"\n")
    forms = {payload, unix}
    for form in (payload, unix):
        whole = form if form.endswith(b"\n") else form + b"\n"
        forms |= {whole, whole[:-1].removesuffix(b"\r")}
    return frozenset(map(digest, forms))
