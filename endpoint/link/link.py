"""One peer's link, pure: what waits for it, the credit of both directions, whether it lives.

A ``Link`` knows no clock, task or socket. Its driver writes what ``take`` gives, counts with
``admit`` what comes, grants what is ``due``, and calls ``tick`` once a second.

*Out.* ``say(key, word)`` fills a control slot: the latest word of a key replaces an earlier one, so
that control memory is bounded by state and never by events. A word is the whole state, never a
change: bytes, or a function that encodes when it is taken and may give nothing. Keys::

    "credit"  "withheld"  "knowledge"  "ping"  "pong"  "drop_conn"  ("news", ORIGIN)
    ("hold", SENDER, ENDPOINT, PLACE)

``pass_on(key, word)`` does the same for words of other endpoints, whose state is not ours: those
have a bound in bytes. ``put(frame)`` queues data (see ``endpoint.link.data_queue``), ``command``
store commands. A write has the rest of what was begun, then the slots, then commands and data in
equal parts; data go under credit.

*In.* ``withhold(place)`` grants nothing until ``restore(place)``. All places that withhold share
one clock, which runs until none is left: at 30 s the full mailboxes give way, at 35 s the outboxes.
With equal deadlines a healthy reader behind a full outbox loses messages. With a clock for each
place, full places that take turns make the peer remove us.

Invariant: ``sent < credit`` whenever a frame of data begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Protocol

from endpoint.link import liveness
from endpoint.link.data_queue import DataQueue, Outgoing, OverflowPolicy, Piece
from endpoint.link.limits import (
    COMMANDS_SIZE_MAX,
    MESSAGE_CHARGE,
    PASSED_ON_SIZE_MAX,
    WINDOW_SIZE,
    WRITE_SIZE,
    LinkLimits,
)
from endpoint.link.liveness import PeerMonitor, PeerStalled, Progress
from wire.errors import ErrorCode, RemoteProtocolError
from wire.public import public

Word = bytes | Callable[[], bytes]

_LIMITS: Final = LinkLimits()
_HALF: Final = WRITE_SIZE // 2


class Place(Protocol):
    """What withholds the credit of links while it is full: a mailbox, or a link's ``data``."""

    @property
    def hold_seconds_max(self) -> float:
        """How long it may withhold the credit of a link."""

    def become_lossy(self) -> None:
        """Drop the oldest messages down to the mark, from now until there is room again."""


@dataclass(frozen=True, slots=True)
class SayWithheld:
    """Say ``withheld`` to the peer, so that it does not take us for stalled."""


@dataclass(frozen=True, slots=True)
class HeldTooLong:
    """Call ``become_lossy`` of these places: they withheld the link's credit for too long."""

    places: tuple[Place, ...]


Observation = liveness.Observation | SayWithheld | HeldTooLong


@public
@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """A snapshot of one peer's outbox."""

    data_frames: int
    data_bytes: int
    command_bytes: int
    dropped_messages: int
    dropped_commands: int
    credit_bytes: int


