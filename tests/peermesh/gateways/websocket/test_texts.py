"""Texts of encoded values: written once for all clients, and never one that is too long."""

from __future__ import annotations

import pytest

from peermesh.gateways.websocket import texts as texts_module
from peermesh.gateways.websocket.limits import TEXT_SIZE_MAX
from peermesh.gateways.websocket.texts import Texts
from wire.encoding import encode
from wire.errors import DecodeError

OVERHEAD = len('"@data-type": "string", "data": ""')


def test_a_text_is_written_once():
    texts, payload = Texts(32, 1_000), encode(("some", 1))
    first = texts.find(payload)
    assert first is not None
    assert first.startswith('"@data-type": "vector", "data": [')
    assert texts.find(bytes(bytearray(payload))) is first


def test_what_is_too_long_is_found_out_once(monkeypatch):
    texts, payload = Texts(32, 1_000), encode(b"\xff" * (TEXT_SIZE_MAX // 2))
    assert texts.find(payload) is None
    monkeypatch.setattr(texts_module, "members", None)
    assert texts.find(bytes(bytearray(payload))) is None, "a second client takes no time"


def test_what_is_kept_has_a_limit(monkeypatch):
    payloads = [encode(letter * 100) for letter in "abcdef"]
    each = OVERHEAD + 100 + len(payloads[0])
    monkeypatch.setattr(texts_module, "SHARED_SIZE_MAX", 3 * each)
    texts = Texts(32, 1_000)
    first, *_, third = map(texts.find, payloads[:3])
    assert texts.find(payloads[0]) is first, "three fit exactly"
    fourth, _, _ = map(texts.find, payloads[3:])
    again = texts.find(payloads[2])
    assert again == third
    assert again is not third, "the fourth one began anew, and so did this one"
    assert texts.find(payloads[3]) is not fourth
    texts = Texts(32, 1_000)
    *_, fourth, _, _ = map(texts.find, payloads)
    texts.find(encode(None))
    assert texts.find(payloads[3]) is not fourth, "the smallest one more is too many"


@pytest.mark.parametrize("size", [TEXT_SIZE_MAX - OVERHEAD, TEXT_SIZE_MAX - OVERHEAD + 1])
def test_a_text_is_as_long_as_a_message_may_be(size):
    found = Texts(32, 1_000).find(encode("x" * size))
    assert (found is not None) is (size == TEXT_SIZE_MAX - OVERHEAD)


def test_what_would_be_too_long_is_not_decoded(monkeypatch):
    monkeypatch.setattr(texts_module, "decode", None)
    assert Texts(32, 2_000_000).find(encode((1,) * 40_000)) is None
    assert Texts(32, 2_000_000).find(encode("x" * (TEXT_SIZE_MAX + 1))) is None
    assert Texts(32, 10).find(encode((1,) * 10)) is None
    assert Texts(2, 10).find(encode((((1,),),))) is None


def test_what_is_allowed_is_written():
    assert Texts(32, 11).find(encode((1,) * 10)) is not None
    assert Texts(3, 10).find(encode((((1,),),))) is not None


def test_what_is_no_value_raises():
    with pytest.raises(DecodeError):
        Texts(32, 1_000).find(b"\xff")
