"""One direction of one connection: what comes in, and when it may go out. Pure.

A pipe keeps the order of what it is given, as TCP does. Bytes fly until they are due, then they
wait until the driver has handed them to the receiver. Both are bounded: whoever sends into a full
pipe has to wait, as with TCP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, unique
from math import inf
from typing import Final

from peermesh.testing.conditions import HEALTHY, Conditions

READ_SIZE_MAX: Final = 64 * 1024
"""Bytes taken from the sender at once: what a socket gives in one call, as a rule."""

WAITING_SIZE_MAX: Final = 64 * 1024
"""Bytes that are due and that the receiver has not taken. More would hide a slow receiver from its
sender, who has the buffers of two more sockets on the way already."""

FLYING_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes on their way. A delay does not make a link slower as long as this is more than delay times
throughput: at 0.1 s it lets 160 MB a second through, more than a proxy in Python carries."""

SLICE_SECONDS: Final = 0.02
"""A limited rate passes what fits into so much time at once, so that bytes trickle, not gush."""

PACKET_SIZE: Final = 1_460
"""Bytes of a TCP packet on Ethernet: what is lost at once."""

RESEND_SECONDS: Final = 0.2
"""After so long TCP sends a lost packet again: Linux's shortest time. It doubles with each loss."""

RESENDS_MAX: Final = 9
"""Losses in a row of one packet that are believed: 0.2 s doubled so often is the 102 s after which
Linux does not wait any longer from one attempt to the next."""

Chance = Callable[[], float]
"""Gives numbers from 0 up to 1: ``random.Random(seed).random``."""


@unique
class Ending(Enum):
    """How a direction of a connection ends."""

    END = "end"
    """In order: everything was sent before."""
    ABORT = "abort"
    """The sender is gone, or has reset the connection."""


class Pipe:
    """Decides when the bytes of one direction arrive. Times are seconds of any monotonic clock."""

    def __init__(self, conditions: Conditions, chance: Chance) -> None:
        """Begin empty, under these conditions."""
        self._conditions = conditions
        self._chance = chance
        self._flying: deque[tuple[float, memoryview | Ending]] = deque()
        self._landed: deque[memoryview | Ending] = deque()
        self._flying_size = 0
        self._landed_size = 0
        self._line_free_at = -inf
        self._is_aborted = False
        self.resends = 0
        """Packets that were lost and came later."""

    # Towards the sender.

    def read_size(self, now: float) -> int:
        """Say how many bytes to take from the sender; 0 is none at the moment."""
        self._land(now)
        is_full = self._landed_size >= WAITING_SIZE_MAX or self._flying_size >= FLYING_SIZE_MAX
        if self._conditions.is_held or is_full or self._line_free_at > now:
            return 0
        return self._slice_size()

    def read_at(self, now: float) -> float:
        """Say when there is room again by time alone; ``inf`` if it takes something else."""
        is_by_rate = self._line_free_at > now and not self._conditions.is_held
        return self._line_free_at if is_by_rate else inf

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes from the sender."""
        view = memoryview(data)
        size = self._slice_size()
        for start in range(0, len(view), size):
            part = view[start : start + size]
            self._flying_size += len(part)
            leaves_at = self._leave_line(len(part), now)
            self._fly(part, leaves_at + self._stall(len(part)))

    def end(self, now: float) -> None:
        """Take the end of the stream from the sender."""
        self._close(Ending.END, now)

    def abort(self, now: float) -> None:
        """Learn that the sender is gone. What it sent before still arrives."""
        if not self._is_aborted:
            self._is_aborted = True
            self._close(Ending.ABORT, now)

    # Towards the receiver.

    def peek(self, now: float) -> memoryview | Ending | None:
        """Give what the receiver has to get now, if anything."""
        if self._conditions.is_held:
            return None
        self._land(now)
        return self._landed[0] if self._landed else None

    def advance(self, size: int) -> None:
        """Learn that the receiver has taken so many of the bytes shown, or the ending (0)."""
        head = self._landed.popleft()
        if isinstance(head, memoryview):
            self._landed_size -= size
            if size < len(head):
                self._landed.appendleft(head[size:])

    def wake_at(self) -> float:
        """Say when something is due that is not yet; ``inf`` if nothing is."""
        if self._conditions.is_held or not self._flying:
            return inf
        return self._flying[0][0]

    # The link.

    def change(self, conditions: Conditions, now: float) -> None:
        """Stand under other conditions. What flies comes as it would have; healed, at once."""
        if conditions.rate != self._conditions.rate:
            self._line_free_at = -inf
        self._conditions = conditions
        if conditions == HEALTHY:
            self._flying = deque((now, what) for _, what in self._flying)

    # Within.

    def _slice_size(self) -> int:
        rate = self._conditions.rate
        if rate is None:
            return READ_SIZE_MAX
        return min(READ_SIZE_MAX, max(1, int(rate.bytes_per_second * SLICE_SECONDS)))

    def _leave_line(self, size: int, now: float) -> float:
        """Put bytes on the line; give the time at which the last of them has left it."""
        if self._conditions.rate is None:
            return now
        begins_at = max(now, self._line_free_at)
        self._line_free_at = begins_at + size / self._conditions.rate.bytes_per_second
        return self._line_free_at

    def _close(self, ending: Ending, now: float) -> None:
        slow_close = self._conditions.slow_close
        later = slow_close.seconds if slow_close else 0.0
        self._fly(ending, max(now, self._line_free_at) + self._stall(1) + later)

    def _fly(self, what: memoryview | Ending, leaves_at: float) -> None:
        """Send on the way. What is due before the one in front of it waits for that."""
        self._flying.append((leaves_at + self._travel(), what))

    def _travel(self) -> float:
        delay = self._conditions.delay
        if delay is None:
            return 0.0
        return delay.seconds + delay.jitter * (2 * self._chance() - 1 if delay.jitter else 0.0)

    def _stall(self, size: int) -> float:
        """Give the time by which losses hold these bytes up.

        Packets of one flight are sent again together: it waits for the unluckiest.
        """
        loss = self._conditions.loss
        if loss is None or loss.probability in (0, 1):
            return 0.0
        packets = -(-size // PACKET_SIZE)
        losses = [self._losses(loss.probability) for _ in range(packets)]
        self.resends += sum(losses)
        return RESEND_SECONDS * ((1 << max(losses)) - 1)

    def _losses(self, probability: float) -> int:
        count = 0
        while count < RESENDS_MAX and self._chance() < probability:
            count += 1
        return count

    def _land(self, now: float) -> None:
        flying = self._flying
        while flying and flying[0][0] <= now:
            _, what = flying.popleft()
            self._landed.append(what)
            if isinstance(what, memoryview):
                self._flying_size -= len(what)
                self._landed_size += len(what)
