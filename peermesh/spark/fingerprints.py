"""Fingerprints of what a job does: code, configuration and input, so that no result is outdated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from wire.encoding import encode
from wire.values import Value

BLOCK_SIZE: Final = 1 << 20
"""Bytes of a file that are read at a time."""


def fingerprint(*parts: Value | Path | FunctionType) -> str:
    """Give a text that changes with any of the parts.

    Of a function it is its code, its defaults and what it has captured, but not what it calls: name
    that too. Of a path it is what the file holds. Everything else is a value of the mesh, such as a
    table of settings. A new version of Python compiles code anew, and changes the text.
    """
    digest = hashlib.sha256()
    for part in parts:
        for block in _blocks(part):
            digest.update(block)
        digest.update(b"\xff")  # begins no encoded value: parts do not run into each other
    return digest.hexdigest()[:32]


def _blocks(part: Value | Path | FunctionType) -> Iterator[bytes]:
    if isinstance(part, Path):
        with part.open("rb") as file:
            while block := file.read(BLOCK_SIZE):
                yield hashlib.sha256(block).digest()
    elif isinstance(part, FunctionType):
        captured = [cell.cell_contents for cell in part.__closure__ or ()]
        yield from _code(part.__code__)
        yield encode(repr((part.__defaults__, part.__kwdefaults__, captured)))
    else:
        yield encode(part)


def _code(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield encode((code.co_names, code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant)
        else:
            yield encode(repr(constant))
