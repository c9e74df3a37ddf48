"""The journal: messages of any mix of ways leave in order, each by its own links, in few frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from endpoint.mesh.duplicates import SequenceWindow
from endpoint.mesh.routes import Route
from endpoint.pubsub.journal import PAYLOAD_CHARGE, Departure, Journal, TooLarge, Way
from wire.codec import decode_header, encode_header
from wire.framing import FRONT, NodeFrame
from wire.identifiers import EndpointId
from wire.limits import FRAME_SIZE_MAX, FRAME_SIZE_MIN, GROUP_COUNT, GROUP_SIZE, HEADERS_MAX
from wire.messages import NodeHeader, PackedType

SENDER = EndpointId(b"s" * 16)
FIRST, TTL = 1_000, 9


@dataclass(eq=False)
class Link:
    """A next hop that keeps what leaves by it."""

    frame_size_max: int = FRAME_SIZE_MAX
    frames: list[NodeFrame] = field(default_factory=list)

    def messages(self) -> list[tuple[int, str, bytes]]:
        """Give number, topic and payload of all that has left by this link."""
        found = []
        for frame in self.frames:
            mask = frame.mask if frame.mask is not None else (1 << frame.count) - 1
            places = [place for place in range(mask.bit_length()) if mask >> place & 1]
            headers = [decode_header(SENDER, header).topic for header in frame.headers]
            numbers = frame.numbers or bytes(frame.count)
            for place, number, payload in zip(places, numbers, frame.payloads(), strict=True):
                found.append((frame.first + place, headers[number], payload))
        return found


def way(topic: str, *hops: Link, audience: tuple[EndpointId, ...] = ()) -> Way:
    header = NodeHeader(PackedType.BYTES, SENDER, None, topic)
    route = Route(header, SequenceWindow(), audience=audience)
    return Way(route, encode_header(header), hops)


def leave(journal: Journal) -> list[TooLarge]:
    """Cut, and let every frame arrive; give what was too large."""
    dropped = []
    for each in journal.cut():
        if isinstance(each, TooLarge):
            dropped.append(each)
            continue
        assert isinstance(each, Departure)
        data = b"".join(each.frame.pieces)
        assert len(data) == each.frame.size
        frame = NodeFrame(data, 0, len(data), FRONT.unpack_from(data))
        assert frame.count == each.frame.count
        assert (frame.sender, frame.ttl) == (SENDER, TTL)
        for hop in each.hops:
            hop.frames.append(frame)
    assert not journal.payloads
    return dropped


def new(sign=None) -> Journal:
    return Journal(SENDER, TTL, FIRST, sign)


LANES = [(), (0,), (1,), (0, 1), (1, 2), (0, 1, 2)]


@given(
    st.lists(st.sampled_from(LANES), min_size=1, max_size=300),
    st.lists(st.integers(0, 299), min_size=1, max_size=600),
    st.booleans(),
)
def test_each_link_gets_what_goes_by_it_in_order_and_numbers_are_shared(
    lanes, published, in_runs
) -> None:
    links = [Link(), Link(), Link()]
    ways = [way(f"/{place}", *(links[each] for each in lane)) for place, lane in enumerate(lanes)]
    chosen = [ways[place % len(ways)] for place in published]
    payloads = [b"%d" % place for place in range(len(chosen))]
    journal = new()
    if in_runs:
        journal.add_all(chosen, payloads, PAYLOAD_CHARGE)
    else:
        for each, payload in zip(chosen, payloads, strict=True):
            journal.add(each, payload)
    assert len(journal) == len(chosen)
    assert not leave(journal)
    numbers: dict[bytes, int] = {}
    for link in links:
        got = link.messages()
        expected = [
            (each.topic, payload)
            for each, payload in zip(chosen, payloads, strict=True)
            if link in each.hops
        ]
        assert [(topic, payload) for _, topic, payload in got] == expected
        assert [number for number, _, _ in got] == sorted({number for number, _, _ in got})
        for number, _, payload in got:
            assert numbers.setdefault(payload, number) == number
    wanted = sum(bool(each.hops) for each in chosen)
    assert sorted(numbers.values()) == list(range(FIRST, FIRST + wanted)), "no gap for all"
    assert journal.sequence == FIRST + wanted


def test_links_that_get_the_same_share_a_frame_and_many_topics_are_one() -> None:
    links = [Link() for _ in range(10)]
    ways, journal = [way(f"/{place}", *links) for place in range(64)], new()
    for place in range(1_000):
        journal.add(ways[place % 64], b"x" * 3)
    (departure,) = journal.cut()
    assert isinstance(departure, Departure)
    assert list(departure.hops) == links
    assert departure.frame.count == 1_000


def test_a_frame_has_no_more_headers_and_messages_than_may_be() -> None:
    link = Link()
    ways = [way(f"/{place}", link) for place in range(3 * HEADERS_MAX)]
    journal = new()
    journal.add_all(ways + ways[:1] * GROUP_COUNT, [b""] * (len(ways) + GROUP_COUNT), 0)
    assert not leave(journal)
    assert len(link.messages()) == len(ways) + GROUP_COUNT
    assert max(len(frame.headers) for frame in link.frames) == HEADERS_MAX
    assert max(frame.count for frame in link.frames) <= GROUP_COUNT


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90_000)), min_size=1, max_size=12))
def test_each_link_gets_frames_of_the_size_that_it_takes(messages) -> None:
    small, large = Link(FRAME_SIZE_MIN), Link()
    ways = [way("/a" * 9_000, small, large), way("/b" * 30_000, small, large), way("/c", small)]
    journal = new()
    for number, size in messages:
        journal.add(ways[number], bytes(size))
    dropped = leave(journal)
    assert all(frame.size <= FRAME_SIZE_MIN for frame in small.frames)
    expected = [(ways[number].topic, bytes(size)) for number, size in messages]
    fits = [pair for pair in expected if len(pair[0]) + len(pair[1]) + 100 <= FRAME_SIZE_MIN]
    assert [(topic, data) for _, topic, data in small.messages()] == fits
    assert len(dropped) == len(expected) - len(fits)
    assert [(topic, data) for _, topic, data in large.messages()] == [
        pair for pair in expected if pair[0] != "/c"
    ]


def test_what_no_frame_of_a_link_holds_is_dropped_there_alone() -> None:
    small, large = Link(FRAME_SIZE_MIN), Link()
    both = way("/t", small, large)
    journal = new()
    for payload in (b"before", bytes(FRAME_SIZE_MIN), b"after"):
        journal.add(both, payload)
    assert leave(journal) == [TooLarge(small, "/t")]
    assert [payload for *_, payload in small.messages()] == [b"before", b"after"]
    assert len(large.messages()) == 3


def test_what_is_signed_goes_as_a_whole_to_whom_it_is_for() -> None:
    link, signed = Link(), []

    def sign(pieces) -> bytes:
        signed.append(b"".join(pieces))
        return bytes(64)

    one, other = (EndpointId(bytes(15) + bytes((number,))) for number in (1, 2))
    ways = [
        way("/a", link, audience=(one,)),
        way("/b", link, audience=(one,)),
        way("/c", link, audience=(one, other)),
    ]
    journal = new(sign)
    for number in (0, 1, 0, 2, 0, 1):
        journal.add(ways[number], b"%d" % number)
    assert not leave(journal)
    assert [frame.count for frame in link.frames] == [3, 1, 2]
    assert all(frame.is_signed and frame.mask is None for frame in link.frames)
    assert len(signed) == 3
    assert [topic for _, topic, _ in link.messages()] == ["/a", "/b", "/a", "/c", "/a", "/b"]


def test_the_room_counts_every_message_and_its_bytes() -> None:
    link, journal = Link(), new()
    first, second = way("/a", link), way("/b", link)
    journal.add(first, b"x" * (PAYLOAD_CHARGE - 1))
    assert journal.room == GROUP_SIZE - PAYLOAD_CHARGE
    assert (journal.bytes_topic, journal.data_topic, journal.is_mixed) == ("/a", None, False)
    journal.add(second, b"y" * (PAYLOAD_CHARGE + 1))
    assert journal.room == GROUP_SIZE - 2 * PAYLOAD_CHARGE - 1
    assert (journal.bytes_topic, journal.data_topic, journal.is_mixed) == (None, None, True)
    assert PAYLOAD_CHARGE * GROUP_COUNT == GROUP_SIZE
    leave(journal)
    assert (journal.room, journal.only, journal.is_mixed) == (0, None, False)
