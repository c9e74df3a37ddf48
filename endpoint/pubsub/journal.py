"""What is published gathers here until it leaves, as frames of many topics. Pure.

Messages stand in the order in which they were published, each with its way. A cut makes frames of
them: one for all links where all messages go the same ways, else one for each link, with gaps in
its numbers for what goes elsewhere. So the cost of a frame is shared by whatever was published
together, on however many topics.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, compress, groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol, TypeVar

from endpoint.link.data_queue import Outgoing
from endpoint.mesh.routes import Route
from wire.codec import decode_header
from wire.framing import UNLIKE, Sign, encode_node, halves, offsets, selected, trimmed
from wire.identifiers import EndpointId
from wire.limits import GROUP_COUNT, GROUP_SIZE, HEADERS_MAX, JOIN_SIZE
from wire.messages import PackedType

PAYLOAD_CHARGE: Final = GROUP_SIZE // GROUP_COUNT
"""What a message takes of a cut's room at least, or its size: so one number bounds size and count.
In a link it is charged its size and this: what Python needs for it."""

_TABLE_SIZE: Final = 256
_Item = TypeVar("_Item", bound=Hashable)
_AUDIENCE: Final = attrgetter("audience")


class Hop(Protocol):
    """The link to a next hop, as far as a journal looks at it."""

    frame_size_max: int
    """Bytes of the largest frame that its other end takes."""

    def may_send_single(self) -> bool:
        """Tell whether a frame of one message may be sent at once, past its queues."""
        ...

    def send_single(self, frame: bytes) -> None:
        """Send such a frame."""

    def send_command(self, frame: Outgoing) -> None:
        """Send store commands at once if nothing is before them, or queue them."""


class Way:
    """Where messages of one topic, type and receiver go from here."""

    __slots__ = (
        "audience", "header", "here", "hops", "is_straight", "kind", "lone", "receiver", "topic",
    )  # fmt: skip

    def __init__(self, route: Route, encoded: bytes, hops: tuple[Hop, ...]) -> None:
        """Go by the links ``hops``; ``encoded`` is the header of the route."""
        self.topic = route.header.topic
        self.kind = route.header.type
        self.receiver = route.header.receiver
        self.header = encoded
        self.hops = hops
        self.lone = hops[0] if len(hops) == 1 else None
        """The one link, if there is one alone."""
        self.here = route.receivers
        """Subscribers of this endpoint that hear it, too."""
        self.audience = route.audience
        self.is_straight = not self.here and self.receiver is None
        """Whether nothing but topic and type leads here, and nothing is heard here."""


class Departure(NamedTuple):
    """A frame that leaves by each of these links."""

    hops: Sequence[Hop]
    frame: Outgoing


class TooLarge(NamedTuple):
    """A message that does not fit into a frame that this link's other end takes: dropped there."""

    hop: Hop
    topic: str


class _Contents(NamedTuple):
    """What one frame holds."""

    headers: Sequence[bytes]
    first: int
    numbers: bytes
    payloads: Sequence[bytes]
    length: int
    """The length of each payload; ``UNLIKE`` if they may differ in it."""
    mask: int | None = None

    def part(self, selection: bytes) -> _Contents:
        """Give the selected messages."""
        headers, numbers = selected(self.headers, self.numbers, selection)
        first, mask = trimmed(self.first, offsets(self.mask, selection))
        payloads = list(compress(self.payloads, selection))
        return _Contents(headers, first, numbers, payloads, self.length, mask)


def distinct(ways: Sequence[_Item]) -> Iterable[_Item]:
    """Give each way once, in order: most sequences are of one, which is found at half the cost."""
    if ways and ways[0] is ways[-1] and ways.count(ways[0]) == len(ways):
        return ways[:1]
    return dict.fromkeys(ways)


