"""How long a test may wait for what should come true: longer where the machine is seen to be slow.

A wait ends as soon as what it waits for is true, so a generous limit costs failing tests alone. On
a machine with other things to do, no fixed number is generous: a process that gets a tenth of a
core needs ten times as long. So a limit is given for an idle machine, and stretched at the moment
when it is asked for by how long a small piece of work takes then. That sees all that makes a
machine slow: other processes, other threads, a quota, an old CPU. A simulation has time of its own,
which no load slows down: there limits stay as they are.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

TRUTH_SECONDS: Final = 30.0
"""How long one truth may take on an idle machine: about a hundred times what any takes there."""

SLOWNESS_MAX: Final = 40.0
"""Where stretching ends: a laptop that was shut during the measurement has not been slow."""

WORK_ROUNDS: Final = 400_000
"""The piece of work: long enough to be interrupted a few times where several want the same core."""

WORK_SECONDS: Final = 0.02
"""What that takes on an idle machine of 2020; a faster one counts as this one does."""

LOOK_AGAIN_SECONDS: Final = 3.0
"""How old a measurement may be: asking costs nothing in between."""

LOOKS_KEPT: Final = 10
"""How many measurements count, of which the worst is taken: a single one may have had luck."""


class Slowness:
    """How slow the machine was seen to be lately: the worst of the last few looks."""

    def __init__(self, work: Callable[[], float], now: Callable[[], float]) -> None:
        """Look with ``work``, which gives the seconds that the piece of work took."""
        self._work = work
        self._now = now
        self._looked_at = -math.inf
        self._looks: deque[float] = deque(maxlen=LOOKS_KEPT)

    def factor(self) -> float:
        """Say how many times as long as on an idle machine things take now; 1 at least."""
        if self._now() - self._looked_at >= LOOK_AGAIN_SECONDS:
            self._looks.append(self._work() / WORK_SECONDS)
            self._looked_at = self._now()
        return min(max(1.0, *self._looks), SLOWNESS_MAX)

    def limit(self, seconds: float) -> float:
        """Stretch a limit, unless time is simulated."""
        return seconds if _is_simulated() else seconds * self.factor()


def work_once() -> float:
    """Do the piece of work, and give the seconds that it took."""
    began = time.perf_counter()
    for _ in range(WORK_ROUNDS):
        pass
    return time.perf_counter() - began


def _is_simulated() -> bool:
    clocks = sys.modules.get("peermesh.testing.simulation.clock")  # not imported for this alone
    if clocks is None or not trio.lowlevel.in_trio_run():
        return False
    return isinstance(trio.lowlevel.current_clock(), clocks.VirtualClock)


_HERE: Final = Slowness(work_once, time.monotonic)


def slowness() -> float:
    """Say how many times as long as on an idle machine things take here and now; 1 at least."""
    return _HERE.factor()


def limit(seconds: float = TRUTH_SECONDS) -> float:
    """Give the limit of a wait, in seconds, that starts now: ``seconds`` is for an idle machine."""
    return _HERE.limit(seconds)
