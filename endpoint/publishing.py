"""The way out: a user's messages become groups in the outboxes of the next hops.

Consecutive messages with the same header share one group, which is encoded once, whatever the
number of peers. Nothing here switches tasks for a message: a publisher waits only when an outbox is
full, and lets others run now and then (design section 15).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, Protocol, TypeVar, cast

import trio

from endpoint.connection import Connection, EncodeSingle
from endpoint.core import ROUTES_MAX, EndpointCore
from endpoint.outbox import PAYLOAD_CHARGE, Group
from wire.codec import encode_header
from wire.encoding import encode
from wire.errors import EncodeError, EndpointClosed, OutboxFull
from wire.framing import Sign, encode_signed, encode_single
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX
from wire.messages import NodeHeader, PackedType
from wire.topics import check_topic
from wire.values import Value

YIELD_COUNT: Final = 1_024
"""Messages after which a publisher lets other tasks run: a checkpoint's cost, shared, and a third
of a millisecond of small bytes, or three of values that are encoded. Large ones fill an outbox
before."""

BATCH_COUNT: Final = 1_024
"""Messages of a batch that are handled together: as many as one group takes at most."""

_Item = TypeVar("_Item")

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
        sign: Sign | None = None,
    ) -> None:
        """Publish through the peers' connections, with ``ttl`` links to live.

        Each frame is signed with ``sign``, if there is one.

        ``first_sequence`` has to be beyond all that an endpoint with the same id has ever used:
        others remember those, and would take a new life's first messages for an old one's.
        """
        self._core = core
        self._peers = peers
        self._ttl = ttl
        self._sign = sign
        self._encode_single = encode_single if sign is None else _signed_single(sign)
        self._sequence = self._command_sequence = first_sequence
        self._since_yield = 0
        self._hops: list[Connection] = []
        self._ways: dict[tuple[str, PackedType, EndpointId | None], _Way] = {}
        # The open group, and what it is open for.
        self._group = self._nothing = Group.forwarded([], 0, 0)
        self._last_way: _Way | None = None
        self._topic = ""
        self._bytes_topic: str | None = None
        self._data_topic: str | None = None
        self._type = _BYTES
        self._to: EndpointId | None = None
        self._counted = 0
        self.is_open = False
        """Set by the endpoint while it is open."""

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

    async def publish(self, topic: str, data: Value, *, to: EndpointId | None = None) -> None:
        """Publish to whoever subscribed to the topic, waiting for room when an outbox is full.

        With ``to``, only the endpoint with that id gets it, if it has subscribed. Raises
        ``EncodeError`` and ``InvalidTopic``. What nobody has subscribed to goes nowhere.
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
        if self._put(topic, kind, to, payload):
            await self.breathe()

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

    def publish_nowait(self, topic: str, data: Value, to: EndpointId | None) -> None:
        """Publish, or raise ``OutboxFull`` when somebody has to wait."""
        way = self._way(topic, PackedType.BYTES, to)
        for connection in way.hops:
            if connection.outbox.is_full and not connection.outbox.is_lossy:
                raise OutboxFull(
                    f"the outbox to {connection.peer} is full: await publish() to wait for room, "
                    "or publish less"
                )
        self.put(topic, data, to)

    async def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order, waiting for room between them.

        A batch is taken a thousand at a time. Of those among which one is refused, or after which
        the batch raises, some or all are not published.
        """
        for some in _portions(batch):
            # Most batches are of one topic: that is found out at the speed of a comprehension.
            topic = some[0][0]
            values = [value for each, value in some if each == topic]
            if len(values) == len(some):
                await self._publish_some(topic, values)
                continue
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
        self, topic: str, kind: PackedType, to: EndpointId | None, payloads: Sequence[bytes]
    ) -> None:
        """Publish encoded payloads of one topic, waiting for room between them."""
        lengths = list(map(len, payloads))
        is_even = bool(lengths) and lengths.count(lengths[0]) == len(lengths)
        charge = PAYLOAD_CHARGE + (lengths[0] if is_even else max(lengths, default=0))
        at = 0
        while at < len(payloads):
            is_time = self._put(topic, kind, to, payloads[at])
            # As many more as fit into the group for sure, at once; and before anybody else can
            # open another one, who publishes while we breathe.
            begin, group = at + 1, self._group
            at = min(begin + max(0, group.room - 1) // charge, len(payloads))
            some = lengths[begin:at]
            size = lengths[0] * len(some) if is_even else sum(some)
            group.add_run(payloads[begin:at], some, size)
            if is_time:
                await self.breathe()

    def put(self, topic: str, data: Value, to: EndpointId | None) -> bool:
        """Add a message to the open group, or open another; true if it is time to ``breathe``."""
        if type(data) is bytes:
            payload, kind = data, _BYTES
        else:
            payload, kind = encode(data), PackedType.DATA
        return self._put(topic, kind, to, payload)

    def _put(self, topic: str, kind: PackedType, to: EndpointId | None, payload: bytes) -> bool:
        if len(payload) > PAYLOAD_SIZE_MAX:
            raise EncodeError(
                f"{len(payload)} bytes in one message; {PAYLOAD_SIZE_MAX} are allowed: publish it "
                "in parts"
            )
        group = self._group
        if not group.is_sealed and topic == self._topic and kind is self._type and to == self._to:
            group.add(payload)
            return group.is_sealed
        return self._begin(topic, kind, to, payload)

    def _begin(self, topic: str, kind: PackedType, to: EndpointId | None, payload: bytes) -> bool:
        group = self._group
        was_open = not group.is_sealed
        if was_open:
            group.seal()
        self._counted += group.count
        way = self._last_way
        if way is None or topic != self._topic or kind is not self._type or to != self._to:
            way = self._last_way = self._way(topic, kind, to)
            self._topic, self._type, self._to = topic, kind, to
            self._bytes_topic = topic if kind is _BYTES and to is None else None
            self._data_topic = topic if kind is _DATA and to is None else None
            self._hops = way.hops
        if self._send_alone(payload):
            self._group = self._nothing
            return False
        if not way.hops:
            self._group = Group.forwarded([], 0, 1)
            return True
        sequence = self._sequence
        self._sequence = sequence + 1
        group = self._group = Group(way.header, self._ttl, sequence, self._sign)
        group.add(payload)
        for connection in way.hops:
            connection.send_data(group)
        # Whoever changes the topic with each message fills outboxes with a frame for each.
        return was_open or group.is_sealed

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

    async def breathe(self) -> None:
        """Wait until no outbox of the last message's way is full; let other tasks run at times."""
        hops = self._hops  # Others publish meanwhile.
        self._since_yield += self._group.count or 1
        if self._since_yield >= YIELD_COUNT:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        for connection in hops:
            outbox = connection.outbox
            while outbox.is_full and connection.is_open and not outbox.is_lossy:
                await connection.room.park()

    def _way(self, topic: str, kind: PackedType, to: EndpointId | None) -> _Way:
        key = (topic, kind, to)
        way = self._ways.get(key)
        if way is None:
            if not self.is_open:
                raise EndpointClosed(
                    "the endpoint is not open: publish inside of 'async with Endpoint() as ...'"
                )
            if kind is not _COMMAND:
                self._core.authorisation.check_publish(check_topic(topic))
            if len(self._ways) >= ROUTES_MAX:
                self._ways.clear()
            header = encode_header(NodeHeader(kind, self._core.local, to, topic))
            hops = self._core.route(header).next_hops
            way = self._ways[key] = _Way(header, [self._peers[hop].connection for hop in hops])
        return way


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

    __slots__ = ("header", "hops", "lone")

    def __init__(self, header: bytes, hops: list[Connection]) -> None:
        self.header = header
        self.hops = hops
        self.lone = hops[0] if len(hops) == 1 else None
