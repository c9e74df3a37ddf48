"""Listeners without a network: what they would read from a socket comes from bytes at hand."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import trio
import trio.testing

from wire.errors import MeshError


def pieces_of(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into pieces of a size; 0 is all of them at once."""
    ends = [*range(0, len(data), size or len(data) or 1), len(data)]
    return [data[begin:end] for begin, end in pairwise(ends)]


class Blunder(Exception):
    """A listener logged an error, as it does for what it had not expected."""


class _Raiser(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.blunder = self.blunder or Blunder(record.getMessage())
        self.blunder.__cause__ = cause

    blunder: Blunder | None = None


@contextmanager
def blunders_raised(name: str) -> Iterator[None]:
    """Raise what a part logs as its own mistake within the block; its other words are dropped."""
    logger, raiser = logging.getLogger(name), _Raiser(logging.ERROR)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(raiser)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(raiser)
        logger.setLevel(level)
        logger.propagate = propagates
    if raiser.blunder is not None:
        raise raiser.blunder


def run(function: Callable[[], Awaitable[None]]) -> None:
    """Run something in virtual time: whatever waits for a time-out has it at once."""
    trio.run(function, clock=trio.testing.MockClock(autojump_threshold=0))


def tell(error: MeshError) -> str:
    """Say an error, which has to be possible whatever it quotes."""
    text = str(error)
    text.encode()
    return text
