"""Hypothesis strategies that several tests of the wire share, as fixtures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import strategies as st

from wire.scalars import INTEGER_MAX, INTEGER_MIN, PortProtocol
from wire.values import Count, Enum, Port, Set, Table, Timespan, Timestamp

INTEGERS = st.integers(INTEGER_MIN, INTEGER_MAX)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-300, 300),
    INTEGERS,
    st.builds(Count, st.integers(0, 2**64 - 1)),
    st.sampled_from([0.0, 1.0, float("inf"), float("nan")]),
    st.floats(),
    st.text(max_size=8),
    st.text(min_size=20, max_size=300),
    st.binary(max_size=30),
    st.ip_addresses(),
    st.builds(
        lambda address, cut: ip_network(
            (address, cut % 33 if address.version == 4 else cut), False
        ),
        st.ip_addresses(),
        st.integers(0, 128),
    ),
    st.builds(Port, st.integers(0, 65_535), st.sampled_from(PortProtocol)),
    st.builds(Enum, st.text(max_size=8)),
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)),
    st.builds(Timestamp.of, INTEGERS),
    st.builds(Timespan.of, INTEGERS),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(tuple),
        st.lists(inner, max_size=5).map(Set),
        st.dictionaries(st.text(max_size=4) | st.binary(max_size=4), inner, max_size=5).map(Table),
        st.lists(st.tuples(inner, inner), max_size=4).map(Table),
    ),
    max_leaves=12,
)

# One of each form that needs a function of its own, for tables of cases.
SAMPLES = (
    *(None, True, 0, 2**40, -(2**40), 0.5, "text", "日本語", b"bytes"),
    *(Count(2**63), Port(53, Port.UDP), Enum("local"), IPv4Address("10.1.2.3")),
    *(IPv6Address("fe80::1"), ip_network("10.0.0.0/8"), IPv6Network("fe80::/10")),
    *(datetime(2024, 5, 6, 7, 8, 9, 10, UTC), Timestamp(1), timedelta(-1), Timespan(-1)),
    *((1, "a", (2.5,)), Set(["a", 1, True]), Set(["a"]), Table({"a": 1}), Table({1: "a"})),
)


@pytest.fixture(scope="session")
def values() -> st.SearchStrategy[object]:
    """Any value, in the form in which it is received."""
    return VALUES


@pytest.fixture(scope="session")
def samples() -> tuple[object, ...]:
    """One value of every form, in the form in which it is received."""
    return SAMPLES
