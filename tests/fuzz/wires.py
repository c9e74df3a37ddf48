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


class HeardTransport:
    """A transport that gives what it was made of, and then ends. What is sent is counted."""

    sends_now = False

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)
        self.bytes_sent = 0
        self.is_closed = False

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return next(self._pieces, b"")

    def send_now(self, data: bytes) -> int:
        return 0

    async def send_pieces(self, pieces: list[bytes | memoryview]) -> None:
        await trio.lowlevel.checkpoint()
        self.bytes_sent += sum(map(len, pieces))

    def close(self) -> None:
        self.is_closed = True


class HeardStream(trio.abc.Stream):
    """The same as a stream of a socket."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._transport = HeardTransport(pieces)
        self.socket = self._transport
        self.sent = bytearray()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._transport.receive()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.sent += data

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._transport.close()
        await trio.lowlevel.checkpoint()

    def setsockopt(self, *_option: object) -> None:
        """There is no socket."""


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
