"""One topic in the broker: what its publishers sent, until every known subscriber has it. Pure.

A message is acknowledged when every known subscriber has taken it, and its publisher keeps it until
then. So the broker owns nothing: whatever dies with it is still at the publishers, who repeat it to
the next one. A reign gives a subscriber that was known before all that is not acknowledged yet, and
subscribers drop what they have by the publishers' own numbers.

Messages come and go by any connection, the default channel's or the topic's own. A publisher
repeats on a new connection what was not acknowledged, and the relay takes each number once. What a
subscriber has not taken is repeated on its new connection, and the subscriber takes each position
once. So a hand-over is a change of connection, and needs no other rule.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Final

from handshake.principals import UNPROVEN, Principal
from peermesh.brokers.edge.messages import (
    Accepted,
    Attached,
    Refused,
    Void,
    write,
    write_numbers,
)
from peermesh.brokers.edge.subscription import (
    STALL_SECONDS,
    WINDOW,
    WINDOW_BYTES,
    Line,
    Parcel,
    Source,
    Subscription,
)
from wire.errors import RemoteProtocolError
from wire.framing import NodeFrame, encode_node
from wire.limits import MIB, PAYLOAD_SIZE_MAX
from wire.scalars import INTEGER_MAX

WAITING_BYTES_MAX: Final = 64 * MIB
"""Bytes in one topic that are not acknowledged: sixteen publishers with full windows. Beyond, a
publisher that sends more is disconnected, and repeats it: nothing is lost."""

SOURCES_MAX: Final = 16_384
"""Publishers of one topic whose last number is remembered. The longest silent goes first."""


Said = bytes | Attached | Accepted | Refused
"""What a connection is told; bytes are frames that were written once for all of them."""


@dataclass(frozen=True, slots=True)
class Send:
    """Say something by a connection.

    ``Accepted`` replaces an earlier one of the same topic that has not left yet. ``Refused`` ends
    the connection.
    """

    line: Line
    what: Said
    principal: Principal = UNPROVEN
    """Whose data they are: a bridge asks whether these may go on."""


class Relay:
    """The messages of one topic, whichever ports they come and go by."""

    def __init__(self, topic: str, incarnation: str, *, is_held: bool = False) -> None:
        """Start without publishers and subscribers; while ``is_held``, acknowledge nothing."""
        self.topic = topic
        self.incarnation = incarnation
        self.position = 0
        """Messages that came so far: the position of the last one."""
        self.waiting_count = 0
        """Messages that are not acknowledged."""
        self.delivered = self.duplicates = self.dropped = 0
        self.subscriptions: dict[bytes, Subscription] = {}
        self._is_held = is_held
        self._sources: OrderedDict[bytes, Source] = OrderedDict()
        self._log: deque[Parcel] = deque()
        """What is not acknowledged, in its order."""
        self._log_bytes = 0

    # Publishers.

    def offer(
        self, line: Line, publisher: bytes, frame: NodeFrame, principal: Principal = UNPROVEN
    ) -> list[Send]:
        """Take messages in, but those that came before; raises ``RemoteProtocolError``."""
        source = self._source(publisher, line)
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
            return [self._acknowledge(source)]
        pieces, size = _rest(frame, skip) if skip else (frame.forwarded(), frame.payloads_size)
        last, data = first + count - 1, b"".join(pieces)
        return self._add(Parcel(source, last, count - skip, size, data, principal))

    def void(self, line: Line, publisher: bytes, sequence: int) -> list[Send]:
        """A publisher says that its numbers up to one are no messages, as they were refused.

        Subscribers are told, so that they miss nothing. Raises ``RemoteProtocolError``.
        """
        source = self._source(publisher, line)
        if source.seen is not None and sequence <= source.seen:
            return [self._acknowledge(source)]
        if sequence >= INTEGER_MAX:
            raise RemoteProtocolError(f"topic {self.topic!r}: there is no number {sequence}")
        data = write(Void(self.topic, publisher, sequence))
        return self._add(Parcel(source, sequence, 1, len(data), data, UNPROVEN, is_void=True))

    def forget(self, publisher: bytes) -> None:
        """Take the next message of a publisher whatever its number: some were refused."""
        self._sources.pop(publisher, None)

    def _add(self, parcel: Parcel) -> list[Send]:
        source = parcel.source
        if (
            source.waiting + parcel.count > WINDOW
            or source.waiting_bytes + parcel.size > WINDOW_BYTES + PAYLOAD_SIZE_MAX
        ):
            raise RemoteProtocolError(f"topic {self.topic!r}: more than its window was sent")
        if self._log_bytes + parcel.size > WAITING_BYTES_MAX:
            raise RemoteProtocolError(f"topic {self.topic!r}: too much waits already, try again")
        source.seen = parcel.sequence
        self._count(parcel, 1)
        self.position += parcel.count
        self._log.append(parcel)
        effects: list[Send] = []
        for subscription in self.subscriptions.values():
            parcel.owed += 1
            subscription.unsent.append(parcel)
            self._feed(subscription, effects)
        self.delivered += parcel.count * len(self.subscriptions)
        self._settle(effects)
        return effects

    def _count(self, parcel: Parcel, sign: int) -> None:
        source = parcel.source
        source.waiting += sign * parcel.count
        source.waiting_bytes += sign * parcel.size
        self.waiting_count += sign * parcel.count
        self._log_bytes += sign * parcel.size

    def _source(self, publisher: bytes, line: Line) -> Source:
        source = self._sources.get(publisher)
        if source is None:
            if len(self._sources) >= SOURCES_MAX:
                self._forget_source()
            source = self._sources[publisher] = Source(publisher)
        else:
            self._sources.move_to_end(publisher)
        source.line = line
        return source

    def _forget_source(self) -> None:
        silent = (name for name, source in self._sources.items() if not source.waiting)
        name = next(silent, None)
        if name is None:
            raise RemoteProtocolError(f"topic {self.topic!r}: too many publishers wait, try again")
        del self._sources[name]

    def _acknowledge(self, source: Source) -> Send:
        return Send(source.line, Accepted(self.topic, source.acknowledged))

    def _settle(self, effects: list[Send]) -> None:
        """Acknowledge what every subscription has taken."""
        if self._is_held:
            return
        settled: dict[Source, None] = {}
        while self._log and not self._log[0].owed:
            parcel = self._log.popleft()
            self._count(parcel, -1)
            parcel.source.acknowledged = parcel.sequence
            settled[parcel.source] = None
        effects += [self._acknowledge(source) for source in settled]

    def release(self) -> list[Send]:
        """Acknowledge from now on: every subscriber that was known before had time to resume."""
        self._is_held = False
        effects: list[Send] = []
        self._settle(effects)
        return effects

    # Subscribers.

    @property
    def has_subscribers(self) -> bool:
        """Tell whether a client wants the topic, other than a bridge of this broker."""
        return any(not each.is_lodger for each in self.subscriptions.values())

    @property
    def is_taken(self) -> bool:
        """Tell whether every subscription has taken everything."""
        return not any(each.sent or each.unsent for each in self.subscriptions.values())

    def expect(self, client: bytes) -> None:
        """Wait for a subscriber that was known to an earlier reign."""
        if client not in self.subscriptions:
            self._subscribe(client, is_known=True)

    def attach(
        self, line: Line, client: bytes, *, is_known: bool = False, is_lodger: bool = False
    ) -> list[Send]:
        """Send what the subscriber has not taken, and all that follows, by this connection.

        One that ``is_known`` to an earlier reign, or was dropped, gets all that is not
        acknowledged; a new one what comes from now on.
        """
        subscription = self.subscriptions.get(client)
        if subscription is None:
            subscription = self._subscribe(client, is_known=is_known, is_lodger=is_lodger)
        subscription.rewind()
        numbers = self._numbers(subscription) if is_known else b""
        position = subscription.position + 1
        subscription.line = line
        subscription.silent_since = None
        attached = Attached(self.topic, self.incarnation, position, numbers)
        effects: list[Send] = [Send(line, attached)]
        self._feed(subscription, effects)
        return effects

    def _subscribe(self, client: bytes, *, is_known: bool, is_lodger: bool = False) -> Subscription:
        before = self.waiting_count if is_known else 0
        subscription = Subscription(self.position - before, is_lodger=is_lodger)
        if is_known:
            for parcel in self._log:
                parcel.owed += 1
            subscription.unsent.extend(self._log)
            self.delivered += before
        self.subscriptions[client] = subscription
        return subscription

    def _numbers(self, subscription: Subscription) -> bytes:
        """Give the last number of each publisher before what the subscriber will be sent."""
        numbers = {name: each.seen for name, each in self._sources.items() if each.seen is not None}
        for parcel in reversed(subscription.unsent):
            numbers.pop(parcel.source.name, None)
            if not parcel.is_void:  # Which tells for itself.
                numbers[parcel.source.name] = parcel.sequence - parcel.count
        return write_numbers(numbers)

    @staticmethod
    def _feed(subscription: Subscription, effects: list[Send]) -> None:
        line = subscription.line
        while line is not None and (parcel := subscription.next()) is not None:
            effects.append(Send(line, parcel.data, parcel.principal))

    def take(self, client: bytes, incarnation: str, position: int) -> list[Send]:
        """A subscriber has everything up to a position; raises ``RemoteProtocolError``."""
        subscription = self.subscriptions.get(client)
        if subscription is None or incarnation != self.incarnation:
            return []
        if position > self.position:
            raise RemoteProtocolError(f"topic {self.topic!r}: {position} was never sent")
        effects: list[Send] = []
        subscription.take(position)
        self._feed(subscription, effects)
        self._settle(effects)
        return effects

    def detach(self, client: bytes) -> list[Send]:
        """A subscriber no longer wants the topic."""
        effects: list[Send] = []
        subscription = self.subscriptions.pop(client, None)
        if subscription is not None:
            for parcel in subscription.pending:
                parcel.owed -= 1
            self._settle(effects)
        return effects

    def lose(self, line: Line) -> None:
        """A connection was lost; its subscriptions wait for the next one."""
        for subscription in self.subscriptions.values():
            if subscription.line == line:
                subscription.line = None
                subscription.silent_since = None

    def tick(self, now: float) -> list[Send]:
        """Drop subscriptions that hold the topic up, or whose subscribers do not come back."""
        effects: list[Send] = []
        if self._is_held:
            return effects
        for client, subscription in list(self.subscriptions.items()):
            if subscription.is_silent(now):
                self.dropped += sum(parcel.count for parcel in subscription.pending)
                if subscription.line is not None:
                    reason = f"topic {self.topic!r}: nothing was taken for {STALL_SECONDS:g} s"
                    effects.append(Send(subscription.line, Refused(f"{reason}; read faster")))
                effects += self.detach(client)
        return effects


def _rest(frame: NodeFrame, skip: int) -> tuple[list[bytes | memoryview], int]:
    """Give a frame without its first messages, and the size of the other payloads."""
    first, payloads = frame.first + skip, frame.payloads()[skip:]
    pieces, _ = encode_node(frame.sender, frame.ttl - 1, first, frame.headers, b"", payloads)
    return pieces, sum(map(len, payloads))
