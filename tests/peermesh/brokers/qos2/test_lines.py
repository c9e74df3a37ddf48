"""Framing and commands of the line protocol."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, strategies as some

from peermesh.brokers.qos2.commands import (
    Begin,
    Login,
    Nack,
    PubRec,
    parse_consumer_line,
    parse_publisher_line,
)  # fmt: skip
from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.limits import LINE_SIZE_MAX
from peermesh.brokers.qos2.lines import (
    LineDecoder,
    can_be_plain,
    is_end,
    lines_of,
    plain_digests,
    stuff,
    unstuff,
)  # fmt: skip

nasty = some.lists(
    some.sampled_from([b"END", b".", b"\n", b"\r\n", b" END ", b"..END", b"x", b"\xff"])
).map(b"".join)


@given(nasty)
def test_a_stuffed_body_has_no_end_within_and_is_read_as_it_was(payload):
    lines = lines_of(stuff(payload))
    assert not any(map(is_end, lines))
    found = b"".join(map(unstuff, lines))
    assert found in (payload, payload + b"\n")
    assert (found == payload) == (payload == b"" or payload.endswith(b"\n"))


@given(nasty)
def test_plain_bodies_are_those_without_a_line_that_ends_them(payload):
    assert can_be_plain(payload) == all(line.strip() != b"END" for line in payload.split(b"\n"))


@given(nasty, some.lists(some.integers(1, 7)))
def test_lines_are_the_same_however_the_bytes_are_cut(data, cuts):
    whole, pieces = LineDecoder(), LineDecoder()
    whole.feed(data)
    wanted = list(iter(lambda: whole.take(None), None))
    found = []
    for size in [*cuts, len(data)]:
        pieces.feed(data[:size])
        data = data[size:]
        found += iter(lambda: pieces.take(None), None)
    assert found == wanted
    assert len(pieces) == len(whole)


def test_a_line_has_an_end():
    decoder = LineDecoder()
    decoder.feed(b"x" * (LINE_SIZE_MAX - 1))
    assert decoder.take(None) is None
    decoder.feed(b"\n")
    assert len(decoder.take(None)) == LINE_SIZE_MAX
    decoder.feed(b"x" * LINE_SIZE_MAX)
    with pytest.raises(DialogueError):
        decoder.take(None)


@pytest.mark.parametrize("typed", ["a\nb\n", "a\r\nb\r\n"])
@pytest.mark.parametrize("hashed", ["a\nb\n", "a\nb", "a\r\nb\r\n", "a\r\nb"])
def test_a_person_finds_an_md5_that_fits(typed, hashed):
    """But nobody makes line feeds into telnet's line ends."""
    fits = hashlib.md5(hashed.encode()).hexdigest() in plain_digests(typed.encode())
    assert fits == ("\r" in typed or "\r" not in hashed)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (b"BEGIN tea\n", Begin(("tea",))),
        (b"BEGIN tea coffee  tea\r\n", Begin(("tea", "coffee"))),
        (b"BEGIN id=7\n", Begin(("id=7",))),  # without ids that is a topic
        (b"LOGIN till lengths\n", Login("till", ("ids", "lengths"))),
    ],
)
def test_what_publishers_say(line, command):
    assert parse_publisher_line(line, has_ids=False) == command


def test_what_publishers_with_ids_say():
    wanted = Begin(("tea", "id=8"), 7, 12)
    assert parse_publisher_line(b"BEGIN tea id=8 id=7 length=12\n", has_ids=True) == wanted
    assert parse_consumer_line(b"PUBREC AB id=tea/1", has_ids=True) == PubRec("ab", "tea/1")
    assert parse_consumer_line(b"NACK id=t/1 final too hot", has_ids=True) == Nack(
        "t/1", is_final=True, reason="too hot"
    )


@pytest.mark.parametrize(
    "line",
    [b"begin tea", b"BEGIN", b"BEGIN " + b"x" * 79, b"BEGIN \xff", b"BEGIN a\x00b",
     b"BEGIN <$>/x", b"BEGIN tea id=0", b"BEGIN tea id=-1", b"BEGIN tea id=" + b"9" * 30,
     b"BEGIN tea id=\xd9\xa3", b"BEGIN tea length=99999999 id=1", b"BEGIN tea id=1 length=9999999",
     b"PUBREL 7", b"LOGIN", b"LOGIN till more", b"SUBSCRIBE tea", b"NACK id=1"],
)  # fmt: skip
def test_what_publishers_with_ids_must_not_say(line):
    with pytest.raises(DialogueError):
        parse_publisher_line(line, has_ids=True)
