"""Writes to stderr, and waits for none that reads it: an endpoint goes on while nothing does."""

from __future__ import annotations

import atexit
import os
import select
import sys
from collections import deque
from contextlib import suppress
from io import UnsupportedOperation
from threading import Condition, Thread
from typing import Final

WAITING_MAX: Final = 1 << 20
"""Bytes that wait for a reader at most: some thousand lines, of which the first tell the cause."""

LAST_SECONDS: Final = 2.0
"""How long a process that ends waits for a reader: one that is only slow has read by then."""


class Stderr:
    """Where errors and log lines go: what it has no room for waits, and a thread writes it."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._changed = Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._lost = 0

    def write(self, text: str) -> None:
        """Write text, or keep it until it can be written; beyond ``WAITING_MAX`` it is lost.

        A stderr that is closed, or broken, ends nothing.
        """
        if sys.stderr is None:
            return
        try:
            number = sys.stderr.fileno()
        except UnsupportedOperation:  # Another program has put something in its place.
            sys.stderr.write(text)
            return
        data = text.encode(sys.stderr.encoding, "backslashreplace")
        with self._changed:
            if not self._waiting and len(data) <= select.PIPE_BUF and has_room(number):
                _write_all(number, data)
            elif self._size + len(data) > WAITING_MAX:
                self._lost += 1
            else:
                self._keep(data)
                if len(self._waiting) == 1:
                    Thread(target=self._write_waiting, args=(number,), daemon=True).start()

    def settle(self) -> None:
        """Wait until nothing waits, for ``LAST_SECONDS`` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, LAST_SECONDS)

    def _keep(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)

    def _write_waiting(self, number: int) -> None:
        is_done = False
        while not is_done:
            _write_all(number, self._waiting[0])
            with self._changed:
                self._size -= len(self._waiting.popleft())
                if self._lost:
                    told = f"peermesh: {self._lost} more were not written: nothing read stderr\n"
                    self._keep(told.encode())
                    self._lost = 0
                is_done = not self._waiting
                self._changed.notify_all()


STDERR: Final = Stderr()
atexit.register(STDERR.settle)


def has_room(number: int) -> bool:
    """Tell whether what is read through a descriptor takes ``PIPE_BUF`` bytes without waiting."""
    poll = select.poll()
    poll.register(number, select.POLLOUT)
    return bool(poll.poll(0))


def _write_all(number: int, data: bytes) -> None:
    """Write with no lock of Python's, in which a thread that is left behind would break its end."""
    with suppress(OSError):  # It is broken, or its disk full: there is none to tell.
        while data:
            data = data[os.write(number, data) :]
