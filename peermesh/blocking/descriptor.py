"""A descriptor that is readable while a handle has something to read, for ``select``."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress


class Descriptor:
    """An eventfd of one handle. Linux has them, other systems have not."""

    def __init__(self, owner: object) -> None:
        """Open it; it is closed with ``close``, or when its ``owner`` is collected."""
        self.number = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._close = weakref.finalize(owner, os.close, self.number)
        self._lock = threading.Lock()

    def settle(self, is_readable: Callable[[], bool]) -> None:
        """Have it readable if there is something to read, and only then."""
        with self._lock:
            if not self._close.alive:
                return
            # Not cleared first: another thread may look just then.
            if is_readable():
                os.eventfd_write(self.number, 1)
            else:
                with suppress(BlockingIOError):
                    os.eventfd_read(self.number)

    def close(self) -> None:
        """Close it; does nothing the second time."""
        with self._lock:
            self._close()

    def forked(self) -> None:
        """Close it in a child process, without the lock, which may be another thread's there."""
        self._lock = threading.Lock()
        self._close()
