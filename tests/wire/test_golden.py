"""The wire as it is written down: every vector reads and writes as it says, in all versions."""

from __future__ import annotations

import datetime
import ipaddress
import json
from pathlib import Path

import pytest

import wire
from wire import codec, messages
from wire.decoding import decode, is_canonical
from wire.encoding import encode
from wire.errors import ErrorCode
from wire.framing import FrameDecoder, encode_node, encode_preamble
from wire.identifiers import EndpointId
from wire.messages import Preamble

VECTORS = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
NAMES = vars(wire) | vars(messages) | vars(ipaddress) | vars(datetime) | {"ErrorCode": ErrorCode}


def vectors(part: str) -> object:
    return pytest.mark.parametrize("vector", VECTORS[part], ids=lambda vector: vector["meaning"])


def python(vector: dict[str, str]) -> object:
    return eval(vector["python"], dict(NAMES))


@vectors("values")
def test_a_value_has_this_one_encoding(vector):
    assert encode(python(vector)).hex() == vector["hex"]


@vectors("values")
def test_the_encoding_of_a_value_decodes_to_it(vector):
    decoded = decode(bytes.fromhex(vector["hex"]))
    assert type(decoded) is type(python(vector))
    assert encode(decoded).hex() == vector["hex"]
    assert decoded == python(vector) or decoded != decoded, "equal, or not a number"
    assert is_canonical(bytes.fromhex(vector["hex"]))


@vectors("control")
def test_a_control_message_has_this_kind_and_body(vector):
    kind, body = codec.encode_control(python(vector))
    assert (kind, body.hex()) == (vector["kind"], vector["hex"])


@vectors("control")
def test_the_body_of_a_control_message_decodes_to_it(vector):
    body = bytes.fromhex(vector["hex"])
    assert codec.decode_control(vector["kind"], body) == python(vector)


@vectors("headers")
def test_a_header_is_written_and_read_like_this(vector):
    assert codec.encode_header(python(vector)).hex() == vector["hex"]
    sender = EndpointId(bytes(range(16)))
    assert codec.decode_header(sender, bytes.fromhex(vector["hex"])) == python(vector)


def columns(vector):
    """Give the columns of a frame: sender, life, first number, headers, numbers, payloads."""
    headers, payloads = (
        tuple(map(bytes.fromhex, vector[each])) for each in ("headers", "payloads")
    )
    sender, numbers = bytes.fromhex(vector["sender"]), bytes.fromhex(vector["numbers"])
    return sender, vector["ttl"], vector["first"], headers, numbers, payloads


def extras(vector):
    """Give the mask, whether the frame is forced, and the signature."""
    mask, signature = vector.get("mask"), vector.get("signature")
    return (
        None if mask is None else int(mask, 16),
        vector.get("forced", False),
        None if signature is None else bytes.fromhex(signature),
    )


@vectors("frames")
def test_a_frame_is_written_like_this(vector):
    mask, forced, signature = extras(vector)
    sign = None if signature is None else lambda _: signature
    pieces, _ = encode_node(*columns(vector), mask=mask, forced=forced, sign=sign)
    assert b"".join(pieces).hex() == vector["hex"]


@vectors("frames")
def test_a_frame_is_read_like_this(vector):
    decoder = FrameDecoder()
    decoder.feed(encode_preamble(Preamble(2, 2)) + bytes.fromhex(vector["hex"]))
    decoder.next_frame()
    frame = decoder.next_frame()
    sent = (frame.sender, frame.ttl, frame.first, tuple(frame.headers), frame.numbers)
    assert (*sent, tuple(frame.payloads())) == columns(vector)
    assert (frame.mask, frame.is_forced, frame.signed()[1]) == extras(vector)


def test_a_connection_begins_like_this():
    assert encode_preamble(Preamble(2, 2)).hex() == "504d534800020002"


def test_every_control_kind_has_a_vector():
    assert {vector["kind"] for vector in VECTORS["control"]} == set(codec.ControlKind)
