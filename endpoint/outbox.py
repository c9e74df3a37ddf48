"""What waits to be sent to one peer: three classes, bounded, under the peer's credit. Pure.

Urgent messages (routing, credit, keep-alives) leave first. Store commands and data then share each
write in equal parts, so that neither waits behind the other. Data also waits for credit: the peer
says how many bytes it has room for, and the rest stays here, where publishers feel it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wire.errors import ErrorCode, RemoteProtocolError
from wire.limits import JOIN_SIZE, KIB, MIB
from wire.public import public

WINDOW_SIZE: Final = 4 * MIB
"""Bytes of data that may be on the way to a peer, or waiting in it: what loopback moves in about a
millisecond, and the most that a subscriber who stops reading can make its endpoint hold a link."""

DATA_SIZE_MAX: Final = 1 * MIB
"""Bytes of data in an outbox above which publishers wait: eight writes keep the pipe full."""

DATA_FRAMES_MAX: Final = 16_384
"""Frames of data in an outbox above which publishers wait: bounds the overhead of tiny messages."""

LOCAL_SIZE_MIN: Final = 128 * KIB
"""Bytes of an endpoint's own data that an outbox always takes, however much passes through it from
others: one write's worth, so that who relays can speak too."""

TRANSIT_SIZE_MAX: Final = 8 * MIB
"""Bytes of data in an outbox above which the links that it came by get no more credit. Publishers
wait much earlier: otherwise outboxes in a ring would fill up with what is published, until none of
them can move because the next one cannot."""

TRANSIT_FRAMES_MAX: Final = 8 * DATA_FRAMES_MAX
"""The same for tiny messages."""

ESCAPE_SIZE_MAX: Final = 64 * MIB
"""Bytes of data up to which an outbox that does not move lets one more window in now and then:
links in a ring that wait for each other begin to move again. Publishers wait meanwhile, so that
there is no more of it than a ring held already."""

COMMANDS_SIZE_MAX: Final = 64 * MIB
"""Bytes of store commands above which new ones are dropped: the channel finds and repeats them, and
a peer that is so far behind is on its way to its stall time."""

URGENT_SIZE_MAX: Final = 16 * MIB
"""Bytes of control messages above which a peer is dropped: it asks and never reads."""

WRITE_SIZE: Final = 128 * KIB
"""Bytes of one class in one write: large enough to make the system call cheap."""


@public
class OverflowPolicy(StrEnum):
    """What to do with a peer that has taken nothing for the stall time."""

    DISCONNECT = "disconnect"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"


class Outgoing:
    """One frame, ready to be sent, which the outboxes of all next hops share.

    Slotted and mutable for speed; never changed.
    """

    __slots__ = ("count", "is_own", "pieces", "size")

    def __init__(
        self, pieces: list[bytes | memoryview], size: int, count: int, *, is_own: bool = True
    ) -> None:
        """Hold a frame of ``count`` messages; ``is_own`` if they were published here."""
        # Small payloads are joined once for all peers; large ones are never copied.
        self.pieces = [b"".join(pieces)] if size < JOIN_SIZE * len(pieces) else pieces
        self.size = size
        self.count = count
        self.is_own = is_own


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


