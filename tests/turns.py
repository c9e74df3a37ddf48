"""Counts the turns of the loop, to see what shares one."""

from __future__ import annotations

import trio


class Turns(trio.abc.Instrument):
    """An instrument of trio."""

    def __init__(self) -> None:
        """Start with none."""
        self.count = 0

    def after_io_wait(self, timeout: float) -> None:
        """Count one."""
        self.count += 1
