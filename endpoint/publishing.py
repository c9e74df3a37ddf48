"""The way out: a user's messages become groups in the outboxes of the next hops.

Consecutive messages with the same header share one group, which is encoded once, whatever the
number of peers. Nothing here switches tasks for a message: a publisher waits only when an outbox is
full, and lets others run now and then (design section 15).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, Protocol, TypeVar, cast

import trio

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.connection import Connection, EncodeSingle
from endpoint.core import ROUTES_MAX, EndpointCore
from endpoint.mailbox import Mailbox
from endpoint.outbox import PAYLOAD_CHARGE, Group
from net import forking
from wire.codec import encode_header
from wire.encoding import encode
from wire.errors import EncodeError, EndpointClosed, OutboxFull
from wire.framing import Sign, encode_signed, encode_single
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX
from wire.messages import NodeHeader, PackedType
from wire.scalars import shorten
from wire.topics import check_topic
from wire.values import Value

YIELD_COUNT: Final = 1_024
"""Messages after which a publisher lets other tasks run: a checkpoint's cost, shared, and a third
of a millisecond of small bytes, or three of values that are encoded. Large ones fill an outbox
before."""

BATCH_COUNT: Final = 1_024
"""Messages of a batch that are handled together: as many as one group takes at most."""

_Item = TypeVar("_Item")

DeliverHere = Callable[[Sequence[Mailbox], str, PackedType, Sequence[bytes]], None]
"""Puts messages of a topic and type into mailboxes of this endpoint."""

_BYTES: Final = PackedType.BYTES
_DATA: Final = PackedType.DATA
_COMMAND: Final = PackedType.COMMAND


class HasConnection(Protocol):
    """A peering, as far as publishing needs it."""

    @property
    def connection(self) -> Connection:
        """Give the connection to publish through."""


class Publication:
    """Everything that one endpoint publishes, in the order in which it does."""

    def __init__(
        self,
        core: EndpointCore,
        peers: Mapping[EndpointId, HasConnection],
        ttl: int,
        first_sequence: int,
        deliver_here: DeliverHere,
        sign: Sign | None = None,
    ) -> None:
        """Publish through the peers' connections, with ``ttl`` links to live.

        ``deliver_here`` gives messages to this endpoint's own subscribers. Each frame is signed
        with ``sign``, if there is one.

        ``first_sequence`` has to be beyond all that an endpoint with the same id has ever used:
        others remember those, and would take a new life's first messages for an old one's.
        """
        self._core = core
        self._peers = peers
        self._ttl = ttl
        self._deliver_here = deliver_here
        self._sign = sign
        self._encode_single = encode_single if sign is None else _signed_single(sign)
        self._sequence = self._command_sequence = first_sequence
        self._since_yield = 0
        self._here: tuple[Mailbox, ...] = ()
        self._room_here = trio.lowlevel.ParkingLot()
        self._ways: dict[tuple[str, PackedType, object], _Way] = {}
        # The open group, and what it is open for.
        self._group = self._nothing = Group.forwarded([], 0, 0)
        self._last_way: _Way | None = None
        self._topic = ""
        self._bytes_topic: str | None = None
        self._data_topic: str | None = None
        self._type = _BYTES
        self._to: object = None
        self._counted = 0
        self.is_open = False
        """Set by the endpoint while it is open."""
        self.is_forked = False
        """Whether this is a copy in a child process."""

    @property
    def messages(self) -> int:
        """Messages published so far, whoever wanted them."""
        return self._counted + max(self._group.count, len(self._group.payloads))

    def close(self) -> None:
        """Take nothing more."""
        self.is_open = False
        self.invalidate()

    def invalidate(self) -> None:
        """The mesh changed: what was decided about routes is void."""
        self._ways.clear()
        self._last_way = None
        self._group.seal()

    async def publish(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish to every subscriber of the topic, waiting for room when an outbox is full.

        With ``to``, an endpoint or its id, only that endpoint gets it, if it has subscribed. What
        has no subscriber goes nowhere. Cancelled, it has published nothing. Raises ``EncodeError``,
        ``InvalidTopic`` and ``EndpointClosed``.
        """
        # The straight way for one more message like the last one. A group that is
        # sealed has no room.
        if type(data) is bytes:
            payload, open_topic = data, self._bytes_topic
        else:
            payload, open_topic = encode(data), self._data_topic
        if topic == open_topic and to is None:
            group = self._group
            room = group.room - len(payload) - PAYLOAD_CHARGE
            if room > 0:
                group.room = room
                group.payloads.append(payload)
                return
            if group is self._nothing and self._send_alone(payload):
                return
        kind = _BYTES if payload is data else PackedType.DATA
        await self._admit(topic, kind, to)
        self._put(topic, kind, to, payload)

    async def _admit(self, topic: str, kind: PackedType, to: object) -> None:
        """Wait until a message may go, and let other tasks run at times.

        All waiting is done here, before a message is taken: what is cancelled then has sent
        nothing. Raises as ``publish`` does.
        """
        self._since_yield += self._group.count or 1
        if self._since_yield >= YIELD_COUNT:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        while (room := self._find_full(self._way(topic, kind, to))) is not None:
            await room.park()

    def _find_full(self, way: _Way) -> trio.lowlevel.ParkingLot | None:
        """Give what a message has to wait for; ``None`` if there is room everywhere."""
        for connection in way.hops:
            outbox = connection.outbox
            if outbox.is_full and connection.is_open and not outbox.is_lossy:
                return connection.room
        for mailbox in way.here:
            if mailbox.is_full and not mailbox.is_stalled:
                mailbox.is_holding = True
                return self._room_here
        return None

    def make_room(self) -> None:
        """Have publishers that wait for a subscriber of this endpoint look again."""
        if self._room_here:
            self._room_here.unpark_all()

    def _send_alone(self, payload: bytes) -> bool:
        """Send one more message like the last one, which left alone: above all, a reply."""
        way = self._last_way
        if way is None or way.lone is None or len(payload) > PAYLOAD_SIZE_MAX:
            return False
        sequence = self._sequence
        encode = self._encode_single
        if not way.lone.send_single(way.header, self._ttl, sequence, payload, encode):
            return False
        self._sequence = sequence + 1
        self._counted += 1
        return True

    def publish_nowait(self, topic: str, data: Value, to: object) -> None:
        """Publish without waiting; raises ``OutboxFull`` where ``publish`` would wait."""
        kind = _BYTES if type(data) is bytes else _DATA
        payload = data if type(data) is bytes else encode(data)
        way = self._way(topic, kind, to)
        if self._find_full(way) is not None:
            hops = ", ".join(str(each.peer) for each in way.hops if each.outbox.is_full)
            full = f"the outbox to {hops}" if hops else "a subscriber of this endpoint"
            raise OutboxFull(f"{full} is full: await publish() to wait for room, or publish less")
        self._put(topic, kind, to, payload)

    async def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order, waiting for room between them.

        A batch is taken a thousand at a time. Of those among which one is refused, or after which
        the batch raises, some or all are not published.
        """
        for some in _portions(batch):
            # Most batches are of one topic: that is found out at the speed of a comprehension.
            try:
                (topic, _) = first = some[0]
                values = [value for each, value in some if each == topic]
            except (TypeError, ValueError):
                raise _no_pairs(some) from None
            if isinstance(first, str):  # Two characters are a pair, too.
                raise _no_pairs(some)
            if len(values) == len(some):
                await self._publish_some(topic, values)
                continue
            if any(isinstance(each, str) for each in some):  # Two characters are a pair, too.
                raise _no_pairs(some)
            for topic, run in groupby(some, itemgetter(0)):
                await self._publish_some(topic, [value for _, value in run])

    async def publish_values(self, topic: str, values: Iterable[Value]) -> None:
        """Publish many messages on one topic, in order, waiting for room between them."""
        for some in _portions(values):
            await self._publish_some(topic, some)

    async def _publish_some(self, topic: str, values: list[Value]) -> None:
        if list(map(type, values)).count(bytes) == len(values):
            await self.publish_run(topic, _BYTES, None, cast("list[bytes]", values))
            return
        for is_raw, run in groupby(values, _is_bytes):
            if is_raw:
                await self.publish_run(topic, _BYTES, None, cast("list[bytes]", list(run)))
            else:
                await self.publish_run(topic, _DATA, None, list(map(encode, run)))

    async def publish_run(
        self, topic: str, kind: PackedType, to: object, payloads: Sequence[bytes]
    ) -> None:
        """Publish encoded payloads of one topic, waiting for room between them."""
        lengths = list(map(len, payloads))
        is_even = bool(lengths) and lengths.count(lengths[0]) == len(lengths)
        charge = PAYLOAD_CHARGE + (lengths[0] if is_even else max(lengths, default=0))
        at = 0
        while at < len(payloads):
            if not self._is_open_for(topic, kind, to):
                await self._admit(topic, kind, to)
            self._put(topic, kind, to, payloads[at])
            # As many more as fit into the group for sure, at once.
            begin, group = at + 1, self._group
            at = min(begin + max(0, group.room - 1) // charge, len(payloads))
            some = lengths[begin:at]
            size = lengths[0] * len(some) if is_even else sum(some)
            group.add_run(payloads[begin:at], some, size)
            if self._here and at > begin:
                self._deliver_here(self._here, topic, kind, payloads[begin:at])

    def _is_open_for(self, topic: str, kind: PackedType, to: object) -> bool:
        """Tell whether the open group takes such a message."""
        is_open = not self._group.is_sealed and not self._here
        return is_open and topic == self._topic and kind is self._type and to == self._to

    def _put(self, topic: str, kind: PackedType, to: object, payload: bytes) -> None:
        """Add a message to the open group, or open another; never waits."""
        if len(payload) > PAYLOAD_SIZE_MAX:
            raise EncodeError(
                f"{len(payload)} bytes in one message; {PAYLOAD_SIZE_MAX} are allowed: publish it "
                "in parts"
            )
        group = self._group
        if not group.is_sealed and topic == self._topic and kind is self._type and to == self._to:
            group.add(payload)
        else:
            self._begin(topic, kind, to, payload)
        if self._here:
            self._deliver_here(self._here, topic, kind, (payload,))

    def _begin(self, topic: str, kind: PackedType, to: object, payload: bytes) -> None:
        group = self._group
        if not group.is_sealed:
            group.seal()
        self._counted += group.count
        way = self._last_way
        if way is None or topic != self._topic or kind is not self._type or to != self._to:
            way = self._last_way = self._way(topic, kind, to)
            self._topic, self._type, self._to, self._here = topic, kind, to, way.here
            is_straight = to is None and not way.here
            self._bytes_topic = topic if kind is _BYTES and is_straight else None
            self._data_topic = topic if kind is _DATA and is_straight else None
        if self._send_alone(payload):
            self._group = self._nothing
            return
        if not way.hops:
            self._group = Group.forwarded([], 0, 1)
            return
        sequence = self._sequence
        self._sequence = sequence + 1
        group = self._group = Group(way.header, self._ttl, sequence, self._sign)
        group.add(payload)
        for connection in way.hops:
            connection.send_data(group)

    def command(self, topic: str, to: EndpointId | None, payload: bytes) -> None:
        """Send a store's commands: never waits, and what finds no room is dropped.

        The channel above it finds and repeats what is lost.
        """
        way = self._ways.get((topic, _COMMAND, to)) or self._way(topic, _COMMAND, to)
        sequence = self._command_sequence
        self._command_sequence = sequence + 1
        lone = way.lone
        if lone is not None and lone.is_free:
            lone.send_now(self._encode_single(way.header, self._ttl, sequence, payload))
        elif way.hops:
            group = Group(way.header, self._ttl, sequence, self._sign)
            group.add(payload)
            group.seal()
            for connection in way.hops:
                connection.send_command(group)

    def _way(self, topic: str, kind: PackedType, to: object) -> _Way:
        key = (topic, kind, to)
        try:
            way = self._ways.get(key)
        except TypeError:  # It has no hash: a mistake that is told below.
            way = None
        return self._make_way(topic, kind, to) if way is None else way

    def _make_way(self, topic: str, kind: PackedType, to: object) -> _Way:
        """Check what a first message of its kind names, and find where such messages go."""
        if self.is_forked:
            raise forking.error()
        if not self.is_open:
            raise EndpointClosed(
                "the endpoint is not open: publish inside of 'async with Endpoint() as ...'"
            )
        if kind is not _COMMAND:
            self._core.authorisation.check_publish(check_topic(topic))
        receiver = arguments.receiver("to", to)
        if len(self._ways) >= ROUTES_MAX:
            self._ways.clear()
        header = encode_header(NodeHeader(kind, self._core.local, receiver, topic))
        route = self._core.route(header)
        hops = [self._peers[hop].connection for hop in route.next_hops]
        way = _Way(header, hops, cast("tuple[Mailbox, ...]", route.receivers))
        self._ways[topic, kind, receiver] = way
        if isinstance(to, str):
            self._ways[topic, kind, to] = way
        return way


def no_pair(wrong: object) -> TypeError:
    """Give the error for an element of a batch that is no pair."""
    return TypeError(f"batch: {shorten(wrong)} is no pair of topic and value: give a list of pairs")


def _no_pairs(some: list[tuple[str, Value]]) -> TypeError:
    return no_pair(next((each for each in some if type(each) is not tuple or len(each) != 2), some))


def _signed_single(sign: Sign) -> EncodeSingle:
    def encode_one(header: bytes, ttl: int, sequence: int, payload: bytes) -> bytes:
        return b"".join(encode_signed(header, ttl, sequence, (payload,), sign)[0])

    return encode_one


def _portions(batch: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Take a batch apart, into lists of our own: its owner may change it while we wait."""
    if type(batch) is list:  # As most are, and slices cost less than iterating.
        at = 0
        while some := batch[at : at + BATCH_COUNT]:
            yield some
            at += BATCH_COUNT
    else:
        source = iter(batch)
        while some := list(islice(source, BATCH_COUNT)):
            yield some


def _is_bytes(value: Value) -> bool:
    return type(value) is bytes


class _Way:
    """Where messages of one topic and kind go: their header, and the connections they leave by."""

    __slots__ = ("header", "here", "hops", "lone")

    def __init__(self, header: bytes, hops: list[Connection], here: tuple[Mailbox, ...]) -> None:
        self.header = header
        self.hops = hops
        self.here = here
        """Subscribers of this endpoint that hear it, too."""
        self.lone = hops[0] if len(hops) == 1 else None