def ends_of(payloads: Sequence[bytes]) -> Sequence[int]:
    """Give how much of a frame's room each message takes, with all before it."""
    lengths = list(map(len, payloads))
    if max(lengths) <= PAYLOAD_CHARGE:
        return range(PAYLOAD_CHARGE, PAYLOAD_CHARGE * (len(lengths) + 1), PAYLOAD_CHARGE)
    if min(lengths) < PAYLOAD_CHARGE:
        lengths = [max(length, PAYLOAD_CHARGE) for length in lengths]
    return list(accumulate(lengths))


class Journal:
    """The messages of one endpoint that were published since the last cut.

    ``Publication.publish`` writes to it directly, a million times a second: see ``add``.
    """

    __slots__ = (
        "_is_forced",
        "_sender",
        "_sign",
        "_ttl",
        "bytes_topic",
        "charge",
        "data_topic",
        "is_mixed",
        "length",
        "only",
        "payloads",
        "room",
        "sequence",
        "ways",
    )

    def __init__(
        self, sender: EndpointId, ttl: int, first_sequence: int, sign: Sign | None
    ) -> None:
        """Number messages from ``first_sequence`` on; give each frame ``ttl`` links to cross.

        Each frame is signed with ``sign``, if there is one.
        """
        self._sender = sender
        self._ttl = ttl
        self._sign = sign
        self._is_forced = False
        self.sequence = first_sequence
        """The number of the first message here."""
        self.payloads: list[bytes] = []
        self.ways: list[Way] = []
        """The way of each payload; empty while ``only`` says it of all."""
        self.length = UNLIKE
        """The length of each payload, as long as they do not differ in it."""
        self.charge = 0
        """What each takes of the room, as long as that is so."""
        self.only: Way | None = None
        self.bytes_topic: str | None = None
        self.data_topic: str | None = None
        """The topic of that one way, by its type, if nothing but the topic leads to it."""
        self.is_mixed = False
        """Whether there are several ways, each noted in ``ways``."""
        self.room = 0
        """What more messages may take before the next cut: their size, each ``PAYLOAD_CHARGE`` at
        least. Zero or less when nothing is open."""

    def __len__(self) -> int:
        """Count the messages."""
        return len(self.payloads)

    def add(self, way: Way, payload: bytes) -> None:
        """Add a message; the caller cuts before that when there is no ``room`` for it."""
        if not self.payloads:
            self._open(way, len(payload))
        elif not self.is_mixed and way is not self.only:
            self._mix()
        if len(payload) != self.length:
            self.length = UNLIKE
        self.room -= max(PAYLOAD_CHARGE, len(payload))
        if self.is_mixed:
            self.ways.append(way)
        self.payloads.append(payload)

    def add_all(self, ways: Sequence[Way], payloads: Sequence[bytes], charge: int) -> None:
        """Add messages that take ``charge`` at most, each with its way: there is room for them."""
        if not self.payloads:
            self._open(ways[0], UNLIKE)
        self.length = UNLIKE
        if not self.is_mixed and ways.count(self.only) < len(ways):
            self._mix()
        if self.is_mixed:
            self.ways += ways
        self.room -= charge
        self.payloads += payloads

    def _open(self, way: Way, length: int) -> None:
        self.room, self.only = GROUP_SIZE, way
        self.length, self.charge = length, max(length, PAYLOAD_CHARGE)
        if way.is_straight:
            is_raw = way.kind is PackedType.BYTES
            self.bytes_topic = way.topic if is_raw else None
            self.data_topic = None if is_raw else way.topic

    def _mix(self) -> None:
        if self.only is not None:
            self.ways += [self.only] * len(self.payloads)
        self.is_mixed, self.only, self.bytes_topic, self.data_topic = True, None, None, None

    def cut(self, *, forced: bool = False) -> list[Departure | TooLarge]:
        """Make frames of all that is here, in order; ``forced`` past a hold, if it was."""
        self._is_forced = forced
        payloads, ways, only = self.payloads.copy(), self.ways.copy(), self.only
        self.payloads.clear()
        self.ways.clear()
        self.only = self.bytes_topic = self.data_topic = None
        self.is_mixed, self.room = False, 0
        first = self.sequence
        if only is not None:
            if only.hops:
                self.sequence += len(payloads)
            contents = _Contents((only.header,), first, b"", payloads, self.length)
            return list(self._frames(only.hops, contents))
        distinct = dict.fromkeys(ways)
        lanes = {way.hops for way in distinct}
        # What goes nowhere gets no number: a number that nobody sees is a gap for others.
        if () in lanes:
            goes = [bool(way.hops) for way in ways]
            ways, payloads = list(compress(ways, goes)), list(compress(payloads, goes))
        self.sequence += len(payloads)
        if len(lanes) == 1 and len(distinct) <= HEADERS_MAX and self._sign is None:
            return list(self._frames(lanes.pop(), self._contents(distinct, ways, payloads, first)))
        found: list[Departure | TooLarge] = []
        for at, end in self._runs(ways):
            found += self._departures(ways[at:end], payloads[at:end], first + at)
        return found

    def _runs(self, ways: Sequence[Way]) -> Iterator[tuple[int, int]]:
        """Give what one frame may hold: so many headers and messages, and one audience if signed.

        What is signed cannot be divided on its way, so that each frame is for one audience.
        """
        at = 0
        lengths: Iterable[int] = (len(ways),)
        if self._sign is not None:
            lengths = [len(list(run)) for _, run in groupby(ways, _AUDIENCE)]
        for length in lengths:
            end = at + length
            while at < end:
                some = ways[at : min(at + GROUP_COUNT, end)]
                if len(set(some)) > HEADERS_MAX:
                    some = some[:HEADERS_MAX]
                yield at, at + len(some)
                at += len(some)

    def _contents(
        self, table: Iterable[Way], ways: Sequence[Way], payloads: Sequence[bytes], first: int
    ) -> _Contents:
        """Give messages with the ``table`` of their ways, each once, in place of headers."""
        numbered = {way: number for number, way in enumerate(table)}
        numbers = bytes(map(numbered.__getitem__, ways)) if len(numbered) > 1 else b""
        headers = [way.header for way in numbered]
        return _Contents(headers, first, numbers, payloads, self.length)

    def _departures(
        self, ways: Sequence[Way], payloads: Sequence[bytes], first: int
    ) -> Iterator[Departure | TooLarge]:
        """Make the frames of messages that fit into one; each link gets what goes by it."""
        table = dict.fromkeys(ways)
        contents = self._contents(table, ways, payloads, first)
        lanes = dict.fromkeys(way.hops for way in table)
        if len(lanes) == 1:
            yield from self._frames(ways[0].hops, contents)
            return
        alike: dict[bytes, list[Hop]] = {}
        for hop in dict.fromkeys(hop for hops in lanes for hop in hops):
            alike.setdefault(bytes(hop in way.hops for way in table), []).append(hop)
        for goes, hops in alike.items():
            selection = contents.numbers.translate(goes.ljust(_TABLE_SIZE, b"\0"))
            yield from self._frames(hops, contents.part(selection))

    def _frames(self, hops: Sequence[Hop], contents: _Contents) -> Iterator[Departure | TooLarge]:
        """Make one frame for these links; more where one does not fit into what a link takes."""
        if not hops:
            return
        headers, first, numbers, payloads, length, mask = contents
        pieces, size = encode_node(
            self._sender, self._ttl, first, headers, numbers, payloads,
            length=length, mask=mask, forced=self._is_forced, sign=self._sign,
        )  # fmt: skip
        fitting = [hop for hop in hops if size <= hop.frame_size_max]
        if fitting:
            charge = size + PAYLOAD_CHARGE * len(payloads)
            # Small payloads are joined once for all peers; large ones are never copied.
            if size < JOIN_SIZE * len(pieces):
                pieces = [b"".join(pieces)]
            yield Departure(fitting, Outgoing(pieces, size, len(payloads), charge, own=True))
        tight = [hop for hop in hops if size > hop.frame_size_max]
        if tight and len(payloads) == 1:
            topic = decode_header(self._sender, headers[0]).topic
            for hop in tight:
                yield TooLarge(hop, topic)
        elif tight:
            for selection in halves(b"\1" * len(payloads)):
                yield from self._frames(tight, contents.part(selection))