class Outbox:
    """The three queues to one peer."""

    __slots__ = (
        "_commands",
        "_data",
        "_urgent",
        "command_bytes",
        "credit",
        "data_bytes",
        "dropped_commands",
        "dropped_messages",
        "grants",
        "is_lossy",
        "local_bytes",
        "policy",
        "sent",
        "urgent_bytes",
    )

    def __init__(self, policy: OverflowPolicy = OverflowPolicy.DISCONNECT) -> None:
        """Begin empty, with one window of credit."""
        self.policy = policy
        self.is_lossy = False
        """True while a stalled peer's drop policy is at work: then nobody waits for room."""
        self.credit = WINDOW_SIZE
        self.grants = 0
        """How often the peer has said how much credit there is, even if that was nothing new."""
        self.sent = 0
        self.data_bytes = 0
        self.local_bytes = 0
        """How much of the data was published here."""
        self.command_bytes = 0
        self.urgent_bytes = 0
        self.dropped_messages = 0
        self.dropped_commands = 0
        self._urgent: deque[bytes] = deque()
        self._commands: deque[Outgoing] = deque()
        self._data: deque[Outgoing] = deque()

    # Filling.

    def put_urgent(self, frame: bytes) -> None:
        """Queue a control message; see ``is_overrun`` for their bound."""
        self._urgent.append(frame)
        self.urgent_bytes += len(frame)

    def put_rest(self, rest: bytes) -> None:
        """Queue the rest of a frame that was sent in part, when nothing else was queued.

        It counts nowhere: a peer is not to blame for the size of what we send.
        """
        assert not self.has_backlog, "the rest of a frame has to follow its beginning"
        self._urgent.append(rest)

    @property
    def is_overrun(self) -> bool:
        """Tell whether the peer makes us queue more control messages than it may."""
        return self.urgent_bytes > URGENT_SIZE_MAX

    def put_command(self, frame: Outgoing) -> None:
        """Queue store commands; when there is no room they are dropped, and counted."""
        if self.command_bytes > COMMANDS_SIZE_MAX:
            self.dropped_commands += 1
            return
        self._commands.append(frame)
        self.command_bytes += frame.size

    def put_data(self, frame: Outgoing) -> None:
        """Queue a frame, and apply the policy of a stalled peer."""
        self._data.append(frame)
        self.data_bytes += frame.size
        if frame.is_own:
            self.local_bytes += frame.size
        if self.is_lossy and self._is_over:
            self._drop()

    def _drop(self) -> None:
        while self._is_over and len(self._data) > 1:
            oldest = self.policy is OverflowPolicy.DROP_OLDEST
            frame = self._data.popleft() if oldest else self._data.pop()
            self._account_gone(frame)
            self.dropped_messages += frame.count

    def _account_gone(self, frame: Outgoing) -> None:
        self.data_bytes -= frame.size
        if frame.is_own:
            self.local_bytes -= frame.size

    @property
    def _is_over(self) -> bool:
        return self.data_bytes >= DATA_SIZE_MAX or len(self._data) >= DATA_FRAMES_MAX

    @property
    def is_full(self) -> bool:
        """Tell whether publishers have to wait: there is enough, and they have had their share."""
        return self._is_over and self.local_bytes >= LOCAL_SIZE_MIN

    @property
    def has_room(self) -> bool:
        """Tell whether waiting publishers may go on: half empty, so that they do not flutter."""
        is_half_empty = self.data_bytes * 2 < DATA_SIZE_MAX
        is_half_empty &= len(self._data) * 2 < DATA_FRAMES_MAX
        return is_half_empty or self.local_bytes * 2 < LOCAL_SIZE_MIN

    @property
    def is_crowded(self) -> bool:
        """Tell whether the links that the data came by have to wait."""
        is_crowded = self.data_bytes >= TRANSIT_SIZE_MAX or len(self._data) >= TRANSIT_FRAMES_MAX
        return is_crowded and not self.is_lossy

    @property
    def is_passable(self) -> bool:
        """Tell whether links that wait may go on: half empty again."""
        is_half_empty = self.data_bytes * 2 < TRANSIT_SIZE_MAX
        return is_half_empty and len(self._data) * 2 < TRANSIT_FRAMES_MAX

    # Emptying.

    @property
    def has_backlog(self) -> bool:
        """Tell whether something waits, whether or not there is credit for it."""
        return bool(self._urgent or self._commands or self._data)

    @property
    def is_sendable(self) -> bool:
        """Tell whether something may be sent now."""
        return bool(self._urgent or self._commands or (self._data and self.sent < self.credit))

    def grant(self, total: int) -> None:
        """The peer has room for ``total`` bytes of data since the beginning."""
        self.grants += 1
        self.credit = max(self.credit, total)

    def take(self) -> list[bytes | memoryview]:
        """Take the pieces of the next write, and account for them."""
        pieces: list[bytes | memoryview] = list(self._urgent)
        self._urgent.clear()
        self.urgent_bytes = 0
        taken = 0
        while self._commands and taken < WRITE_SIZE:
            frame = self._commands.popleft()
            pieces += frame.pieces
            self.command_bytes -= frame.size
            taken += frame.size
        taken = 0
        while self._data and taken < WRITE_SIZE and self.sent < self.credit:
            frame = self._data.popleft()
            pieces += frame.pieces
            self._account_gone(frame)
            self.sent += frame.size
            taken += frame.size
        return pieces

    def discard(self) -> None:
        """Drop everything, and count it: the peer is gone."""
        self.dropped_messages += sum(frame.count for frame in self._data)
        self.dropped_commands += len(self._commands)
        self._data.clear()
        self._commands.clear()
        self.data_bytes = self.local_bytes = self.command_bytes = 0

    def statistics(self) -> OutboxStatistics:
        """Give a frozen snapshot."""
        return OutboxStatistics(
            data_frames=len(self._data),
            data_bytes=self.data_bytes,
            command_bytes=self.command_bytes,
            dropped_messages=self.dropped_messages,
            dropped_commands=self.dropped_commands,
            credit_bytes=self.credit - self.sent,
        )


class Inflow:
    """The receiving end of one link: grants credit for what found room, and withholds it else."""

    __slots__ = ("_blockers", "due_at", "granted", "received")

    def __init__(self) -> None:
        """Both sides begin with one window."""
        self.received = 0
        self.granted = WINDOW_SIZE
        self.due_at = WINDOW_SIZE // 4
        """No need to ask whether credit is ``due`` before so much was received."""
        self._blockers: dict[object, None] = {}

    def block(self, target: object) -> bool:
        """A target of this link's data is full; true if it was not known to be."""
        if target in self._blockers:
            return False
        self._blockers[target] = None
        return True

    @property
    def is_blocked(self) -> bool:
        """Tell whether credit is withheld."""
        return bool(self._blockers)

    def admit(self, size: int) -> None:
        """Count a frame of data that came; raises ``RemoteProtocolError`` without credit for it."""
        if self.received >= self.granted:
            raise RemoteProtocolError(
                f"it sent data beyond the {self.granted} bytes that there was room for",
                ErrorCode.LIMIT_EXCEEDED,
            )
        self.received += size

    def unblock(self, target: object) -> None:
        """A target has room again, or is gone."""
        self._blockers.pop(target, None)

    def due(self) -> int | None:
        """Give the new total to grant, when nothing blocks and it is worth a message."""
        total = self.received + WINDOW_SIZE
        if self._blockers or self.received < self.due_at:
            return None
        self.granted = total
        self.due_at = self.received + WINDOW_SIZE // 4
        return total
