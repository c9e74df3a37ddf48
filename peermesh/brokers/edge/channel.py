"""One topic in the broker: what publishers sent, in one order, until its subscribers have it. Pure.

Messages may come and go by any connection, the default channel's or the topic's own. A publisher
numbers its messages, and repeats on a new connection what was not accepted yet: the channel takes
each once. A subscription keeps what its subscriber has not taken, and repeats it on a new
connection: the subscriber takes each once. So the hand-over from the default channel to the topic's
own is no more than a change of connection (issue: hand-over), and loses and doubles nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from handshake.principals import UNPROVEN, Principal
from peermesh.brokers.edge.messages import Accepted, Attached, Refused, write
from wire.errors import RemoteProtocolError
from wire.framing import NodeFrame, encode_node
from wire.limits import MIB, PAYLOAD_SIZE_MAX
from wire.scalars import INTEGER_MAX

WINDOW: Final = 4096
"""Messages of one publisher in one topic that may wait to be accepted, and messages of one
subscription that may wait to be taken: some milliseconds at full speed."""

WINDOW_BYTES: Final = 4 * MIB
"""Bytes of the same, for large messages; one is let through whatever its size."""

WAITING_BYTES_MAX: Final = 64 * MIB
"""Bytes that may wait in one topic for all its subscribers: sixteen publishers with full windows.
Beyond, who sends more is disconnected, and repeats it: nothing is lost."""

STALL_SECONDS: Final = 5.0
"""How long a subscriber that takes nothing may hold up its topic, as in the mesh."""

RESUME_SECONDS: Final = 5.0
"""How long a subscription waits for its subscriber's next connection before it is dropped."""

SOURCES_MAX: Final = 16_384
"""Publishers of one topic whose last number is remembered. The longest silent goes first."""

Line = int
"""A connection, for the core: the driver knows which."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send data by a connection."""

    line: Line
    data: bytes
    principal: Principal = UNPROVEN
    """Whose data they are: a bridge asks whether these may go on."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell a publisher what was accepted. A later one of the same topic makes this needless."""

    line: Line
    accepted: Accepted


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Say why, and end a connection."""

    line: Line
    refused: Refused


Effect = Send | Acknowledge | Disconnect


@dataclass(frozen=True, slots=True)
class Parcel:
    """Consecutive messages of one publisher, framed for subscribers."""

    source: Source
    line: Line
    sequence: int
    """The publisher's number of the last message."""
    count: int
    size: int
    """Bytes of its payloads."""
    data: bytes
    principal: Principal


