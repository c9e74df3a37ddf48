"""One TCP connection between two ends: what its users see of it. Pure.

Bytes arrive in order, late, or never; buffers are finite; each direction ends by itself; a reset
ends both. The errors are those of Linux, at the same calls: a test holds both against one contract.
"""

from __future__ import annotations

import errno
import math
from collections import deque
from collections.abc import Callable
from enum import Enum, unique
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from zlib import crc32

from peermesh.testing.simulation.agenda import Agenda
from peermesh.testing.simulation.conditions import (
    RETRANSMISSION_SECONDS_MIN,
    Conditions,
    next_repetition,
    on_grid,
)

if TYPE_CHECKING:
    from random import Random

CAPACITY: Final = 256 * 1024
"""Bytes of one direction that were sent and not read: what a sender's and a receiver's buffer of a
kernel hold together, before they grow."""

GIVE_UP_SECONDS: Final = 924.6
"""Linux gives a connection up that nobody answers after 15 repetitions of its last packet."""

_TEXTS: Final = {
    errno.EADDRINUSE: "Address already in use",
    errno.EADDRNOTAVAIL: "Cannot assign requested address",
    errno.EAFNOSUPPORT: "Address family not supported by protocol",
    errno.EAGAIN: "Resource temporarily unavailable",
    errno.EBADF: "Bad file descriptor",
    errno.ECONNREFUSED: "Connection refused",
    errno.ECONNRESET: "Connection reset by peer",
    errno.EHOSTUNREACH: "No route to host",
    errno.EINVAL: "Invalid argument",
    errno.ENOTCONN: "Transport endpoint is not connected",
    errno.EPIPE: "Broken pipe",
    errno.ETIMEDOUT: "Connection timed out",
}

Address = tuple[str, int]


@unique
class Mark(Enum):
    """What travels with the bytes of a stream besides bytes."""

    OPEN = "open"
    """The last packet of the handshake: the listener has the connection now."""
    FIN = "fin"
    """The sender sends no more."""


