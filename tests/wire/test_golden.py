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
    assert codec.decode_header(bytes.fromhex(vector["hex"])) == python(vector)


def test_every_control_kind_has_a_vector():
    assert {vector["kind"] for vector in VECTORS["control"]} == set(codec.ControlKind)
