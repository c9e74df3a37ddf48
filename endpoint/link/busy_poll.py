"""How long a reader looks again before it sleeps, in a conversation: busy polling. Pure.

To sleep and be woken takes a process longer than most answers take to come, above all in a virtual
machine: its core halts, the host runs something else on it, and the caches are cold afterwards. Who
looks again for some microseconds instead is answered in a third of the time, for as much of the
processor as waking takes, if the answer comes within that. It pays in a conversation only: one has
sent a little and waits for what the other says to it. In a stream, whoever sleeps meanwhile reads
more at once. And it pays only where nobody else wants the core.
"""

from __future__ import annotations

from typing import Final

from wire.limits import KIB

BUSY_POLL_MICROSECONDS: Final = 600
"""How long an endpoint stays awake for an answer, unless it is told otherwise: three times as long
as the slowest answer of the mesh's own takes, a store's to a clone that put something, on a slow
core. With two thirds of that such a conversation fell asleep now and then, and took a quarter
longer."""

BUSY_POLL_MICROSECONDS_MAX: Final = 10_000
"""The longest that it may be told: to sleep and be woken takes a hundredth of that."""

CONVERSATION_SIZE: Final = 64 * KIB
"""Bytes sent at once since the other side spoke last, from which on it is no conversation: a small
part of what a stream sends before it hears of credit."""

LOOKS_MIN: Final = 4
"""Looks before anything was said: in so many passes of the loop, a user's task has woken up and
answered what was delivered to it."""

PAUSE_MAX: Final = 256
"""Short waits slept through after looking in vain, at most: with the usual 600 µs, to look in vain
then takes about a thirtieth of a conversation's time; and it is tried again within a third of a
second."""

SLEPT_FACTOR: Final = 2
"""A wait that was slept through is worth a try if it took less than so many times as long as one
may look: where both ends sleep, being woken is about half of it."""

WORKED_MIN: Final = 0.5
"""Part of the time for which whoever looked had the core, at least. Otherwise somebody else needs
it, most likely the one who is to answer."""


class BusyPoll:
    """Learns from each wait of one connection whether the next is worth staying awake for.

    ``now`` is any clock in seconds, and ``said`` the bytes sent at once since the wait began.
    """

    def __init__(self, seconds: float) -> None:
        """Stay awake for so many ``seconds`` at most; never, if that is zero."""
        self.seconds = seconds
        self.is_eager = False
        """Whether the next wait is worth staying awake for."""
        self.success_count = 0
        """Waits for which that paid."""
        self._pause = self._left = 1
        self.begin(0.0)

    def begin(self, now: float) -> bool:
        """Begin to wait; true is to look while ``may_look``, false to sleep at once."""
        self._since, self._looks = now, 0
        return self.is_eager

    def may_look(self, now: float, said: int) -> bool:
        """Tell whether to look once more; false ends the looking, and it is time to sleep."""
        is_time = now - self._since < self.seconds
        if is_time and (_is_conversation(said) or self._looks < LOOKS_MIN):
            self._looks += 1
            return True
        self._fail()
        return False

    def found(self, now: float, said: int, worked: float) -> None:
        """Something came while looking, which took ``worked`` seconds of the processor."""
        seconds = now - self._since
        if worked >= WORKED_MIN * seconds and _is_conversation(said):
            self.success_count += 1
            self._pause = max(1, self._pause >> 1)
        else:
            self._fail()

    def slept(self, now: float, said: int) -> None:
        """Something came to whoever slept from the beginning."""
        if _is_conversation(said) and now - self._since < SLEPT_FACTOR * self.seconds:
            self._left -= 1
            self.is_eager = self._left <= 0

    def _fail(self) -> None:
        self.is_eager = False
        self._pause = self._left = min(2 * self._pause, PAUSE_MAX)


def _is_conversation(said: int) -> bool:
    return 0 < said < CONVERSATION_SIZE
