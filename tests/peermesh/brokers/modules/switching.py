"""A scheduler of threads that may switch to another one at every line of our code, by a seed.

Python gives a thread five milliseconds, in which it does whole operations: a lock that is missing
is hardly ever noticed. Here one thread runs at a time, for a drawn number of lines of the code
under test. Then the next is drawn, so that over many seeds two operations meet in every way.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from peermesh.brokers import modules
from peermesh.testing.time_limits import limit

FOLDER = str(Path(modules.__file__).parent)

STUCK_SECONDS = 0.002
"""A thread that came to no line for so long waits for a lock that a parked one holds, or has ended:
one of those goes on then. Where it was only slow, two run at once, as without all this."""


RUNS = 7
"""By its seed, a thread goes on for one line, or for up to 2, 4 and so on up to 64: some races take
a whole operation within one step of another thread, others take each step by turns."""


class Switching:
    """Parks threads at lines, all but one, whose turn it is."""

    def __init__(self, seed: int, stuck_seconds: float) -> None:
        self._chance = random.Random(seed)
        self._stuck_seconds = stuck_seconds
        self._mutex = threading.Lock()
        self._parked: dict[int, threading.Semaphore] = {}
        self._absent: set[int] = set()
        """Threads that are known to come to a line soon, and may be drawn before they do."""
        self._turn: int | None = None
        self._runs = 1 + seed % RUNS
        self._left = 0
        """Lines after which the next thread is drawn."""
        self._steps = 0
        self.switches = 0

    def run_together(self, calls: Sequence[Callable[[], object]]) -> list[Callable[[], object]]:
        """Have calls, each in a thread of its own, begin only when all those threads are there."""
        all_here = threading.Barrier(len(calls))

        def together(call: Callable[[], object]) -> Callable[[], object]:
            def run() -> None:
                me = threading.get_ident()
                with self._mutex:
                    self._absent.add(me)
                all_here.wait(limit())
                try:
                    call()
                finally:
                    with self._mutex:
                        self._absent.discard(me)

            return run

        return [together(call) for call in calls]

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Look at the frames of our code alone."""
        return self._at_line if frame.f_code.co_filename.startswith(FOLDER) else None

    def _at_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._switch(threading.get_ident())
        return self._at_line

    def _switch(self, me: int) -> None:
        with self._mutex:
            self._steps += 1
            self._absent.discard(me)
            woken = None
            if self._turn == me and self._left:
                self._left -= 1
                return
            if self._turn in (None, me):
                self._left = 2 ** self._chance.randrange(self._runs) - 1
                drawn = self._chance.choice([me, *self._parked, *sorted(self._absent)])
                if drawn == me:
                    self._turn = me
                    return
                self.switches += 1
                # One that is absent draws when it comes.
                woken = self._parked.pop(drawn, None)
                self._turn = None if woken is None else drawn
            mine = self._parked[me] = threading.Semaphore(0)
            seen = self._steps
        if woken is not None:
            woken.release()
        while not mine.acquire(timeout=self._stuck_seconds):
            with self._mutex:
                if self._steps == seen and self._parked.pop(me, None) is not None:
                    self._turn = me
                    self._steps += 1
                    return
                seen = self._steps


@contextmanager
def switching(seed: int, stuck_seconds: float = STUCK_SECONDS) -> Iterator[Switching]:
    """Switch the threads that are started within the block, at every line of ours."""
    scheduler = Switching(seed, stuck_seconds)
    before = threading.gettrace(), sys.gettrace()
    threading.settrace(scheduler.trace)
    try:
        yield scheduler
    finally:
        threading.settrace(before[0])
        sys.settrace(before[1])
