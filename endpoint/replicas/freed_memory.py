"""Gives memory back to the system after much of a store or log is gone; glibc would keep it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

import trio

from wire.limits import MIB

TRIM_SIZE: Final = 32 * MIB
"""Bytes by which a store or log shrinks before memory is given back: a history may still hold as
many, and giving them back takes a tenth of a second on a busy machine."""

TRIM_TICKS: Final = 10
"""Ticks of the loop from that moment on, a second: what is gone is then told, and let go of."""

_trimming = threading.Lock()


class Shrinkage:
    """Notices that one store or log has become much smaller. Pure."""

    def __init__(self) -> None:
        """Start empty."""
        self._largest = 0
        self._ticks = 0

    def tick(self, size: int) -> bool:
        """Take in the size now, in bytes; true if memory is to be given back."""
        self._largest = max(self._largest, size)
        if self._largest - size < TRIM_SIZE:
            self._ticks = 0
            return False
        self._ticks += 1
        if self._ticks < TRIM_TICKS:
            return False
        self._largest, self._ticks = size, 0
        return True


async def give_back() -> None:
    """Have the C library give back what is free, in a thread, while the loop goes on."""
    # A process without another thread, or without ctypes, does better with too much memory than
    # without this store.
    with suppress(ImportError, OSError, RuntimeError):
        await trio.to_thread.run_sync(trim, abandon_on_cancel=True)


def trim() -> bool:
    """Give back what is free; false if that is under way, or the C library is not glibc.

    It keeps blocks that were freed for the next ones, since ``net.transport`` tells it so: values
    of some kilobytes lie among others, of which one is enough to keep all before it.
    """
    if not _trimming.acquire(blocking=False):
        return False
    try:
        import ctypes  # It is large, and most endpoints never need it.

        function = getattr(ctypes.CDLL(None), "malloc_trim", None)
        return function is not None and bool(function(0))
    finally:
        _trimming.release()
