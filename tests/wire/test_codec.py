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
)
many = st.lists(announcements, max_size=3).map(tuple)
messages = st.one_of(
    st.builds(Hello, ids, knowledge),
    st.builds(OriginatorSyn, ids, knowledge, many),
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
    again = decode_header(encode_header(header))
    assert again == header
    assert type(again.type) is PackedType


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


@pytest.mark.parametrize("kind", [0, 11, 255, -1])
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
    if kind is not ControlKind.ORIGINATOR_ACK:
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
        control(ControlKind.ORIGINATOR_SYN, ANN, {}, [news(**changed)])


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
        control(ControlKind.HELLO, ANN, vector)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (ControlKind.PING, (-1, bytes(8))),
        (ControlKind.PING, (True, bytes(8))),
        (ControlKind.PING, (1, bytes(7))),
        (ControlKind.PONG, (1, 0)),
        (ControlKind.CREDIT, (-1,)),
        (ControlKind.CREDIT, (1.0,)),
        (ControlKind.DROP_CONN, ("39", "reason")),
        (ControlKind.DROP_CONN, (39, b"reason")),
        (ControlKind.DROP_CONN, (39, "x" * (limits.REASON_SIZE_MAX + 1))),
        (ControlKind.HELLO, (b"short", {})),
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


BAD_HEADERS = [
    (1, ANN, None),
    (1, ANN, None, "a", "b"),
    (0, ANN, None, "a"),
    (4, ANN, None, "a"),
    (True, ANN, None, "a"),
    (1.0, ANN, None, "a"),
    (1, b"short", None, "a"),
    (1, None, None, "a"),
    (1, ANN, b"short", "a"),
    (1, ANN, "a" * 16, "a"),
    (1, ANN, False, "a"),
    (1, ANN, None, b"a"),
    (1, ANN, None, None),
    (1, ANN, None, "s/<$>/data/master"),
    (3, ANN, None, "<$>/local/data/statuses"),
    (2, ANN, None, "a"),
    (2, ANN, None, "<$>/local/data/statuses"),
    (2, ANN, None, "/<$>/data/others"),
    (2, ANN, None, "s/<$>/"),
    (2, ANN, None, "s/<$>/Data"),
    (2, ANN, None, "s/<$>/data/"),
    (2, ANN, None, "s/<$>//data"),
    (2, ANN, None, "s/<$>/data others"),
    (2, ANN, None, "s/<$>/data/<$>/others"),
    (2, ANN, None, "<$>/s/<$>/data"),
    (2, ANN, None, "s/<$>/" + "k" * 65),
    {"a": 1},
    "text",
]


@pytest.mark.parametrize("parts", BAD_HEADERS, ids=repr)
def test_a_bad_header_is_refused(parts):
    with pytest.raises(DecodeError):
        decode_header(encode(parts))


def test_a_header_is_read_in_its_canonical_form_only():
    good = encode_header(NodeHeader(PackedType.DATA, ANN, None, "abc"))
    assert good.endswith(b"\x63abc")
    for bad in (good[:-4] + b"\x78\x03abc", b"\x98\x04" + good[1:], good + b"\x00", good[:-1], b""):
        with pytest.raises(DecodeError):
            decode_header(bad)


def test_a_header_has_a_limit_on_both_sides():
    with pytest.raises(InvalidTopic, match="shorten"):
        encode_header(NodeHeader(PackedType.DATA, ANN, BOB, "x" * limits.HEADER_SIZE_MAX))
    with pytest.raises(DecodeError) as refused:
        decode_header(bytes(limits.HEADER_SIZE_MAX + 1))
    assert refused.value.code is ErrorCode.LIMIT_EXCEEDED


@given(st.integers(0, 12), st.binary(max_size=80))
def test_random_bytes_give_messages_or_decode_error(kind, body):
    for read in (lambda: decode_control(kind, body), lambda: decode_header(body)):
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
        lambda: decode_header(bytes(encoded)),
    ):
        try:
            again = read()
        except DecodeError:
            continue
        assert again is not None
