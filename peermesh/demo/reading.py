"""Reads the lines of a file of events, plain or gzip, always in the same way."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Generator
from typing import BinaryIO, Final, cast

from peermesh.demo.errors import InputError
from peermesh.demo.keys import LINE_SIZE_MAX

GZIP_MAGIC: Final = b"\x1f\x8b"


def read_lines(
    path: str | os.PathLike[str], first: int = 1
) -> Generator[tuple[int, bytes], None, None]:
    """Give line ``first`` and all after it, numbered from one, without their ends.

    Of a line that is too long come one byte more than ``LINE_SIZE_MAX``, so that it shows. Raises
    ``InputError``.
    """
    name = os.fspath(path)
    number = 0
    try:
        with _open(name) as file:
            while line := _read_line(file):
                number += 1
                if number >= first:
                    yield number, line.removesuffix(b"\n")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"{name} is damaged after line {number} ({error}): get the file again"
        ) from error
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}; check the path") from error


def _open(name: str) -> BinaryIO:
    if os.path.exists(name) and not os.path.isfile(name):
        # It is read several times, from the middle too: a pipe cannot do that.
        raise InputError(f"{name} is no regular file: name a file of JSON lines, plain or gzip")
    with open(name, "rb") as file:
        is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast("BinaryIO", gzip.open(name) if is_compressed else open(name, "rb"))


def _read_line(file: BinaryIO) -> bytes:
    line = file.readline(LINE_SIZE_MAX + 1)
    if len(line) > LINE_SIZE_MAX and not line.endswith(b"\n"):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(LINE_SIZE_MAX)
        line += b"\n" if rest else b""
    return line
