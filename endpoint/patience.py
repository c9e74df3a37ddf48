"""How long a reader looks again before it sleeps, in a conversation: busy polling. Pure.

To sleep and be woken takes a process longer than most answers take to come, above all in a virtual
machine: its core halts, the host runs something else on it, and the caches are cold afterwards. Who
looks again for some microseconds instead is answered in a third of the time, and takes less of the
processor than sleeping and waking would have. It pays in a conversation only: one has sent a little
and waits for what the other says to it. In a stream, whoever sleeps meanwhile reads more at once.
"""

from __future__ import annotations

from typing import Final

BUSY_POLL_MICROSECONDS: Final = 200
"""How long an endpoint stays awake for an answer, unless it is told otherwise: twice what a store
takes for a write and its receipt between two cores, and as long as Linux looks for work in a
virtual machine before it halts a core (``guest_halt_poll_ns``)."""

BUSY_POLL_MICROSECONDS_MAX: Final = 10_000
"""The longest that it may be told: to sleep and be woken takes a hundredth of that."""

PAUSE_MAX: Final = 1_024
"""Short waits slept through after looking in vain, at most. Where it never pays, as with more
processes than cores, it then takes less than a hundredth of the time; where it pays again, that is
found out in a fraction of a second."""


class Patience:
    """Learns from each wait of one connection whether the next is worth staying awake for."""

    def __init__(self, seconds: float) -> None:
        """Stay awake for so many ``seconds`` at most; never, if that is zero."""
        self._seconds = seconds
        self._is_eager = False
        self._pause = self._left = 1
        self.found_count = 0
        """Waits that were over before it was time to sleep."""

    @property
    def seconds(self) -> float:
        """For how long to look again before sleeping; zero is not at all."""
        return self._seconds if self._is_eager else 0.0

    def slept(self, seconds: float) -> None:
        """An answer came to somebody who slept for it at once, after so many ``seconds``."""
        if seconds < self._seconds:
            self._left -= 1
            self._is_eager = self._left <= 0

    def found(self) -> None:
        """An answer came to somebody who was awake."""
        self.found_count += 1
        self._pause = max(1, self._pause // 2)

    def missed(self) -> None:
        """No answer came in time, or none that was waited for: what pays again has to be seen."""
        self._is_eager = False
        self._pause = self._left = min(2 * self._pause, PAUSE_MAX)