class Source:
    """What is known of one publisher in this topic."""

    __slots__ = ("accepted", "seen", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        """Begin with whatever number it begins with."""
        self.seen: int | None = None
        self.accepted = 0
        self.waiting = self.waiting_bytes = 0


class Subscription:
    """What one subscriber has to get yet."""

    __slots__ = (
        "is_lodger", "line", "mark", "pending", "pending_bytes", "pending_count", "position",
        "silent_since", "taken",
    )  # fmt: skip

    def __init__(self, position: int, *, is_lodger: bool) -> None:
        """Begin behind a position."""
        self.is_lodger = is_lodger
        """Whether it comes with the broker, and keeps no channel open: a bridge."""
        self.line: Line | None = None
        self.position = position
        """What lies before the first pending parcel: everything up to here was taken."""
        self.pending: deque[Parcel] = deque()
        self.pending_count = self.pending_bytes = 0
        self.taken = self.mark = position
        self.silent_since: float | None = None

    @property
    def is_full(self) -> bool:
        """Tell whether the topic has to wait for this subscriber."""
        return self.pending_count >= WINDOW or self.pending_bytes >= WINDOW_BYTES

    def push(self, parcel: Parcel) -> None:
        """Keep a parcel until it is taken."""
        self.pending.append(parcel)
        self.pending_count += parcel.count
        self.pending_bytes += len(parcel.data)

    def take(self, position: int) -> None:
        """Forget the parcels that were taken whole."""
        while self.pending and self.position + self.pending[0].count <= position:
            parcel = self.pending.popleft()
            self.position += parcel.count
            self.pending_count -= parcel.count
            self.pending_bytes -= len(parcel.data)
        self.taken = max(self.taken, position)

    def is_silent(self, now: float) -> bool:
        """Tell whether the topic waited long enough, in vain; to be asked from time to time."""
        has_line = self.line is not None
        has_moved, self.mark = self.taken != self.mark, self.taken
        if has_line and (has_moved or not self.is_full):
            self.silent_since = None
            return False
        if self.silent_since is None:
            self.silent_since = now
        return now - self.silent_since >= (STALL_SECONDS if has_line else RESUME_SECONDS)


class Channel:
    """The messages of one topic, whichever ports they come and go by."""

    def __init__(self, topic: str, incarnation: str) -> None:
        """Begin without publishers and subscribers."""
        self.topic = topic
        self.incarnation = incarnation
        self.position = 0
        """Messages accepted so far: the position of the last one."""
        self.delivered = self.duplicates = self.dropped = 0
        self.subscriptions: dict[bytes, Subscription] = {}
        self._sources: OrderedDict[bytes, Source] = OrderedDict()
        self._waiting: deque[Parcel] = deque()
        self._waiting_bytes = 0

    @property
    def waiting_count(self) -> int:
        """Messages that wait for a subscriber to take what came before."""
        return sum(parcel.count for parcel in self._waiting)

    # Publishers.

    def offer(
        self, line: Line, publisher: bytes, frame: NodeFrame, principal: Principal = UNPROVEN
    ) -> list[Effect]:
        """Take messages in, but those that came before; raises ``RemoteProtocolError``.

        They are acknowledged once every subscription has room for them.
        """
        source = self._source(publisher)
        first, count = frame.first, frame.count
        skip = 0
        if source.seen is not None:
            if first > source.seen + 1:
                raise RemoteProtocolError(
                    f"topic {self.topic!r}: message {first} came after {source.seen}; repeat what"
                    " lies between"
                )
            skip = min(count, source.seen + 1 - first)
            self.duplicates += skip
        if first + count > INTEGER_MAX:
            raise RemoteProtocolError(f"topic {self.topic!r}: there are no numbers after {first}")
        if skip == count:
            return [self._acknowledge(line, source)]
        pieces, size = _rest(frame, skip) if skip else (frame.forwarded(), frame.payloads_size)
        data = b"".join(pieces)
        parcel = Parcel(source, line, first + count - 1, count - skip, size, data, principal)
        if (
            source.waiting + parcel.count > WINDOW
            or source.waiting_bytes + size > WINDOW_BYTES + PAYLOAD_SIZE_MAX
        ):
            raise RemoteProtocolError(f"topic {self.topic!r}: more than its window was sent")
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise RemoteProtocolError(f"topic {self.topic!r}: too much waits already, try again")
        source.seen = parcel.sequence
        source.waiting += parcel.count
        source.waiting_bytes += size
        self._waiting_bytes += size
        self._waiting.append(parcel)
        return self._accept()

    def _source(self, publisher: bytes) -> Source:
        source = self._sources.get(publisher)
        if source is None:
            if len(self._sources) >= SOURCES_MAX:
                self._forget_source()
            source = self._sources[publisher] = Source()
        else:
            self._sources.move_to_end(publisher)
        return source

    def _forget_source(self) -> None:
        silent = (name for name, source in self._sources.items() if not source.waiting)
        name = next(silent, None)
        if name is None:
            raise RemoteProtocolError(f"topic {self.topic!r}: too many publishers wait, try again")
        del self._sources[name]

    def forget(self, publisher: bytes) -> None:
        """Take the next message of a publisher whatever its number: some were refused."""
        self._sources.pop(publisher, None)

    def _acknowledge(self, line: Line, source: Source) -> Acknowledge:
        return Acknowledge(line, Accepted(self.topic, source.accepted))

    def _accept(self) -> list[Effect]:
        """Accept what waits while every subscription has room."""
        effects: list[Effect] = []
        subscriptions = list(self.subscriptions.values())
        while self._waiting and not any(each.is_full for each in subscriptions):
            parcel = self._waiting.popleft()
            source = parcel.source
            source.waiting -= parcel.count
            source.waiting_bytes -= parcel.size
            self._waiting_bytes -= parcel.size
            source.accepted = parcel.sequence
            self.position += parcel.count
            for subscription in subscriptions:
                subscription.push(parcel)
                if subscription.line is not None:
                    effects.append(Send(subscription.line, parcel.data, parcel.principal))
            self.delivered += parcel.count * len(subscriptions)
            effects.append(self._acknowledge(parcel.line, source))
        return effects

    # Subscribers.

    @property
    def has_subscribers(self) -> bool:
        """Tell whether somebody wants the topic who does not come with the broker."""
        return any(not each.is_lodger for each in self.subscriptions.values())

    def attach(self, line: Line, client: bytes, *, is_lodger: bool = False) -> list[Effect]:
        """Send what the subscriber has not taken, and all that follows, by this connection."""
        subscription = self.subscriptions.get(client)
        if subscription is None:
            subscription = self.subscriptions[client] = Subscription(
                self.position, is_lodger=is_lodger
            )
        subscription.line = line
        subscription.silent_since = None
        attached = Attached(self.topic, self.incarnation, subscription.position + 1)
        again: list[Effect] = [
            Send(line, parcel.data, parcel.principal) for parcel in subscription.pending
        ]
        return [Send(line, write(attached)), *again]

    def take(self, client: bytes, incarnation: str, position: int) -> list[Effect]:
        """A subscriber has taken everything up to a position; raises ``RemoteProtocolError``."""
        subscription = self.subscriptions.get(client)
        if subscription is None or incarnation != self.incarnation:
            return []
        if position > self.position:
            raise RemoteProtocolError(f"topic {self.topic!r}: {position} was never sent")
        was_full = subscription.is_full
        subscription.take(position)
        return self._accept() if was_full else []

    def detach(self, client: bytes) -> list[Effect]:
        """A subscriber no longer wants the topic."""
        subscription = self.subscriptions.pop(client, None)
        return self._accept() if subscription is not None else []

    def lose(self, line: Line) -> None:
        """A connection was lost; its subscriptions wait for the next one."""
        for subscription in self.subscriptions.values():
            if subscription.line == line:
                subscription.line = None
                subscription.silent_since = None

    def tick(self, now: float) -> list[Effect]:
        """Drop subscriptions that hold the topic up, or that nobody comes back for."""
        effects: list[Effect] = []
        for client, subscription in list(self.subscriptions.items()):
            if subscription.is_silent(now):
                effects += self._drop(client, subscription)
        return effects + self._accept()

    def _drop(self, client: bytes, subscription: Subscription) -> list[Effect]:
        del self.subscriptions[client]
        self.dropped += subscription.pending_count
        if subscription.line is None:
            return []
        reason = f"topic {self.topic!r}: nothing was taken for {STALL_SECONDS:g} s; read faster"
        return [Disconnect(subscription.line, Refused(reason))]


def _rest(frame: NodeFrame, skip: int) -> tuple[list[bytes | memoryview], int]:
    """Give a frame without its first messages, and the size of the other payloads."""
    first, payloads = frame.first + skip, frame.payloads()[skip:]
    pieces, _ = encode_node(frame.sender, frame.ttl - 1, first, frame.headers, b"", payloads)
    return pieces, sum(map(len, payloads))
