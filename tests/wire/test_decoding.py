"""Decoding what nobody vouches for: a value comes out or ``DecodeError``, in bounded memory."""

from __future__ import annotations

import struct
import tracemalloc
from ipaddress import ip_address

import cbor2
import pytest
from hypothesis import given, strategies as st

from wire import decoding
from wire.cbor import ARRAY, TAG, TEXT, head
from wire.decoding import check, check_all, decode, is_canonical
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.limits import PAYLOAD_SIZE_MAX, VALUE_DEPTH_MAX
from wire.values import Count, Set, Table

BIG = struct.Struct("!Q").pack

HOSTILE = {
    "nothing": b"",
    "a head alone": b"\x82",
    "the head of nothing": b"\x1c",
    "text that ends early": b"\x62a",
    "text of reserved length": b"\x7ca",
    "bytes of reserved length": b"\x5da",
    "an integer that ends early": b"\x19\x01",
    "a float that ends early": b"\xfb\x00",
    "two values": b"\x01\x02",
    "two texts": b"\x61a\x61b",
    "two arrays": b"\x80\x80",
    "an array and the terminator": b"\x80\xf7",
    "the terminator and an array": b"\xf7\x80",
    "a float and more": b"\xfb" + bytes(9),
    "true and more": b"\xf5\xf5",
    "regular expression (35)": b"\xd8\x23\x66(a+)+$",
    "regular expression inside": b"\x81\xd8\x23\x66(a+)+$",
    "date and time (0)": b"\xc0\x742013-03-21T20:04:00Z",
    "seconds (1)": b"\xc1\x1a\x51\x4b\x67\xb0",
    "bignum (2)": b"\xc2\x49" + b"\xff" * 9,
    "negative bignum (3)": b"\xc3\x49" + b"\xff" * 9,
    "decimal fraction (4)": b"\xc4\x82\x1b" + BIG(2**62) + b"\x01",
    "bigfloat (5)": b"\xc5\x82\x1b" + BIG(2**62) + b"\x01",
    "string reference (25)": b"\xd9\x01\x00\x82\x64text\xd8\x19\x00",
    "shared value (28), cyclic (29)": b"\xd8\x1c\x81\xd8\x1d\x00",
    "rational (30)": b"\xd8\x1e\x82\x01\x03",
    "MIME message (36)": b"\xd8\x24\x61a",
    "UUID (37)": b"\xd8\x25\x50" + bytes(16),
    "days (100)": b"\xd8\x64\x01",
    "name space of string references (256)": b"\xd9\x01\x00\x80",
    "network address (260)": b"\xd9\x01\x04\x44\x7f\x00\x00\x01",
    "network prefix (261)": b"\xd9\x01\x05\xa1\x44\x7f\x00\x00\x01\x08",
    "extended time (1001)": b"\xd9\x03\xe9\xa1\x01\x00",
    "complex number (43000)": head(TAG, 43_000) + b"\x82\x01\x02",
    "CBOR itself (55799)": b"\xd9\xd9\xf7\x01",
    "a tag unknown to anybody": head(TAG, 2**64 - 1) + b"\x01",
    "array of 2**40": b"\x9b" + BIG(2**40),
    "array of 2**63": b"\x9b" + BIG(2**63),
    "map of 2**64-1": b"\xbb" + BIG(2**64 - 1),
    "bytes of 2**33": b"\x5b" + BIG(2**33),
    "text of 2**64-1": b"\x7b" + BIG(2**64 - 1),
    "bytes of 2**33 inside": b"\x81\x5b" + BIG(2**33),
    "depth 900": b"\x81" * 900 + b"\x00",
    "depth 5000": b"\x81" * 5000 + b"\x00",
    "depth 5000 of maps": b"\xa1\x61a" * 5000 + b"\x00",
    "depth 5000 of tags": b"\xc6" * 5000 + b"\x00",
    "depth 5000 of sets": b"\xd9\x01\x02\x81" * 5000 + b"\x00",
    "depth with the terminator": b"\x82" * 5000 + b"\xf7",
    "array of no end": b"\x9f\x01\xff",
    "map of no end": b"\xbf\x61a\x01\xff",
    "text of no end": b"\x7f\x61a\xff",
    "bytes of no end": b"\x5f\x41a\xff",
    "text of no end inside": b"\x81\x7f\x61a\xff",
    "break": b"\xff",
    "break inside": b"\x81\xff",
    "a key twice": b"\xa2\x61a\x01\x61a\x02",
    "a key twice, written in two ways": b"\xa2\x61a\x01\x78\x01a\x02",
    "an integer as key of a map": b"\xa1\x01\x02",
    "1 and true as keys of a map": b"\xa2\x01\x01\xf5\x02",
    "a map as key": b"\xa1\xa1\x61a\x02\x03",
    "an array as key": b"\xa1\x82\x01\x02\x03",
    "NaN as key of a map": b"\xa1\xf9\x7e\x00\x01",
    "a set with an element twice": b"\xd9\x01\x02\x82\x01\x01",
    "a set with a text twice": b"\xd9\x01\x02\x82\x61a\x61a",
    "a set with an element written in two ways": b"\xd9\x01\x02\x82\x01\x18\x01",
    "a set with two NaNs": b"\xd9\x01\x02\x82\xf9\x7e\x00\xfb\x7f\xf8" + bytes(6),
    "a set of no array": b"\xd9\x01\x02\x01",
    "a set of a map": b"\xd9\x01\x02\xa0",
    "a table with a key twice": b"\xd9\x95\x05\x84\x01\x02\x01\x03",
    "a table with half an item": b"\xd9\x95\x05\x83\x01\x02\x03",
    "a table of no array": b"\xd9\x95\x05\xa0",
    "undefined": b"\xf7",
    "undefined inside": b"\x81\xf7",
    "undefined twice inside": b"\x82\xf7\xf7",
    "simple value 0": b"\xe0",
    "simple value 19 inside": b"\x81\xf3",
    "simple value 255": b"\xf8\xff",
    "simple value 32 in a map": b"\xa1\x61a\xf8\x20",
    "simple value in a set": b"\xd9\x01\x02\x81\xe5",
    "simple value as key of a table": b"\xd9\x95\x05\x82\xe5\x01",
    "simple value in a table": b"\xd9\x95\x05\x82\x01\xe5",
    "true in two bytes": b"\xf8\x15",
    "an integer of 2**63": b"\x1b" + BIG(2**63),
    "an integer of 2**64-1 inside": b"\x81\x1b" + BIG(2**64 - 1),
    "an integer of -2**63-1": b"\x3b" + BIG(2**63),
    "an integer of -2**64 in a map": b"\xa1\x61a\x3b" + BIG(2**64 - 1),
    "a large integer in a set": b"\xd9\x01\x02\x81\x1b" + BIG(2**63),
    "a large integer as key of a table": b"\xd9\x95\x05\x82\x1b" + BIG(2**63) + b"\x01",
    "a large integer in a table": b"\xd9\x95\x05\x82\x01\x1b" + BIG(2**63),
    "a large integer in a key of a table": b"\xd9\x95\x05\x82\x81\x1b" + BIG(2**63) + b"\x01",
    "text that is not UTF-8": b"\x62\xff\xfe",
    "text that is not UTF-8 inside": b"\x81\x62\xff\xfe",
    "text with a surrogate": b"\x63\xed\xa0\x80",
    "text with a surrogate as key": b"\xa1\x63\xed\xa0\x80\x01",
    "a count below zero": b"\xd9\x95\x00\x20",
    "a count of text": b"\xd9\x95\x00\x611",
    "a count of true": b"\xd9\x95\x00\xf5",
    "a port beyond 16 bits": b"\xd9\x95\x01\x82\x1a\x00\x01\x00\x00\x01",
    "a port below zero": b"\xd9\x95\x01\x82\x20\x01",
    "a port of an unknown protocol": b"\xd9\x95\x01\x82\x18\x50\x04",
    "a port of true": b"\xd9\x95\x01\x82\xf5\x01",
    "a port of protocol true": b"\xd9\x95\x01\x82\x18\x50\xf5",
    "a port of one part": b"\xd9\x95\x01\x81\x18\x50",
    "a port of an integer": b"\xd9\x95\x01\x18\x50",
    "an enum of bytes": b"\xd9\x95\x02\x41a",
    "a timestamp of a float": b"\xd9\x95\x03\xf9\x00\x00",
    "a timestamp beyond int64": b"\xd9\x95\x03\x1b" + BIG(2**63),
    "a timespan below int64": b"\xd9\x95\x04\x3b" + BIG(2**63),
    "an IPv4 address of 5 bytes": b"\xd8\x34\x45" + bytes(5),
    "an IPv6 address of 4 bytes": b"\xd8\x36\x44" + bytes(4),
    "an address of text": b"\xd8\x34\x671.2.3.4",
    "an address of an integer": b"\xd8\x34\x01",
    "an IPv4 subnet of 33 bits": b"\xd8\x34\x82\x18\x21\x44" + bytes(4),
    "a subnet of -1 bits": b"\xd8\x34\x82\x20\x40",
    "a subnet of true bits": b"\xd8\x34\x82\xf5\x40",
    "a subnet with bits of a host": b"\xd8\x34\x82\x08\x42\x0a\x01",
    "a subnet of 5 bytes": b"\xd8\x34\x82\x08\x45" + bytes(5),
    "a subnet of text": b"\xd8\x34\x82\x08\x62ab",
    "a subnet of three parts": b"\xd8\x36\x83\x08\x41\x0a\x00",
    "an interface": b"\xd8\x34\x82\x44\x0a\x00\x00\x01\x08",
}


