"""The registry's tree and data formats, against the seed's words."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from peermesh.brokers.edge.errors import RegistryError
from peermesh.brokers.edge.tree import (
    Address,
    Addresses,
    format_addresses,
    parents,
    parse_address,
    parse_addresses,
    receiver_path,
    sender_path,
    topic_of,
    topic_path,
)


def test_the_formats_are_the_documented_ones():
    both = Addresses(Address("10.0.0.7", 5555), Address("10.0.0.7", 5556))
    assert format_addresses(both) == "10.0.0.7:5555\n10.0.0.7:5556"
    assert parse_addresses("10.0.0.7:5555\n10.0.0.7:5556") == both
    assert parse_addresses("null") is None
    assert parse_address("null") is None
    assert parse_address("10.0.0.7:5555") == both.receiver
    assert str(Address("::1", 80)) == "[::1]:80"
    assert parse_address("[::1]:80") == Address("::1", 80)
    assert topic_path("topic_A") == "/topics/topic_A"
    assert receiver_path("topic_A") == "/topics/topic_A/pub"
    assert sender_path("topic_A") == "/topics/topic_A/sub"
    assert parents("/topics/topic_A/pub") == ["/topics", "/topics/topic_A"]
    assert parents("/broker") == []


@pytest.mark.parametrize(
    "data",
    [
        "",
        "nonsense",
        ":1",
        "a:",
        "a:0",
        "a:65536",
        "a:-1",
        "a:1\nb:2",
        "a:1:x",
        "a:٣",
        "a:" + "9" * 5_000,
    ],
)
def test_what_is_no_address_is_refused(data):
    with pytest.raises(RegistryError, match="is no address"):
        parse_address(data)


@pytest.mark.parametrize("data", ["a:1", "a:1\nnull", "null\na:1", "a:1\nb:2\nc:3", "a:1\n"])
def test_what_is_not_two_lines_is_refused(data):
    with pytest.raises(RegistryError):
        parse_addresses(data)


@given(st.text(min_size=1))
def test_any_topic_is_one_segment_and_comes_back(topic):
    path = topic_path(topic)
    head, _, segment = path.rpartition("/")
    assert head == "/topics"
    assert segment
    assert segment.strip(".")
    assert segment.isascii()
    assert topic_of(segment) == topic