class Link:
    """All that is decided about the bytes from and to one peer."""

    __slots__ = (
        "_commands",
        "_commands_sent",
        "_held_seconds",
        "_holders",
        "_monitor",
        "_passed_on_bytes",
        "_rest",
        "_slots",
        "command_bytes",
        "credit",
        "data",
        "dropped_commands",
        "dropped_words",
        "due_at",
        "granted",
        "is_writing",
        "limits",
        "received",
        "sent",
    )

    def __init__(
        self,
        policy: OverflowPolicy = OverflowPolicy.DISCONNECT,
        limits: LinkLimits = _LIMITS,
        *,
        may_hold: bool = True,
    ) -> None:
        """Apply ``policy`` to a stalled peer; ``may_hold`` is for what passes through to it."""
        self.limits = limits
        self.data = DataQueue(policy, limits, may_hold=may_hold)
        """What waits of data; the ``Place`` of what passes through."""
        self._rest: list[Piece] = []
        self._slots: dict[Hashable, Word] = {}
        self._commands: deque[Outgoing] = deque()
        self.command_bytes = self._passed_on_bytes = 0
        self.dropped_commands = self.dropped_words = 0
        self.sent, self.credit = 0, WINDOW_SIZE
        self._commands_sent = 0
        self.is_writing = False
        """Whether the driver holds bytes that the system has not taken; set by the driver."""
        self.received, self.granted = 0, WINDOW_SIZE
        self.due_at = self._next_due()
        """No need to ask what is ``due`` before so much was received."""
        self._holders: dict[Place, None] = {}
        self._held_seconds = 0.0
        self._monitor: PeerMonitor | None = None

    # Filling.

    def say(self, key: Hashable, word: Word) -> None:
        """Set the latest word of a key; it keeps the place of an earlier one that still waits."""
        self._slots[key] = word

    def pass_on(self, key: Hashable, word: bytes) -> bool:
        """Set the latest word of another endpoint; false if too many of those wait already."""
        before = self._slots.get(key)
        known = len(before) + MESSAGE_CHARGE if type(before) is bytes else 0
        size = self._passed_on_bytes + len(word) + MESSAGE_CHARGE - known
        if size > PASSED_ON_SIZE_MAX:
            self.dropped_words += 1
            return False
        self._slots[key], self._passed_on_bytes = word, size
        return True

    def put_rest(self, *pieces: Piece) -> None:
        """Queue the rest of a frame that was sent in part: nothing may come before it."""
        self._rest += pieces

    def command(self, frame: Outgoing) -> None:
        """Queue store commands; when there is no room they are dropped, and counted."""
        if self.command_bytes > COMMANDS_SIZE_MAX:
            self.dropped_commands += 1
            return
        self._commands.append(frame)
        self.command_bytes += frame.size

    def put(self, frame: Outgoing, *, forced: bool = False) -> None:
        """Queue data; ``forced`` tells what was sent in spite of a hold."""
        self.data.put(frame, forced=forced)

    def sent_alone(self, size: int) -> None:
        """Count a frame of data that was sent past the queues, while the link ``is_free``."""
        assert self.sent < self.credit, "data without credit"
        self.sent += size

    @property
    def is_full(self) -> bool:
        """Tell whether publishers have to wait."""
        return self.data.is_full

    @property
    def has_room(self) -> bool:
        """Tell whether publishers that wait may go on."""
        return self.data.has_room

    @property
    def is_crowded(self) -> bool:
        """Tell whether the senders of what passes through have to be told."""
        return self.data.is_crowded

    @property
    def is_passable(self) -> bool:
        """Tell whether those senders may go on."""
        return self.data.is_passable

    @property
    def is_lossy(self) -> bool:
        """Tell whether the drop policy of a stalled peer is at work; then no publisher waits."""
        return self.data.is_lossy

    # Emptying.

    @property
    def has_backlog(self) -> bool:
        """Tell whether something waits, whether or not there is credit for it."""
        return bool(self.data.frames or self._slots or self._commands or self._rest)

    @property
    def is_sendable(self) -> bool:
        """Tell whether something may be sent now."""
        may_send_data = self.data.frames and self.sent < self.credit
        return bool(may_send_data or self._slots or self._commands or self._rest)

    def is_free(self) -> bool:
        """Tell whether a frame may be sent past the queues, because nothing is before it."""
        is_waited_for = self.is_writing or self.data.frames or self._slots or self._commands
        return self.sent < self.credit and not (is_waited_for or self._rest)

    def take(self) -> list[Piece]:
        """Take the pieces of the next write, and account for them."""
        pieces, self._rest = self._rest, []
        if self._slots:
            slots, self._slots, self._passed_on_bytes = self._slots, {}, 0
            words = (word() if callable(word) else word for word in slots.values())
            pieces += filter(None, words)
        room = WRITE_SIZE
        if self._commands:
            room = max(_HALF, WRITE_SIZE - self._take_commands(pieces))
        data = self.data
        while data.frames and room > 0 and self.sent < self.credit:
            frame = data.take()
            pieces += frame.pieces
            room -= frame.size
            self.sent += frame.size
        return pieces

    def _take_commands(self, pieces: list[Piece]) -> int:
        """Take commands, half a write of them if data may go too; give their size."""
        may_send_data = self.data.frames and self.sent < self.credit
        share = _HALF if may_send_data else WRITE_SIZE
        size = 0
        while self._commands and size < share:
            frame = self._commands.popleft()
            pieces += frame.pieces
            size += frame.size
        self.command_bytes -= size
        self._commands_sent += size
        return size

    def discard(self) -> None:
        """Drop data and commands, and count them: the peer is gone, or hears last words only."""
        self.data.discard()
        self.dropped_commands += len(self._commands)
        self._commands.clear()
        self.command_bytes = 0

    # Credit.

    def grant(self, total: int) -> None:
        """The peer has room for ``total`` bytes of data since the beginning."""
        self.credit = max(self.credit, total)

    def hear_withheld(self) -> None:
        """The peer says that it has a reason to grant nothing."""
        if self._monitor is not None:
            self._monitor.hear_withheld()

    def admit(self, size: int) -> None:
        """Count a frame of data that came; raises ``RemoteProtocolError`` without credit for it."""
        if self.received >= self.granted:
            raise RemoteProtocolError(
                f"it sent data beyond the {self.granted} bytes that there was room for",
                ErrorCode.LIMIT_EXCEEDED,
            )
        self.received += size

    def withhold(self, place: Place) -> bool:
        """Grant nothing while a place is full; true if ``withheld`` is to be said at once."""
        is_first = not self._holders
        self._holders[place] = None
        return is_first

    def restore(self, place: Place) -> None:
        """Grant again, as far as it concerns this place; ask then what is ``due``."""
        self._holders.pop(place, None)
        if not self._holders:
            self._held_seconds = 0.0

    @property
    def is_withheld(self) -> bool:
        """Tell whether some place withholds this link's credit."""
        return bool(self._holders)

    def due(self) -> int | None:
        """Give the new total to grant, when nothing withholds it and it is worth a message."""
        if self._holders or self.received < self.due_at:
            return None
        self.granted = self.received + self.limits.window
        self.due_at = self._next_due()
        return self.granted

    def _next_due(self) -> int:
        """Grant again when a quarter of the window is used: less is not worth a message."""
        return self.granted - self.limits.window + max(1, self.limits.window // 4)

    # Time.

    def tick(self, now: float, *, heard: int, written: int, acknowledged: int) -> list[Observation]:
        """Give what is seen at ``now`` seconds of any monotonic clock.

        ``heard`` counts the bytes that came, ``written`` those that the system has taken, and
        ``acknowledged`` those of them that the peer's system has. On ``PeerStalled`` a policy that
        drops is at work already, until the peer moves again, and publishers that wait have to look
        again; with ``DISCONNECT`` the driver ends the peering.
        """
        # Words do not count: the driver writes them at once, or it ``is_writing``.
        is_sending = bool(self._commands or self._rest) or self.is_writing
        waits = is_sending or bool(self.data.frames)
        progress = Progress(
            heard=heard,
            written=written,
            acknowledged=acknowledged,
            taken=self.sent + self._commands_sent,
            credit=self.credit,
            waiting=self.data.own + self.data.transit + self.command_bytes,
            waits=waits,
            is_starved=waits and not is_sending and self.sent >= self.credit,
            is_writing=self.is_writing,
        )
        if self._monitor is None:
            limits = self.limits
            self._monitor = PeerMonitor(
                now, progress, limits.stall_seconds, limits.stand_seconds_max
            )
        passed, seen = self._monitor.tick(now, progress)
        if not self._monitor.is_still:
            self.data.is_lossy = False
        elif self._is_dropping(seen):
            self.data.is_lossy = True
            self.data.apply_policy()
        return [*seen, *self._hold_clock(passed)]

    def _is_dropping(self, seen: list[liveness.Observation]) -> bool:
        is_stalled = any(type(each) is PeerStalled for each in seen)
        return is_stalled and self.data.policy is not OverflowPolicy.DISCONNECT

    def _hold_clock(self, passed: float) -> list[Observation]:
        """Count how long the link's own credit to the peer is withheld, whatever places do it."""
        if not self._holders:
            return []
        self._held_seconds += passed
        held = self._held_seconds
        late = tuple(place for place in self._holders if held >= place.hold_seconds_max)
        return [HeldTooLong(late), SayWithheld()] if late else [SayWithheld()]

    def statistics(self) -> OutboxStatistics:
        """Give a frozen snapshot; of data it counts the charges."""
        return OutboxStatistics(
            data_frames=len(self.data.frames),
            data_bytes=self.data.own + self.data.transit,
            command_bytes=self.command_bytes,
            dropped_messages=self.data.dropped,
            dropped_commands=self.dropped_commands,
            credit_bytes=self.credit - self.sent,
        )

    def check(self) -> None:
        """Assert the invariants; for tests, since it looks at everything that waits."""
        self.data.check()
        assert self.command_bytes == sum(frame.size for frame in self._commands)
        assert self.granted <= max(WINDOW_SIZE, self.received + self.limits.window)