@pytest.mark.parametrize("encoded", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_refused(encoded):
    with pytest.raises(DecodeError) as refused:
        decode(encoded)
    assert refused.value.code is ErrorCode.DESERIALIZATION_FAILED
    assert len(str(refused.value)) < 200
    with pytest.raises(DecodeError):
        check(encoded)
    assert not is_canonical(encoded)


TEXTS = [encode(text) for text in ("x" * 24, "y" * 255, "z" * 100)] * 4


@pytest.mark.parametrize("encoded", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("place", [0, 7, 12])
def test_hostile_bytes_are_refused_among_others(encoded, place):
    with pytest.raises(DecodeError):
        check_all([*TEXTS[:place], encoded, *TEXTS[place:]])


@given(
    st.lists(
        st.sampled_from([*TEXTS[:3], encode("ä" * 20), encode("short"), encode(7), b"\x78"])
        | st.binary(min_size=1, max_size=30).map(lambda rest: b"\x78" + rest)
        | st.text(min_size=24, max_size=255).map(encode),
        max_size=20,
    )
)
def test_many_are_checked_as_each_of_them_is(items):
    """Texts with one byte of length are looked at together; what is none of them is not."""
    faults = 0
    for item in items:
        try:
            check(item)
        except DecodeError:
            faults += 1
    if faults:
        with pytest.raises(DecodeError):
            check_all(items)
    else:
        check_all(items)


@pytest.mark.parametrize(
    "spoilt",
    [b"\x78\x19" + b"x" * 24, b"\x78\x17" + b"x" * 24, b"\x78\x18" + b"x" * 23 + b"\xff", b"\x78"],
)
def test_one_text_that_is_none_spoils_all(spoilt):
    check_all(TEXTS)
    with pytest.raises(DecodeError):
        check_all([*TEXTS, spoilt])


@pytest.mark.parametrize(
    "padding", [b"\xf7", b"\xe0\xf3", b"\x1b\xff\x3b\x80\xf8", "日本".encode()]
)
@pytest.mark.parametrize("encoded", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_refused_beside_bytes_that_look_like_them(encoded, padding):
    """The looks of the other bytes decide which way a value is read: each way refuses alike."""
    beside = b"\x82" + head(2, len(padding)) + padding + encoded
    if encoded != HOSTILE["nothing"]:
        with pytest.raises(DecodeError):
            decode(beside)


def test_all_tags_but_ours_are_refused():
    ours = {52, 54, 258, *range(38_144, 38_150)}
    fit = (b"\x01", b"\x61a", b"\x41a", b"\x80", b"\x82\x01\x02", b"\xa0")
    for tag in [*range(70_000), 2**32, 2**64 - 1]:
        if tag not in ours:
            with pytest.raises(DecodeError):
                decode(head(TAG, tag) + fit[tag % len(fit)])


def test_every_tag_that_cbor2_reads_itself_is_known_and_refused():
    own = set()
    for tag in range(70_000):
        try:
            is_own = type(cbor2.loads(head(TAG, tag) + b"\x01")) is not cbor2.CBORTag
        except cbor2.CBORDecodeError:
            is_own = True
        if is_own:
            own.add(tag)
    assert own <= decoding._HOOKS.keys()


def test_too_many_bytes_are_refused_unread():
    with pytest.raises(DecodeError) as refused:
        decode(bytes(PAYLOAD_SIZE_MAX + 1))
    assert refused.value.code is ErrorCode.LIMIT_EXCEEDED


@pytest.mark.parametrize("wrapped", [b"\x81", b"\xa1\x61a", b"\x82\x00"])
def test_depth_ends_where_that_of_the_encoder_ends(wrapped):
    for end in (b"\x00", b"\x41\xf7"):
        check(wrapped * VALUE_DEPTH_MAX + end)
        with pytest.raises(DecodeError, match="depth"):
            check(wrapped * (VALUE_DEPTH_MAX + 1) + end)


UNUSUAL = {
    b"\x18\x01": 1,
    b"\x1b" + BIG(5): 5,
    b"\x38\x00": -1,
    b"\x78\x01a": "a",
    b"\x7b" + BIG(1) + b"a": "a",
    b"\x59\x00\x01a": b"a",
    b"\xf9\x3c\x00": 1.0,
    b"\xfa\x3f\x80\x00\x00": 1.0,
    b"\x98\x01\x01": (1,),
    b"\xa2\x61b\x01\x61a\x02": Table({"a": 2, "b": 1}),
    b"\xd9\x01\x02\x82\x02\x01": Set([1, 2]),
    b"\xd8\x34\x82\x08\x44\x0a\x00\x00\x00": None,
    b"\xd9\x95\x05\x82\x61a\x01": Table({"a": 1}),
    b"\xd9\x95\x05\x80": Table(),
    b"\xda\x00\x00\x95\x00\x01": Count(1),
}


@pytest.mark.parametrize(("encoded", "value"), UNUSUAL.items(), ids=lambda item: repr(item)[:40])
def test_unusual_forms_are_read_but_are_not_canonical(encoded, value):
    decoded = decode(encoded)
    assert decoded == value or value is None
    assert type(decoded) is type(value) or value is None
    assert not is_canonical(encoded)
    assert is_canonical(encode(decoded))


@given(st.data())
def test_the_encoding_of_any_value_is_canonical(values, data):
    encoded = encode(data.draw(values))
    assert is_canonical(encoded)
    check(encoded)


@given(st.data())
def test_no_prefix_and_no_extension_of_a_value_is_one(values, data):
    encoded = encode(data.draw(values))
    cut = data.draw(st.integers(0, len(encoded) - 1))
    more = data.draw(st.binary(min_size=1, max_size=4) | values.map(encode))
    for wrong in (encoded[:cut], encoded + more, encoded + b"\xf7", b"\x82" + encoded + b"\xf7"):
        with pytest.raises(DecodeError):
            decode(wrong)


def decode_or_refuse(encoded: bytes) -> None:
    try:
        value = decode(encoded)
    except DecodeError:
        assert not is_canonical(encoded)
        return
    hash(value)
    again = encode(value)
    assert is_canonical(again)
    assert encode(decode(again)) == again


@given(st.binary(max_size=60))
def test_random_bytes_give_a_value_or_decode_error(encoded):
    decode_or_refuse(encoded)


HEADS = st.sampled_from([bytes([first]) for first in range(0x40, 0x100)])
PIECES = st.one_of(
    HEADS,
    st.sampled_from([*HOSTILE.values()]),
    st.builds(head, st.integers(0, 7), st.integers(0, 300)),
    st.binary(max_size=4),
)


@given(st.lists(PIECES, max_size=20).map(b"".join))
def test_pieces_of_cbor_give_a_value_or_decode_error(encoded):
    decode_or_refuse(encoded)


@given(st.data())
def test_mutated_values_give_a_value_or_decode_error(values, data):
    encoded = encode(data.draw(values))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(encoded)))
        skipped = data.draw(st.integers(0, 2))
        encoded = encoded[:at] + data.draw(PIECES) + encoded[at + skipped :]
    decode_or_refuse(encoded)


def peak_of_decoding(encoded: bytes) -> int:
    tracemalloc.start()
    try:
        decode(encoded)
    except DecodeError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize("encoded", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_take_little_memory(encoded):
    assert peak_of_decoding(encoded) < 256 * 1024


DENSE = """
00 80 8100 8180 a0 a14000 a14080 f7 60 f90000 18ff
d9010280 d901028100 d901028140 d9950580 d99505820000
d9950000 d99501820000 d9950260 d9950300 d9950401 d8344401020304 d834820040
"""


@pytest.mark.parametrize("item", DENSE.split())
def test_no_value_takes_more_than_128_times_the_memory_of_its_bytes(item):
    encoded = head(ARRAY, 5000) + bytes.fromhex(item) * 5000
    assert peak_of_decoding(encoded) <= 128 * len(encoded) + 64 * 1024


@given(st.binary(min_size=100, max_size=3000))
def test_memory_is_bounded_for_random_bytes(encoded):
    assert peak_of_decoding(encoded) <= 128 * len(encoded) + 256 * 1024


def test_keys_chosen_for_their_hashes_are_not_hashed():
    """The hashes of -1 and -2 are the same, so a dict of such keys would take quadratic time."""
    rows = [tuple(-1 - (number >> bit & 1) for bit in range(9)) for number in range(500)]
    assert len({hash(row) for row in rows}) == 1
    elements = decode(encode(Set(rows)))
    assert len(elements) == 500
    assert rows[0] in elements
    table = decode(encode(Table([(row, number) for number, row in enumerate(rows)])))
    assert [table[row] for row in rows] == [*range(500)]
    assert type(elements._plain) is frozenset
    assert not elements._plain
    assert not table._items


def test_received_containers_are_immutable_all_the_way_down():
    received = decode(encode({"a": [{"b": {1, 2}}, [{3: {"c": []}}]]}))
    assert isinstance(received, Table)
    assert isinstance(received["a"], tuple)
    assert isinstance(received["a"][0], Table)
    assert isinstance(received["a"][0]["b"], Set)
    assert isinstance(received["a"][1][0][3], Table)
    assert received["a"][1][0][3]["c"] == ()


def test_the_same_value_is_read_with_and_without_the_terminator_inside():
    for content in (b"\xf7", b"\x00"):
        value = ("text", content, ip_address("10.0.0.1"), {"a": 1}, 2**40)
        assert encode(decode(encode(value))) == encode(value)


def test_an_error_shows_little_of_the_bytes():
    with pytest.raises(DecodeError) as refused:
        decode(b"\x81" + head(TAG, 38_146) + head(TEXT, 100_000) + b"\xff" * 100_000)
    assert len(str(refused.value)) < 200
