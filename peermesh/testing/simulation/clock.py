"""Virtual time: it jumps to whatever comes next, as soon as no task can run.

Trio asks its clock how long to sleep when nothing is runnable, and only then. The answer is always
not at all: by then the clock shows the time of the next deadline, or the network has delivered what
came before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from peermesh.testing.simulation.network import Network
from peermesh.testing.simulation.scheduling import Scheduler, is_somebody_waiting_for_idle

IDLE_SECONDS: Final = 1_000.0
"""What trio is told when a task waits for all others to block: it wakes that task before."""


class NothingLeft(Exception):  # a fact about the tasks of a test
    """No task can run, and nothing will ever wake one."""


class VirtualClock(trio.abc.Clock):
    """A clock that never waits."""

    def __init__(self, network: Network, scheduler: Scheduler, awaken: Callable[[], None]) -> None:
        """Serve the events of ``network`` in between; call ``awaken()`` after each instant."""
        self.now = 0.0
        self._network = network
        self._agenda = network.agenda
        self._scheduler = scheduler
        self._awaken = awaken
        self._steps_seen = -1
        self.is_over = False
        """Whether time stands, because the simulation ended: only trio itself goes on."""

    def start_clock(self) -> None:
        """Begin at zero."""

    def current_time(self) -> float:
        """Give the virtual time in seconds."""
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Go on to the next event or deadline."""
        if self._scheduler.has_released:
            return 0.0
        if is_somebody_waiting_for_idle():
            return IDLE_SECONDS
        at = math.inf if self.is_over else min(deadline, self._agenda.next_at)
        if at == math.inf:
            self._wait_for_trio()
            return 0.0
        if at > self.now:
            self.now = at
            self._scheduler.quiet_batches = 0
        if self._agenda.next_at <= self.now:
            self._agenda.advance(self.now)
            self._awaken()
        return 0.0

    def _wait_for_trio(self) -> None:
        """Return at once if trio has woken itself up already, as it does at its end."""
        if self._steps_seen == self._scheduler.steps:
            raise NothingLeft("all tasks wait for something that no event will ever bring about")
        self._steps_seen = self._scheduler.steps


async def elapse(seconds: float) -> None:
    """Let virtual time pass, for a test that owns the clock.

    Raises ``RuntimeError`` where time is real: there a test that sleeps is flaky.
    """
    if not isinstance(trio.lowlevel.current_clock(), VirtualClock):
        raise RuntimeError(
            "elapse() is for simulations, and time is real here: wait for what has to become true"
        )
    await trio.sleep(seconds)