class Path(Protocol):
    """One direction between two hosts, as long as both have power."""

    conditions: Conditions

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through."""


class Surface(Protocol):
    """Where the ends of connections live: all that they share."""

    agenda: Agenda
    chance: Random
    checksum: int
    """Of all bytes that anybody sent, in their order."""

    def wake(self, end: object) -> None:
        """Something changed for those who wait for this end."""

    def tell(self, now: float, kind: str, *details: object) -> None:
        """Something happened that a trace should show."""


class Segment(NamedTuple):
    """Bytes or a mark on the way, and when they are there."""

    sent: float
    arrival: float
    payload: bytes | Mark


class Lane:
    """One direction of a connection."""

    def __init__(self, surface: Surface, path: Path) -> None:
        """Begin empty."""
        self.path = path
        self.back: Path = path
        """The way of the answers; set by ``connect``."""
        self.sender: End
        self.receiver: End
        self.used = 0
        """Bytes sent whose place is not free again, as far as the sender has heard."""
        self.is_awaited = False
        """Whether somebody waits for a free place."""
        self.is_over = False
        """Whether the connection was reset: nothing travels any more."""
        self.is_done = False
        """Whether everything that will ever arrive has arrived."""
        self._surface = surface
        self._segments: deque[Segment] = deque()
        self._last_arrival = 0.0
        self._answers: deque[tuple[float, int]] = deque()
        self._stalled_at: float | None = None
        self._stalls = 0

    def send(self, now: float, payload: bytes | Mark) -> None:
        """Put bytes or a mark on the way."""
        conditions, chance = self.path.conditions, self._surface.chance
        size = 0 if isinstance(payload, Mark) else len(payload)
        self.used += size
        first = conditions.split(size, chance)
        if first < size:
            assert not isinstance(payload, Mark)
            self._put(now, payload[:first], first)
            payload, size = payload[first:], size - first
        self._put(now, payload, size)

    def _put(self, now: float, payload: bytes | Mark, size: int) -> None:
        conditions = self.path.conditions
        arrival = conditions.transmit(size, now) + conditions.delay(self._surface.chance)
        if payload is Mark.FIN:
            arrival += conditions.close_delay
        arrival = max(on_grid(arrival), self._last_arrival)
        self._last_arrival = arrival
        self._segments.append(Segment(now, arrival, payload))
        if self.path.is_cut:
            self._stall(now)
        elif len(self._segments) == 1:
            self._surface.agenda.add(arrival, self._arrive)

    def _arrive(self, now: float) -> None:
        if self._stalled_at is not None or self.is_over:
            return
        if self.path.is_cut:
            self._stall(now)
            return
        segments = self._segments
        while segments and segments[0].arrival <= now and not self.is_over:
            payload = segments.popleft().payload
            self.is_done |= payload is Mark.FIN
            self.receiver.take_in(now, payload)
        if segments and not self.is_over:
            self._surface.agenda.add(segments[0].arrival, self._arrive)
        if self.back.is_cut and self._stalled_at is None:
            self._wait_for_answer(now)

    # Silence.

    def _stall(self, now: float) -> None:
        if self._stalled_at is None:
            self._stalled_at = now
            self._wait_for_answer(now)

    def _wait_for_answer(self, now: float) -> None:
        self._stalls += 1
        stall = self._stalls

        def give_up(now: float) -> None:
            if self._stalls == stall and not self.is_over:
                self.sender.fail(now, errno.ETIMEDOUT)

        self._surface.agenda.add(now + GIVE_UP_SECONDS, give_up)

    def heal(self, now: float) -> None:
        """The paths work again: what TCP repeats gets through, the next time."""
        if self.is_over:
            return
        if not self.back.is_cut:
            self._hear_answers(now)
        if self._stalled_at is None or self.path.is_cut:
            return
        again = next_repetition(self._stalled_at, now)
        self._stalled_at = None
        base = on_grid(again + self.path.conditions.delay(self._surface.chance))
        self._last_arrival = max(self._last_arrival, base)
        self._move([max(segment.arrival, base) for segment in self._segments])

    def hurry(self, now: float) -> None:
        """Whatever made bytes late is over: they come when TCP repeats them, if that is sooner.

        The oldest are repeated when their time comes, and the others soon after these have arrived,
        since every answer lets the pauses begin anew.
        """
        if self.is_over or self._stalled_at is not None or not self._segments:
            return
        oldest = self._segments[0]
        delay = self.path.conditions.delay(self._surface.chance)
        first = min(oldest.arrival, on_grid(next_repetition(oldest.sent, now) + delay))
        rest = on_grid(first + RETRANSMISSION_SECONDS_MIN)
        self._last_arrival = min(self._last_arrival, rest)
        self._move([first, *(min(each.arrival, rest) for each in islice(self._segments, 1, None))])

    def _move(self, arrivals: list[float]) -> None:
        """Have the segments arrive at these times."""
        moved = zip(arrivals, self._segments, strict=True)
        self._segments = deque(segment._replace(arrival=at) for at, segment in moved)
        if self._segments:
            self._surface.agenda.add(self._segments[0].arrival, self._arrive)

    def _hear_answers(self, now: float) -> None:
        if not self.path.is_cut:
            self._stalls += 1  # Nobody gives up.
        soon = on_grid(now + self.back.conditions.latency)
        self._answers = deque((min(at, soon), size) for at, size in self._answers)
        self._await_answer()

    # Room.

    def room(self, now: float) -> int:
        """How many bytes the sender may give."""
        answers = self._answers
        while answers and answers[0][0] <= now:
            self.used -= answers.popleft()[1]
        return CAPACITY - self.used

    def was_read(self, now: float, size: int) -> None:
        """The receiver has room again, and the sender hears of it later."""
        back = self.back
        at = math.inf if back.is_cut else on_grid(now + back.conditions.latency)
        self._answers.append((at, size))
        if self.is_awaited:
            self._await_answer()

    def await_room(self) -> None:
        """Wake the sender when there is room."""
        if not self.is_awaited:
            self.is_awaited = True
            self._await_answer()

    def _await_answer(self) -> None:
        if self.is_awaited and self._answers and self._answers[0][0] < math.inf:
            self._surface.agenda.add(self._answers[0][0], self._on_answer)

    def _on_answer(self, now: float) -> None:
        if self.is_awaited and self.room(now) > 0:
            self.is_awaited = False
            self._surface.wake(self.sender)

    def end(self) -> None:
        """Nothing travels any more."""
        self.is_over = self.is_done = True
        self._segments.clear()


class End:
    """One end of a connection, as its kernel has it."""

    def __init__(self, surface: Surface, local: Address, remote: Address) -> None:
        """Begin open; ``connect`` gives it its lanes."""
        self.local = local
        self.remote = remote
        self.outgoing: Lane
        self.incoming: Lane
        self.is_closed = False
        """Whether its user closed it; what was sent still travels."""
        self.has_sent_fin = False
        self.on_open: Callable[[float, End], None] | None = None
        """What the listener does once it has the connection."""
        self._surface = surface
        self._received: deque[bytes] = deque()
        self._has_eof = False
        self._error: int | None = None
        self._is_broken = False

    # What users do.

    @property
    def is_readable(self) -> bool:
        """Whether ``read`` gives something at once, be it the end or an error."""
        return bool(self._received) or self._has_eof or self._is_broken

    def is_writable(self, now: float) -> bool:
        """Whether ``write`` takes something at once, or raises."""
        return self._is_broken or self.has_sent_fin or self.outgoing.room(now) > 0

    def read(self, now: float, size: int) -> bytes:
        """Take bytes, at most ``size``; ``b""`` at the end. Raises ``BlockingIOError``."""
        if self._received:
            data = self._take(size)
            self.incoming.was_read(now, len(data))
            return data
        if self._has_eof:
            return b""
        if self._error is not None:
            error, self._error = self._error, None
            raise os_error(error)
        if self._is_broken:
            return b""
        raise os_error(errno.EAGAIN)

    def _take(self, size: int) -> bytes:
        pieces, missing = [], size
        while self._received and missing:
            piece = self._received.popleft()
            if len(piece) > missing:
                self._received.appendleft(piece[missing:])
                piece = piece[:missing]
            pieces.append(piece)
            missing -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def write(self, now: float, data: bytes) -> int:
        """Send what there is room for; give the number of bytes. Raises ``BlockingIOError``."""
        if self._error is not None:
            error, self._error = self._error, None
            raise os_error(error)
        if self._is_broken or self.has_sent_fin:
            raise os_error(errno.EPIPE)
        room = self.outgoing.room(now)
        if room <= 0:
            raise os_error(errno.EAGAIN)
        size = min(room, len(data))
        if size:
            self._surface.checksum = crc32(data[:size], self._surface.checksum)
            self.outgoing.send(now, data[:size])
        return size

    def shut_writing(self, now: float) -> None:
        """Send no more."""
        if self._is_broken:
            raise os_error(errno.ENOTCONN)
        if not self.has_sent_fin:
            self.has_sent_fin = True
            self.outgoing.send(now, Mark.FIN)

    def shut_reading(self) -> None:
        """Read no more: what is read now is the end."""
        self._has_eof = True
        self._surface.wake(self)

    def close(self, now: float) -> None:
        """Let go; with a reset if something is unread, since it is lost."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._is_broken:
            return
        if self._received:
            self.abort(now)
        else:
            self.shut_writing(now)

    def abort(self, now: float) -> None:
        """End both directions at once, and have the other end know it."""
        self.is_closed = True
        if not self._is_broken:
            self._answer_with_reset(now)
            self._break(now, None)

    # What the network does.

    def take_in(self, now: float, payload: bytes | Mark) -> None:
        """Something arrived."""
        if payload is Mark.OPEN:
            if self.on_open is not None:
                self.on_open(now, self)
            return
        if payload is Mark.FIN:
            self._has_eof = True
        elif self.is_closed or self._is_broken:
            self._answer_with_reset(now)
            self._break(now, None)
            return
        else:
            assert not isinstance(payload, Mark)
            self._received.append(payload)
        self._surface.wake(self)

    def _answer_with_reset(self, now: float) -> None:
        path, other = self.outgoing.path, self.outgoing.receiver
        self.outgoing.end()
        if not path.is_cut:
            at = on_grid(now + path.conditions.delay(self._surface.chance))
            self._surface.agenda.add(at, other.take_reset)

    def take_reset(self, now: float) -> None:
        """The other end is gone."""
        if not self.incoming.path.is_cut:
            self.fail(now, errno.EPIPE if self._has_eof else errno.ECONNRESET)

    def fail(self, now: float, error: int) -> None:
        """The connection is over, for this reason."""
        if not self._is_broken:
            self._surface.tell(now, "broken", self.local, self.remote, error)
            self._break(now, error)

    def _break(self, now: float, error: int | None) -> None:
        self._is_broken = True
        self._error = error
        self.outgoing.end()
        self._surface.wake(self)

    def vanish(self) -> None:
        """The host lost its power: nobody knows of the connection any more, here."""
        self.is_closed = self._is_broken = True
        self._received.clear()
        self.outgoing.end()


def connect(surface: Surface, client: End, server: End, forth: Path, back: Path) -> None:
    """Join two ends."""
    client.outgoing = server.incoming = Lane(surface, forth)
    server.outgoing = client.incoming = Lane(surface, back)
    for lane, sender, receiver in (
        (client.outgoing, client, server),
        (server.outgoing, server, client),
    ):
        lane.sender, lane.receiver = sender, receiver
    client.outgoing.back, server.outgoing.back = back, forth


def os_error(number: int) -> OSError:
    """Make the error that a kernel would give; Python chooses the class by the number."""
    return OSError(number, _TEXTS.get(number, errno.errorcode[number]))
