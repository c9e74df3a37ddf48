"""The journal: messages of any mix of ways leave in order, each by its own links, in few frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, strategies as st

from endpoint.mesh.duplicates import SequenceWindow
from endpoint.mesh.routes import Route
from endpoint.pubsub.journal import PAYLOAD_CHARGE, Departure, Journal, TooLarge, Way
from wire.codec import decode_header, encode_header
from wire.framing import FRONT, UNLIKE, NodeFrame, encode_node
from wire.identifiers import EndpointId
from wire.limits import (
    FRAME_SIZE_MAX,
    FRAME_SIZE_MIN,
    GROUP_COUNT,
    GROUP_SIZE,
    HEADERS_MAX,
    JOIN_SIZE,
)
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


def way(
    topic: str,
    *hops: Link,
    audience: tuple[EndpointId, ...] = (),
    kind: PackedType = PackedType.BYTES,
    to: EndpointId | None = None,
    here: tuple[object, ...] = (),
) -> Way:
    header = NodeHeader(kind, SENDER, to, topic)
    route = Route(header, SequenceWindow(), here, audience=audience)
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


def test_many_topics_by_several_ways_are_one_frame_for_each_link() -> None:
    left, right = Link(), Link()
    ways = [way(f"/{place}", left, right) for place in range(HEADERS_MAX - 1)]
    ways.append(way("/left", left))
    journal = new()
    journal.add_all(ways * 2, [b""] * len(ways) * 2, 0)
    assert not leave(journal)
    assert [frame.count for frame in left.frames] == [2 * HEADERS_MAX]
    assert [frame.count for frame in right.frames] == [2 * HEADERS_MAX - 2]


def test_a_frame_that_leaves_is_own_and_charged_by_its_size_and_its_messages() -> None:
    journal, link = new(), Link()
    there = way("/t", link)
    for _ in range(3):
        journal.add(there, b"x" * 5)
    (departure,) = journal.cut()
    assert isinstance(departure, Departure)
    assert departure.frame.own is True
    assert departure.frame.charge == departure.frame.size + 3 * PAYLOAD_CHARGE


def test_small_payloads_are_joined_and_large_ones_are_not_copied() -> None:
    journal, link = new(), Link()
    there = way("/t", link)
    for size, is_joined in ((JOIN_SIZE // 2, True), (JOIN_SIZE * 2, False)):
        payloads = [bytes([number]) * size for number in range(4)]
        journal.add_all([there] * 4, payloads, 0)
        (departure,) = journal.cut()
        assert isinstance(departure, Departure)
        assert (len(departure.frame.pieces) == 1) is is_joined
        if not is_joined:
            assert all(
                piece is payload
                for piece, payload in zip(departure.frame.pieces[1:], payloads, strict=True)
            )


def test_what_was_forced_says_so_and_what_comes_after_it_does_not() -> None:
    journal, link = new(), Link()
    there = way("/t", link)
    for forced in (True, False):
        journal.add(there, b"x")
        (departure,) = journal.cut(forced=forced)
        assert isinstance(departure, Departure)
        data = b"".join(departure.frame.pieces)
        assert NodeFrame(data, 0, len(data), FRONT.unpack_from(data)).is_forced is forced


def test_a_frame_has_no_more_headers_and_messages_than_may_be() -> None:
    link = Link()
    ways = [way(f"/{place}", link) for place in range(3 * HEADERS_MAX)]
    journal = new()
    journal.add_all(ways + ways[:1] * GROUP_COUNT, [b""] * (len(ways) + GROUP_COUNT), 0)
    assert not leave(journal)
    assert [number for number, _, _ in link.messages()] == [
        FIRST + place for place in range(len(ways) + GROUP_COUNT)
    ]
    assert max(len(frame.headers) for frame in link.frames) == HEADERS_MAX
    assert max(frame.count for frame in link.frames) <= GROUP_COUNT


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90_000)), min_size=1, max_size=12))
def test_each_link_gets_frames_of_the_size_that_it_takes(messages) -> None:
    small, large = Link(FRAME_SIZE_MIN), Link()
    ways = [
        way("/a" * 9_000, small, large),
        way("/b" * 30_000, small, large),
        way("/c", small),
        way("/d", large),
    ]
    journal = new()
    for number, size in messages:
        journal.add(ways[number], bytes(size))
    dropped = leave(journal)
    assert all(frame.size <= FRAME_SIZE_MIN for frame in small.frames)
    expected = [
        (FIRST + place, ways[number].topic, bytes(size))
        for place, (number, size) in enumerate(messages)
    ]
    for_small = [each for each in expected if each[1] != "/d"]
    fits = [each for each in for_small if len(each[1]) + len(each[2]) + 100 <= FRAME_SIZE_MIN]
    assert small.messages() == fits
    assert len(dropped) == len(for_small) - len(fits)
    assert large.messages() == [each for each in expected if each[1] != "/c"]


def test_a_part_of_a_part_keeps_its_numbers() -> None:
    small, large = Link(FRAME_SIZE_MIN), Link()
    both, other = way("/both", small, large), way("/other", large)
    journal = new()
    for place in range(9):
        journal.add(other if place in (1, 4) else both, bytes([place]) * 30_000)
    assert not leave(journal)
    numbers = [number - FIRST for number, _, _ in small.messages()]
    assert numbers == [payload[0] for _, _, payload in small.messages()] == [0, 2, 3, 5, 6, 7, 8]
    assert len(small.frames) > 1


def test_a_frame_may_be_just_as_large_as_a_link_takes() -> None:
    payloads, header = [b"one", b"another"], way("/t").header
    _, size = encode_node(SENDER, TTL, FIRST, [header], b"", payloads)
    exact, smaller = Link(size), Link(size - 1)
    journal, there = new(), way("/t", exact, smaller)
    for payload in payloads:
        journal.add(there, payload)
    assert not leave(journal)
    assert [frame.count for frame in exact.frames] == [2]
    assert [frame.count for frame in smaller.frames] == [1, 1]


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
    journal.add_all([first, first], [b"x", b"yy"], 1_000)
    assert (journal.room, journal.only, journal.is_mixed) == (GROUP_SIZE - 1_000, first, False)
    journal.add_all([first], [b"z"], 500)
    assert (journal.room, journal.only, journal.is_mixed) == (GROUP_SIZE - 1_500, first, False)
    journal.add_all([first, second], [b"z", b"a"], 500)
    assert (journal.room, journal.is_mixed) == (GROUP_SIZE - 2_000, True)
    journal.add_all([second], [b"b"], 500)
    leave(journal)
    assert [topic for _, topic, _ in link.messages()[2:]] == ["/a"] * 4 + ["/b"] * 2


def test_a_new_journal_is_as_one_that_was_cut() -> None:
    def seen(journal: Journal) -> tuple:
        names = ("room", "only", "bytes_topic", "data_topic", "is_mixed", "payloads", "ways")
        return tuple(getattr(journal, name) for name in names)

    journal = new()
    before = seen(journal)
    assert journal.length == UNLIKE
    journal.add(way("/t", Link()), b"x")
    journal.cut()
    assert seen(journal) == before == (0, None, None, None, False, [], [])


def test_the_one_length_of_all_payloads_is_known_while_they_have_one() -> None:
    link, journal = Link(), new()
    there = way("/a", link)
    for payload, length in ((b"one", 3), (b"two", 3), (b"four", UNLIKE), (b"six", UNLIKE)):
        journal.add(there, payload)
        assert journal.length == length
        assert journal.only is there
        assert not journal.ways
    assert journal.charge == PAYLOAD_CHARGE, "what a message takes at least"
    leave(journal)
    journal.add(there, b"four")
    assert journal.length == 4
    for count in (2, 1):
        journal.add_all([there], [b"more"], 0)
        assert journal.length == UNLIKE, "none was looked at"
        assert len(journal) == count
        leave(journal)
    room = None
    for size in (1_000, 1):
        journal.add(there, bytes(size))
        assert journal.charge == 1_000, "what each takes while they are alike"
        assert room is None or room - journal.room == PAYLOAD_CHARGE
        room = journal.room


def test_a_topic_says_where_its_messages_go_if_nothing_else_does() -> None:
    link, me = Link(), EndpointId(b"r" * 16)
    addressed = way("/t", link, to=me)
    assert addressed.receiver == me
    for there, topics in (
        (way("/t", link), ("/t", None)),
        (way("/t", link, kind=PackedType.DATA), (None, "/t")),
        (addressed, (None, None)),
        (way("/t", link, here=("reader",)), (None, None)),
    ):
        journal = new()
        journal.add(there, b"x")
        assert (journal.bytes_topic, journal.data_topic) == topics
        journal.cut()
        assert (journal.bytes_topic, journal.data_topic) == (None, None)
