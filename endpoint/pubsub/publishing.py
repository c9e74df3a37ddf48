"""The way out: a user's messages gather in the journal, and leave as frames through the links.

Nothing here switches tasks for a message: a publisher waits only when an outbox is full, and lets
other tasks run now and then. All waiting comes before a message is taken, so that what is cancelled
has sent nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar, cast

import trio

from endpoint import arguments
from endpoint.arguments import NodeId
from endpoint.link.connection import Connection
from endpoint.link.data_queue import Outgoing
from endpoint.link.hold_words import Verdict
from endpoint.link.holds import Holds
from endpoint.link.peering import Peering
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.routing import ROUTES_MAX
from endpoint.pubsub.journal import (
    PAYLOAD_CHARGE,
    Departure,
    Hop,
    Journal,
    TooLarge,
    Way,
    distinct,
    ends_of,
)
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.turns import TrioTurns, Turns
from net import forking
from net.wakeup import Wakeup
from wire.codec import encode_header
from wire.encoding import encode
from wire.errors import EncodeError, EndpointClosed, OutboxFull
from wire.framing import UNLIKE, Sign, encode_node, encode_single
from wire.identifiers import EndpointId
from wire.limits import GROUP_SIZE, PAYLOAD_SIZE_MAX
from wire.messages import NodeHeader, PackedType
from wire.scalars import shorten
from wire.topics import check_topic
from wire.values import Value

YIELD_COUNT: Final = 1_024
"""Messages after which a publisher lets other tasks run: a checkpoint's cost, shared, and a third
of a millisecond of small bytes, or three of values that are encoded. Large ones fill an outbox
before."""

LOOK_SECONDS: Final = 1.0
"""How often a publisher whose messages are held looks whether it has waited long enough."""

_FULL: Final = "{}: await publish() to wait for room, or publish less"

BATCH_COUNT: Final = 1_024
"""Messages of a batch that are handled together: as many as one frame takes at most."""

Key = tuple[str, PackedType, object]
"""What names a way: topic, type and receiver, which may be any form of an endpoint's id."""

_Item = TypeVar("_Item")

_BYTES: Final = PackedType.BYTES
_DATA: Final = PackedType.DATA
_COMMAND: Final = PackedType.COMMAND


class Host(Protocol):
    """The endpoint, as far as publishing needs it."""

    @property
    def peerings(self) -> Mapping[EndpointId, Peering]:
        """Give the peers, with their connections."""

    def deliver_here(self, way: Way, payload: bytes, skip: object) -> None:
        """Give a message to this endpoint's own subscribers on its way, but for ``skip``."""

    @property
    def holds(self) -> Holds:
        """Say which messages wait for a full place elsewhere."""

    def tell_too_large(self, hop: EndpointId, topic: str) -> None:
        """A message was too large for a peer, and was dropped there."""


