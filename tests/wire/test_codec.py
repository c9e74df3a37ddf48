"""Control messages and headers: they come back as they were, and bad ones do not come at all."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from wire import limits
from wire.clocks import LamportTime, VectorTime
from wire.codec import ControlKind, decode_control, decode_header, encode_control, encode_header
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode, InvalidTopic
from wire.identifiers import EndpointId
from wire.messages import (
    Announcement,
    Announcements,
    ControlMessage,
    Credit,
    DropConn,
    Hello,
    Knowledge,
    NodeHeader,
    OriginatorAck,
    OriginatorSyn,
    PackedType,
    Ping,
    Pong,
    Preamble,
    ResponderSynAck,
)
from wire.topics import minimal, store_topics
from wire.values import Count, Table

ANN, BOB, EVE = (EndpointId(letter * 16) for letter in (b"a", b"b", b"e"))

ids = st.binary(min_size=16, max_size=16).map(EndpointId)
times = st.integers(1, limits.LAMPORT_TIME_MAX).map(LamportTime)
knowledge = st.dictionaries(ids, times, max_size=5).map(VectorTime)
numbers = st.integers(0, 2**63 - 1)
digests = st.integers(0, 2**64 - 1)
topics = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=8)
kinds = st.from_regex(r"[a-z0-9-]{1,9}(/[a-z0-9-]{1,9}){0,2}", fullmatch=True)
later_stores = st.builds("{}/<$>/{}".format, topics.filter(bool), kinds)
stores = topics.filter(bool).flatmap(lambda name: st.sampled_from(store_topics(name)))
stores = stores | later_stores
announcements = st.builds(
    Announcement,
    origin=ids,
    time=times,
    links=st.frozensets(ids, max_size=4).map(sorted).map(tuple),
    subscriptions=st.lists(topics, max_size=4).map(minimal),
    stores=st.frozensets(stores, max_size=3).map(sorted).map(tuple),
    forwarding=st.booleans(),
    label=st.none() | st.from_regex(r"[!-)+-}é]{1,31}", fullmatch=True),
)
frame_sizes = st.integers(limits.FRAME_SIZE_MIN, 2**63 - 1)
many = st.lists(announcements, max_size=3).map(tuple)
messages = st.one_of(
    st.builds(Hello, ids, knowledge, frame_sizes),
    st.builds(OriginatorSyn, ids, knowledge, many, frame_sizes),
    st.builds(ResponderSynAck, many),
    st.just(OriginatorAck()),
    st.builds(DropConn, st.sampled_from(ErrorCode), st.text(max_size=limits.REASON_SIZE_MAX)),
    st.builds(Announcements, many),
    st.builds(Knowledge, knowledge),
    st.builds(Ping, numbers, digests),
    st.builds(Pong, numbers, digests),
    st.builds(Credit, numbers),
)
headers = st.one_of(
    st.builds(
        NodeHeader,
        st.sampled_from([PackedType.DATA, PackedType.BYTES]),
        ids,
        st.none() | ids,
        topics,
    ),
    st.builds(NodeHeader, st.just(PackedType.COMMAND), ids, st.none() | ids, stores),
)

NEWS = Announcement(
    origin=ANN,
    time=LamportTime(1),
    links=(BOB, EVE),
    subscriptions=("/a", "/b"),
    stores=("s/<$>/data/clone", "s/<$>/data/master"),
    forwarding=True,
)


@given(messages)
def test_a_control_message_comes_back_as_it_was(message):
    again = decode_control(*encode_control(message))
    assert again == message
    assert type(again) is type(message)


@given(headers)
def test_a_header_comes_back_as_it_was(header):
    again = decode_header(header.sender, encode_header(header))
    assert again == header
    assert type(again.type) is PackedType
    assert again.receiver is None or type(again.receiver) is EndpointId


def test_what_comes_back_has_its_types():
    message = decode_control(*encode_control(Announcements((NEWS,))))
    assert isinstance(message, Announcements)
    (news,) = message.items
    assert type(news.origin) is EndpointId
    assert type(news.time) is LamportTime
    assert all(type(link) is EndpointId for link in news.links)


def test_every_control_message_but_the_preamble_has_a_kind():
    classes = set(get_args(ControlMessage)) - {Preamble}
    assert len(classes) == len(ControlKind)
    assert 0 not in {*ControlKind}, "the kind of node frames"
    with pytest.raises(KeyError):
        encode_control(Preamble(1, 1))


@pytest.mark.parametrize("kind", [0, 13, 255, -1])
def test_an_unknown_kind_is_refused(kind):
    with pytest.raises(DecodeError, match=f"kind {kind}"):
        decode_control(kind, b"\x80")


def control(kind: ControlKind, *parts: object) -> None:
    decode_control(kind, encode(parts))


@pytest.mark.parametrize("kind", ControlKind)
def test_too_few_or_too_many_fields_or_no_list_of_them_are_refused(kind):
    for parts in ((None,) * 9, {"a": 1}, "text", None, Count(1)):
        with pytest.raises(DecodeError):
            decode_control(kind, encode(parts))
    if kind not in (ControlKind.ORIGINATOR_ACK, ControlKind.WITHHELD):
        with pytest.raises(DecodeError, match="fields"):
            control(kind)


def news(**changed: object) -> list[object]:
    parts = {field.name: getattr(NEWS, field.name) for field in fields(NEWS)}
    assert changed.keys() <= parts.keys()
    return [*(parts | changed).values()]


BAD_NEWS = [
    {"origin": b"short"},
    {"origin": "a" * 16},
    {"time": 0},
    {"time": -1},
    {"time": True},
    {"time": 1.0},
    {"time": Count(1)},
    {"time": limits.LAMPORT_TIME_MAX + 1},
    {"links": (EVE, BOB)},
    {"links": (BOB, BOB)},
    {"links": (b"x",)},
    {"links": {BOB}},
    {"links": None},
    {"links": tuple(EndpointId(number.to_bytes(16)) for number in range(limits.LINKS_MAX + 1))},
    {"subscriptions": ("/b", "/a")},
    {"subscriptions": ("/a", "/a")},
    {"subscriptions": ("/a", "/a/b")},
    {"subscriptions": (b"/a",)},
    {"subscriptions": ("a/<$>/b",)},
    {"subscriptions": ("<$>/local/data/statuses",)},
    {"subscriptions": ("s/<$>/data/master",)},
    {"subscriptions": ("x" * (limits.TOPIC_SIZE_MAX + 1),)},
    {"subscriptions": tuple(f"{number:05}" for number in range(limits.SUBSCRIPTIONS_MAX + 1))},
    {"stores": ("s/<$>/data/master", "s/<$>/data/clone")},
    {"stores": ("s/<$>/data/clone", "s/<$>/data/clone")},
    {"stores": ("/a",)},
    {"stores": ("<$>/local/data/statuses",)},
    {"stores": ("/<$>/data/master",)},
    {"stores": ("s/<$>/Data",)},
    {"stores": ("x" * limits.TOPIC_SIZE_MAX + "/<$>/data/master",)},
    {"stores": tuple(f"{n:05}/<$>/data/clone" for n in range(limits.STORES_MAX + 1))},
    {"forwarding": 1},
    {"forwarding": None},
    {"label": ""},
    {"label": "a b"},
    {"label": "a\tb"},
    {"label": "a\u202eb"},
    {"label": "a\N{NO-BREAK SPACE}b"},
    {"label": "a\N{HANGUL FILLER}"},
    {"label": "a\x1b[2J"},
    {"label": "store-a*"},
    {"label": "store-a~3f2a"},
    {"label": "00000000-0000-4000-8000-000000000001"},
    {"label": "00000000000040008000000000000001"},
    {"label": "x" * 10_000},
    {"label": "x" * (limits.LABEL_SIZE_MAX + 1)},
    {"label": "é" * (limits.LABEL_SIZE_MAX // 2 + 1)},
    {"label": b"a"},
    {"label": 1},
]


@pytest.mark.parametrize("changed", BAD_NEWS, ids=lambda changed: repr(changed)[:60])
def test_a_bad_announcement_is_refused_wherever_it_comes(changed):
    control(ControlKind.ANNOUNCEMENTS, [news()])
    with pytest.raises(DecodeError) as refused:
        control(ControlKind.ANNOUNCEMENTS, [news(), news(**changed)])
    assert len(str(refused.value)) < 300
    with pytest.raises(DecodeError):
        control(ControlKind.RESPONDER_SYN_ACK, [news(**changed)])
    with pytest.raises(DecodeError):
        control(ControlKind.ORIGINATOR_SYN, ANN, {}, [news(**changed)], limits.FRAME_SIZE_MIN)


@pytest.mark.parametrize(
    "vector",
    [
        {ANN: 0},
        {ANN: -1},
        {ANN: "1"},
        {b"short": 1},
        {"a" * 16: 1},
        [(ANN, 1)],
        Table([(1, 1)]),
        {number.to_bytes(16): 1 for number in range(limits.KNOWLEDGE_MAX + 1)},
    ],
    ids=lambda vector: repr(vector)[:40],
)
def test_a_bad_vector_is_refused(vector):
    with pytest.raises(DecodeError):
        control(ControlKind.KNOWLEDGE, vector)
    with pytest.raises(DecodeError):
        control(ControlKind.HELLO, ANN, vector, limits.FRAME_SIZE_MIN)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (ControlKind.PING, (-1, bytes(8))),
        (ControlKind.PING, (True, bytes(8))),
        (ControlKind.PING, (1, bytes(7))),
        (ControlKind.PONG, (1, 0)),
        (ControlKind.CREDIT, (-1,)),
        (ControlKind.CREDIT, (1.0,)),
        (ControlKind.HOLD, (b"short", ANN, 1, "box", (b"h",), False)),
        (ControlKind.HOLD, (ANN, b"short", 1, "box", (b"h",), False)),
        (ControlKind.HOLD, (ANN, ANN, -1, "box", (b"h",), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, b"box", (b"h",), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "x" * (limits.HOLD_LABEL_SIZE_MAX + 1), (b"h",), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", (b"",), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", ("h",), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", b"h", False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", (b"h",) * (limits.HEADERS_MAX + 1), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", (bytes(limits.HEADER_SIZE_MAX + 1),), False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", (bytes(limits.HEADER_SIZE_MAX),) * 2, False)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", (b"h",), 1)),
        (ControlKind.HOLD, (ANN, ANN, 1, "box", (b"h",))),
        (ControlKind.WITHHELD, (1,)),
        (ControlKind.DROP_CONN, ("39", "reason")),
        (ControlKind.DROP_CONN, (39, b"reason")),
        (ControlKind.DROP_CONN, (39, "x" * (limits.REASON_SIZE_MAX + 1))),
        (ControlKind.HELLO, (b"short", {}, limits.FRAME_SIZE_MIN)),
        (ControlKind.HELLO, (ANN, {}, limits.FRAME_SIZE_MIN - 1)),
        (ControlKind.HELLO, (ANN, {}, -1)),
        (ControlKind.HELLO, (ANN, {}, None)),
        (ControlKind.HELLO, (ANN, {}, 2.0**20)),
        (ControlKind.HELLO, (ANN, {})),
        (ControlKind.ORIGINATOR_SYN, (ANN, {}, (), limits.FRAME_SIZE_MIN - 1)),
        (ControlKind.ORIGINATOR_SYN, (ANN, {}, ())),
    ],
)
def test_bad_fields_are_refused(kind, parts):
    with pytest.raises(DecodeError):
        control(kind, *parts)


def test_a_code_of_later_versions_is_taken_for_unspecified():
    body = encode((9999, "you would not understand"))
    dropped = decode_control(ControlKind.DROP_CONN, body)
    assert dropped == DropConn(ErrorCode.UNSPECIFIED, "you would not understand")


def test_a_long_reason_is_shortened_where_it_is_written():
    drop = DropConn(ErrorCode.UNSPECIFIED, "x" * 5000)
    again = decode_control(*encode_control(drop))
    assert again == replace(drop, reason="x" * limits.REASON_SIZE_MAX)


def test_a_reason_that_is_no_proper_text_is_written_all_the_same():
    again = decode_control(*encode_control(DropConn(ErrorCode.UNSPECIFIED, "odd \ud800 text")))
    assert again == DropConn(ErrorCode.UNSPECIFIED, "odd ? text")


def test_the_least_limit_of_a_frame_is_taken():
    for size in (limits.FRAME_SIZE_MIN, limits.FRAME_SIZE_MAX, 2**62):
        body = encode((ANN, {}, size))
        assert decode_control(ControlKind.HELLO, body).frame_size_max == size


BAD_HEADERS = [
    b"",
    b"\1",
    b"\0\0a",
    b"\4\0a",
    b"\xff\0a",
    b"\1\2a",
    b"\1\xff" + BOB + b"a",
    b"\1\1",
    b"\1\1" + BOB[:15],
    b"\1\0\xff",
    b"\1\0\xc0\xaf",  # no shortest form
    b"\1\0\xed\xa0\x80",  # half a character
    b"\1\0s/<$>/data/master",
    b"\3\0<$>/local/data/statuses",
    b"\1\0" + b"x" * (limits.TOPIC_SIZE_MAX + 1),
    b"\2\0a",
    b"\2\0",
    b"\2\0<$>/local/data/statuses",
    b"\2\0/<$>/data/others",
    b"\2\0s/<$>/",
    b"\2\0s/<$>/Data",
    b"\2\0s/<$>/data/",
    b"\2\0s/<$>//data",
    b"\2\0s/<$>/data others",
    b"\2\0s/<$>/data/<$>/others",
    b"\2\0<$>/s/<$>/data",
    b"\2\0s/<$>/" + b"k" * 65,
    b"\2\0" + b"s" * limits.TOPIC_SIZE_MAX + b"/<$>/data",
]


@pytest.mark.parametrize("encoded", BAD_HEADERS, ids=lambda encoded: repr(encoded)[:60])
def test_a_bad_header_is_refused(encoded):
    with pytest.raises(DecodeError) as refused:
        decode_header(ANN, encoded)
    assert len(str(refused.value)) < 300


@given(
    st.binary(max_size=40)
    | st.builds(
        lambda *p: b"".join(p),
        st.sampled_from([b"\1", b"\2", b"\3"]),
        st.sampled_from([b"\0", b"\1" + BOB]),
        st.binary(max_size=9),
    )
)
def test_a_header_that_is_taken_has_no_other_encoding(encoded):
    try:
        header = decode_header(ANN, encoded)
    except DecodeError:
        return
    assert encode_header(header) == encoded


def test_a_header_does_not_name_its_sender():
    for receiver in (None, EVE):
        header = NodeHeader(PackedType.DATA, ANN, receiver, "topic")
        assert encode_header(header) == encode_header(replace(header, sender=BOB))
        assert decode_header(BOB, encode_header(header)) == replace(header, sender=BOB)


def test_a_topic_has_a_limit_on_both_sides():
    with pytest.raises(InvalidTopic, match="shorten"):
        encode_header(NodeHeader(PackedType.DATA, ANN, BOB, "x" * limits.HEADER_SIZE_MAX))
    longest = NodeHeader(PackedType.DATA, ANN, BOB, "x" * limits.TOPIC_SIZE_MAX)
    assert len(encode_header(longest)) <= limits.HEADER_SIZE_MAX
    assert decode_header(ANN, encode_header(longest)) == longest
    with pytest.raises(DecodeError) as refused:
        decode_header(ANN, b"\1\0" + b"x" * (limits.TOPIC_SIZE_MAX + 1))
    assert refused.value.code is ErrorCode.INVALID_TOPIC


@given(st.integers(0, 12), st.binary(max_size=80))
def test_random_bytes_give_messages_or_decode_error(kind, body):
    for read in (lambda: decode_control(kind, body), lambda: decode_header(ANN, body)):
        try:
            read()
        except DecodeError:
            pass


@given(messages, headers, st.data())
def test_mutated_bytes_give_messages_or_decode_error(message, header, data):
    kind, body = encode_control(message)
    encoded = bytearray(data.draw(st.sampled_from([body, encode_header(header)])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(encoded) - 1))
        encoded[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not encoded:
            break
    for read in (
        lambda: decode_control(kind, bytes(encoded)),
        lambda: decode_header(ANN, bytes(encoded)),
    ):
        try:
            again = read()
        except DecodeError:
            continue
        assert again is not None