class Publication:
    """Everything that one endpoint publishes, in the order in which it does."""

    def __init__(
        self,
        core: EndpointCore,
        host: Host,
        ttl: int,
        first_sequence: int,
        sign: Sign | None = None,
    ) -> None:
        """Publish through the host's connections, with ``ttl`` links to live.

        Each frame is signed with ``sign``, if there is one.

        ``first_sequence`` has to be beyond all that an endpoint with the same id has ever used:
        others remember those, and would take a new life's first messages for an old one's.
        """
        self._core = core
        self._host = host
        self._ttl = ttl
        self._sign = sign
        self._local = core.local
        self._encode = encode_single if sign is None else self._encode_signed
        self._journal = Journal(core.local, ttl, first_sequence, sign)
        self._command_sequence = first_sequence
        self._since_yield = 0
        self._room_here = trio.lowlevel.ParkingLot()
        self._gate = trio.lowlevel.ParkingLot()
        """Publishers whose messages are held."""
        self._work = Wakeup()
        self._ways: dict[tuple[str, PackedType, object], Way] = {}
        self._bytes_ways: dict[str, Way] = {}
        self._data_ways: dict[str, Way] = {}
        """Those that a topic alone leads to, by the type of what is published."""
        self._lanes: dict[tuple[Connection, ...], tuple[Connection, ...]] = {}
        self._counted = 0
        self.on_room: Callable[[], object] | None = None
        """Hears that what waited may go now: for a publisher that does not wait itself."""
        self.turns: Turns = TrioTurns()
        """How publishers wait. Replaced by a front end whose tasks are not trio's."""
        self.closed: Callable[[], EndpointClosed] = _not_open
        """Gives what publishing raises while the endpoint is not open; for a front end, too."""
        self.is_open = False
        """Set by the endpoint while it is open."""
        self.is_forked = False
        """Whether this is a copy in a child process."""

    @property
    def messages(self) -> int:
        """Messages published so far, whether anything wanted them or not."""
        return self._counted + len(self._journal)

    def close(self) -> None:
        """Take nothing more."""
        self.is_open = False
        self.invalidate()

    def invalidate(self) -> None:
        """The mesh changed: forget all ways, once what was published by them has left."""
        self.cut()
        for ways in (self._ways, self._bytes_ways, self._data_ways, self._lanes):
            ways.clear()
        if self.on_room is not None:
            self.on_room()

    async def publish(  # noqa: C901 - the way of each message, a million times a second
        self, topic: str, data: Value, *, to: NodeId | None = None
    ) -> None:
        """Publish to every subscriber of the topic, waiting for room when an outbox is full.

        With ``to``, an endpoint or its id, only that endpoint gets it, if it has subscribed. What
        has no subscriber goes nowhere. Cancelled, it has published nothing. Raises ``EncodeError``,
        ``InvalidTopic`` and ``EndpointClosed``.
        """
        # The straight way for a topic that was met before: what ``Journal.add`` does, written out.
        journal = self._journal
        if type(data) is bytes:
            payload, only = data, journal.bytes_topic
        else:
            payload, only = encode(data), journal.data_topic
        if only is not None and topic == only and to is None:
            if len(payload) == journal.length:
                room = journal.room - journal.charge
            else:
                journal.length, length = UNLIKE, len(payload)
                room = journal.room - (length if length > PAYLOAD_CHARGE else PAYLOAD_CHARGE)
            if room > 0:
                journal.room = room
                journal.payloads.append(payload)
                return
        elif to is None:
            try:
                way = (self._bytes_ways if payload is data else self._data_ways).get(topic)
            except TypeError:  # It has no hash: a mistake that is told below.
                way = None
            if way is None:
                pass
            elif journal.payloads:
                length = len(payload)
                room = journal.room - (length if length > PAYLOAD_CHARGE else PAYLOAD_CHARGE)
                if room > 0 and journal.is_mixed:
                    if length != journal.length:
                        journal.length = UNLIKE
                    journal.room = room
                    journal.ways.append(way)
                    journal.payloads.append(payload)
                    return
                if room > 0:
                    journal.add(way, payload)
                    return
            elif self._since_yield < YIELD_COUNT:
                # After a pause: nothing is before it, and no hold is on it.
                lone = way.lone
                if lone is not None and lone.may_send_single():
                    self._since_yield += 1
                    if self._send_alone(lone, way.header, payload):
                        return
        kind = _BYTES if payload is data else _DATA
        await self._pause(len(journal) or 1)
        way = self.way(topic, kind, to)
        verdict = self.verdict(way, 0.0)
        if verdict is Verdict.WAIT:
            way, verdict = await self._wait_for_room(topic, kind, to)
        if verdict is Verdict.FORCED:
            self._force(way, payload)
        else:
            self._put(way, payload)

    async def _pause(self, count: int) -> None:
        """Let other tasks run now and then, after ``count`` more messages; raises ``Cancelled``."""
        self._since_yield += count
        is_due = self._since_yield >= YIELD_COUNT
        if is_due:
            self._since_yield = 0
        await self.turns.pause(is_due=is_due)

    async def publish_encoded(self, topic: str, payload: bytes, *, skip: object = None) -> None:
        """Publish an encoded value as ``publish`` does, but not to one reader here, ``skip``.

        A gateway publishes for many clients, and none of them hears itself.
        """
        await self._pause(len(self._journal) or 1)
        way, verdict = await self._wait_for_room(topic, _DATA, None)
        if way.hops:
            (self._force if verdict is Verdict.FORCED else self._put)(way, payload, skip)
        else:
            _check_size(payload)
            self._counted += 1
            self._host.deliver_here(way, payload, skip)

    async def _wait_for_room(self, topic: str, kind: PackedType, to: object) -> tuple[Way, Verdict]:
        """Wait until a message may go; give its way, and whether it goes in spite of a hold.

        Raises as ``publish`` does.
        """
        held_since: float | None = None
        while True:
            way = self.way(topic, kind, to)
            if self._find_full(way) is not None:
                await self.turns.wait(partial(self._await_room, topic, kind, to))
                continue
            waited = 0.0 if held_since is None else trio.current_time() - held_since
            verdict = self._host.holds.verdict(way.header, waited)
            if verdict is not Verdict.WAIT:
                return way, verdict
            held_since = trio.current_time() if held_since is None else held_since
            await self.turns.wait(partial(self._await_room, topic, kind, to))

    async def _await_room(self, topic: str, kind: PackedType, to: object) -> None:
        """Wait for a change, if there is no room for a message when this begins; in trio."""
        way = self.way(topic, kind, to)
        full = self._find_full(way)
        if full is not None:
            await full.park()
        elif self._host.holds.verdict(way.header, 0.0) is Verdict.WAIT:
            with trio.move_on_after(LOOK_SECONDS):
                await self._gate.park()

    def _find_full(self, way: Way) -> trio.lowlevel.ParkingLot | None:
        """Give what a message has to wait for; ``None`` if there is room in every next hop."""
        for connection in cast("tuple[Connection, ...]", way.hops):
            if connection.link.is_full and connection.is_open:
                return connection.room
        for mailbox in cast("tuple[Mailbox, ...]", way.here):
            if mailbox.is_holding:
                return self._room_here
        return None

    def holds_changed(self) -> None:
        """Close the fast way to what is held now, open it to what is not, and look again."""
        self.cut()
        holds = self._host.holds
        for ways in (self._bytes_ways, self._data_ways):
            ways.clear()
        for way in self._ways.values():
            if way.is_straight and holds.verdict(way.header, 0.0) is Verdict.GO:
                self._remember(way)
        self._gate.unpark_all()
        self.make_room()

    def _remember(self, way: Way) -> None:
        """Have a topic alone lead to its way from now on."""
        if way.kind is not _COMMAND:
            (self._bytes_ways if way.kind is _BYTES else self._data_ways)[way.topic] = way

    def _force(self, way: Way, payload: bytes, skip: object = None) -> None:
        """Send a message that has waited for a full place for as long as it may; never alone."""
        _check_size(payload)
        self.cut()
        self._journal.add(way, payload)
        self.cut(forced=True)
        if way.here:
            self._host.deliver_here(way, payload, skip)

    def make_room(self) -> None:
        """Have publishers that wait for more than a link look again."""
        if self._room_here:
            self._room_here.unpark_all()
        if self.on_room is not None:
            self.on_room()

    def publish_nowait(self, topic: str, data: Value, to: object) -> None:
        """Publish without waiting; raises ``OutboxFull`` where ``publish`` would wait."""
        kind = _BYTES if type(data) is bytes else _DATA
        payload = data if type(data) is bytes else encode(data)
        way = self.way(topic, kind, to)
        obstacle = self.obstacle(way)
        if obstacle is not None:
            raise OutboxFull(_FULL.format(obstacle))
        self._put(way, payload)

    def obstacle(self, way: Way) -> str | None:
        """Say what a message of a way would wait for; ``None`` if it may go at once."""
        full = self._find_full(way)
        if full is self._room_here:
            return "a subscriber of this endpoint is full"
        if full is not None:
            hops = cast("tuple[Connection, ...]", way.hops)
            names = ", ".join(str(each.peer) for each in hops if each.link.is_full)
            return f"the outbox to {names} is full"
        if self._host.holds.verdict(way.header, 0.0) is not Verdict.WAIT:
            return None
        holder = self._host.holds.holders(way.header)[0]
        where = f"{shorten(holder.label)} at {holder.endpoint}"
        return f"{where} has no room for messages on {way.topic}"

    def has_room(self, ways: Iterable[Way]) -> bool:
        """Tell whether nothing waits that goes these ways: at once for all that go alike."""
        alike = {(way.hops, way.here): way for way in ways}
        return self._host.holds.is_idle and all(
            self._find_full(way) is None for way in alike.values()
        )

    def verdict(self, way: Way, waited: float, *, is_leaving: bool = False) -> Verdict:
        """Say what becomes of a message that has waited for so many seconds.

        With ``is_leaving``, holds do not count: nothing comes after it, as if it was under way.
        """
        if self._find_full(way) is not None:
            return Verdict.WAIT
        return Verdict.GO if is_leaving else self._host.holds.verdict(way.header, waited)

    async def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order, waiting for room between them.

        A batch is taken a thousand at a time. Of those among which one is refused, or after which
        the batch raises, some or all are not published.
        """
        for some in _portions(arguments.several("batch", batch)):
            try:
                topics = [topic for topic, _ in some]
                values = [value for _, value in some]
            except (TypeError, ValueError):
                raise _no_pairs(some) from None
            if str in set(map(type, some)):  # Two characters are a pair, too.
                raise _no_pairs(some)
            await self._publish_some(topics, values)

    async def publish_values(self, topic: str, values: Iterable[Value]) -> None:
        """Publish many messages on one topic, in order, waiting for room between them."""
        for some in _portions(arguments.several("batch", values)):
            await self._publish_some([topic] * len(some), some)

    async def _publish_some(self, topics: Sequence[str], values: Sequence[Value]) -> None:
        """Publish values, each on its topic, in order, waiting for room between them."""
        kinds = set(map(type, values))
        payloads: Sequence[bytes]
        if kinds == {bytes}:
            payloads = cast("Sequence[bytes]", values)
        else:
            payloads = [value if type(value) is bytes else encode(value) for value in values]
        ends = ends_of(payloads)
        at = charged = 0
        while at < len(payloads):
            end = max(at + 1, bisect_right(ends, charged + GROUP_SIZE))
            await self._pause(end - at)
            if not self._put_straight(topics[at:end], kinds, payloads[at:end]):
                types = [_BYTES if type(value) is bytes else _DATA for value in values[at:end]]
                keys: list[Key] = [
                    (*each, None) for each in zip(topics[at:end], types, strict=True)
                ]
                await self._publish_keys(keys, payloads[at:end])
            at, charged = end, ends[end - 1]

    def _put_straight(
        self, topics: Sequence[str], kinds: AbstractSet[type], payloads: Sequence[bytes]
    ) -> bool:
        """Add messages if all their topics were met before, and none of them has to wait."""
        if bytes in kinds and len(kinds) > 1:
            return False  # Each would have to be looked at.
        try:
            found = list(map((self._bytes_ways if bytes in kinds else self._data_ways).get, topics))
        except TypeError:  # A topic has no hash: a mistake that is told where its way is made.
            return False
        among = distinct(found)
        if None in among or not self.has_room(cast("Iterable[Way]", among)):
            return False
        ways = cast("Sequence[Way]", found)
        self.put_all(ways, payloads, among=cast("Iterable[Way]", among))
        return True

    async def _publish_keys(self, keys: Sequence[Key], payloads: Sequence[bytes]) -> None:
        """Publish encoded payloads of one frame, each by its key; wait for room before."""
        forced = set()
        for key in _distinct(keys):
            _, verdict = await self._wait_for_room(*key)
            if verdict is Verdict.FORCED:
                forced.add(key)
        found = {key: self.way(*key) for key in dict.fromkeys(keys)}
        ways = [found[key] for key in keys]
        if forced:
            for key, way, payload in zip(keys, ways, payloads, strict=True):
                (self._force if key in forced else self._put)(way, payload)
        else:
            self.put_all(ways, payloads)

    def put_all(
        self,
        ways: Sequence[Way],
        payloads: Sequence[bytes],
        *,
        among: Iterable[Way] | None = None,
        is_forced: bool = False,
    ) -> None:
        """Add messages, each with its way, in order; ``is_forced`` past a hold. Never waits.

        Who knows which ways are ``among`` them says so: to find out costs as much as to add them.
        """
        among = distinct(ways) if among is None else among
        if is_forced or len(ways) == 1 or any(way.here for way in among):
            put = self._force if is_forced else self._put
            for way, payload in zip(ways, payloads, strict=True):
                put(way, payload)
        else:
            self._add_all(ways, payloads)

    def _add_all(self, ways: Sequence[Way], payloads: Sequence[bytes]) -> None:
        """Add messages that nothing here hears, with a cut wherever one is full."""
        journal, ends = self._journal, ends_of(payloads)
        at = charged = 0
        while at < len(payloads):
            room = journal.room if journal.payloads else GROUP_SIZE
            end = bisect_right(ends, charged + room)
            if end == at and journal.payloads:
                self.cut()
                continue
            end = max(end, at + 1)  # One that is larger goes alone.
            if not journal.payloads:
                self._work.wake()
            journal.add_all(ways[at:end], payloads[at:end], ends[end - 1] - charged)
            at, charged = end, ends[end - 1]

    def _put(self, way: Way, payload: bytes, skip: object = None) -> None:
        """Add one message, or send it alone; never waits."""
        size, journal = _check_size(payload), self._journal
        if journal.payloads and journal.room <= max(PAYLOAD_CHARGE, size):
            self.cut()
        lone = None if journal.payloads else way.lone
        if lone is None or not (
            lone.may_send_single() and self._send_alone(lone, way.header, payload)
        ):
            if not journal.payloads:
                self._work.wake()
            journal.add(way, payload)
        if way.here:
            self._host.deliver_here(way, payload, skip)

    def _send_alone(self, hop: Hop, header: bytes, payload: bytes) -> bool:
        """Send the first message after a pause at once: a reply waits for no task."""
        journal, encode_alone = self._journal, self._encode
        frame = encode_alone(self._local, header, self._ttl, journal.sequence, payload)
        if len(frame) > hop.frame_size_max or len(payload) > PAYLOAD_SIZE_MAX:
            return False  # The journal says so.
        journal.sequence += 1
        self._counted += 1
        hop.send_single(frame)
        return True

    def _encode_signed(
        self, sender: bytes, header: bytes, ttl: int, first: int, payload: bytes
    ) -> bytes:
        """Make a frame of one message as ``encode_single`` does, with a signature."""
        pieces, _ = encode_node(sender, ttl, first, (header,), b"", (payload,), sign=self._sign)
        return b"".join(pieces)

    def cut(self, *, forced: bool = False) -> None:
        """Put what was published into the links of the next hops."""
        if self._journal.payloads:
            self._counted += len(self._journal)
            for each in self._journal.cut(forced=forced):
                match each:
                    case Departure(hops, frame):
                        for connection in cast("Sequence[Connection]", hops):
                            connection.send_data(frame)
                    case TooLarge(hop, topic):
                        peer = cast("Connection", hop).peer
                        if peer is not None:
                            self._host.tell_too_large(peer, topic)

    async def flush_forever(self) -> None:
        """Send what gathers while the tasks of one step run."""
        while True:
            if not self._journal.payloads:
                await self._work.wait()
            self.cut()

    def command(self, topic: str, to: EndpointId | None, payload: bytes) -> None:
        """Send a store's commands: never waits, and what finds no room is dropped.

        The channel above it finds and repeats what is lost.
        """
        way = self.way(topic, _COMMAND, to)
        sequence = self._command_sequence
        self._command_sequence = sequence + 1
        if way.hops:
            data = self._encode(self._local, way.header, self._ttl, sequence, payload)
            frame = Outgoing([data], len(data), 1, len(data), own=True)
            for hop in way.hops:
                hop.send_command(frame)

    def way(self, topic: str, kind: PackedType, to: object) -> Way:
        """Find where messages of a topic, type and receiver go; raises as ``publish`` does."""
        try:
            way = self._ways.get((topic, kind, to))
        except TypeError:  # It has no hash: a mistake that is told below.
            way = None
        return self._make_way(topic, kind, to) if way is None else way

    def _make_way(self, topic: str, kind: PackedType, to: object) -> Way:
        """Check what a first message of its kind names, and find where such messages go."""
        if self.is_forked:
            raise forking.error()
        if not self.is_open:
            raise self.closed()
        if kind is not _COMMAND:
            self._core.authorisation.check_publish(check_topic(topic))
        receiver = arguments.receiver("to", to)
        if len(self._ways) >= ROUTES_MAX:
            self.invalidate()
        header = encode_header(NodeHeader(kind, self._core.local, receiver, topic))
        route = self._core.routing.route(self._core.local, header)
        found = tuple([self._host.peerings[hop].connection for hop in route.next_hops])
        hops = self._lanes.setdefault(found, found)
        way = Way(route, header, hops)
        self._ways[topic, kind, receiver] = way
        if isinstance(to, str):
            self._ways[topic, kind, to] = way
        if way.is_straight and self._host.holds.verdict(header, 0.0) is Verdict.GO:
            self._remember(way)
        return way


def _not_open() -> EndpointClosed:
    return EndpointClosed(
        "the endpoint is not open: use it inside of 'async with Endpoint() as endpoint'"
    )


def _check_size(payload: bytes) -> int:
    """Give the size of a message; raises ``EncodeError`` for one that no frame holds."""
    size = len(payload)
    if size > PAYLOAD_SIZE_MAX:
        raise EncodeError(
            f"{size} bytes in one message; {PAYLOAD_SIZE_MAX} are allowed: publish it in parts"
        )
    return size


def no_pair(wrong: object) -> TypeError:
    """Give the error for an element of a batch that is no pair."""
    return TypeError(f"batch: {shorten(wrong)} is no pair of topic and value: give a list of pairs")


def _no_pairs(some: list[tuple[str, Value]]) -> TypeError:
    return no_pair(next((each for each in some if type(each) is not tuple or len(each) != 2), some))


def _distinct(keys: Sequence[Key]) -> Iterable[Key]:
    try:
        return dict.fromkeys(keys)
    except TypeError:  # A topic has no hash: a mistake that is told where its way is looked up.
        return keys


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
