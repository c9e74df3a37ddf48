"""Values that Python has no type for: what they hold, what they refuse, and how they show."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from ipaddress import ip_network

import pytest
from hypothesis import given, strategies as st

from wire.errors import EncodeError
from wire.scalars import (
    INTEGER_MAX,
    INTEGER_MIN,
    Count,
    Enum,
    Port,
    PortProtocol,
    Timespan,
    Timestamp,
    nanoseconds_in,
    nanoseconds_since_epoch,
    shorten,
)

nanoseconds = st.integers(INTEGER_MIN, INTEGER_MAX)


@pytest.mark.parametrize("number", [-1, 2**64, True, 1.0, "1", None])
def test_a_count_is_an_unsigned_64_bit_integer(number):
    with pytest.raises(EncodeError, match="count"):
        Count(number)


def test_a_count_is_a_number_but_equals_none():
    assert int(Count(5)) == 5
    assert [*range(9)][Count(5)] == 5
    assert Count(1) not in (1, True, 1.0)
    assert Count(1) < Count(2)
    assert str(Count(7)) == "7"


@pytest.mark.parametrize(
    ("number", "protocol"),
    [(-1, Port.TCP), (65_536, Port.TCP), (True, Port.TCP), (80, 1), (80, "tcp")],
)
def test_a_port_has_16_bits_and_a_known_protocol(number, protocol):
    with pytest.raises(EncodeError):
        Port(number, protocol)


@given(st.builds(Port, st.integers(0, 65_535), st.sampled_from(PortProtocol)))
def test_a_port_reads_what_it_writes(port):
    assert Port.parse(str(port)) == port


def test_a_port_is_written_like_this():
    assert [str(Port(80)), str(Port(53, Port.UDP)), str(Port(8, Port.ICMP))] == [
        "80/tcp",
        "53/udp",
        "8/icmp",
    ]
    assert str(Port(0, Port.UNKNOWN)) == "0/?"
    assert Port.parse("80") == Port(80, Port.TCP)
    assert Port(1, Port.UDP) < Port(2, Port.TCP)


@pytest.mark.parametrize("text", ["", "tcp", "80/", "80/sctp", "-1/tcp", "٣/tcp", "65536/tcp"])
def test_what_is_no_port_does_not_parse(text):
    with pytest.raises(EncodeError):
        Port.parse(text)


def test_the_name_of_an_enum_is_text():
    with pytest.raises(EncodeError, match="str"):
        Enum(b"x")


@given(nanoseconds)
def test_every_instant_and_every_duration_has_one_form(number):
    instant, duration = Timestamp.of(number), Timespan.of(number)
    if number % 1000:
        assert (instant, duration) == (Timestamp(number), Timespan(number))
    else:
        assert nanoseconds_since_epoch(instant) == nanoseconds_in(duration) == number
        with pytest.raises(EncodeError, match="use datetime"):
            Timestamp(number)
        with pytest.raises(EncodeError, match="use timedelta"):
            Timespan(number)


@pytest.mark.parametrize("number", [INTEGER_MAX + 1, INTEGER_MIN - 1, 2**80 * 1000, 1.5, None])
@pytest.mark.parametrize("kind", [Timestamp, Timespan])
def test_times_have_64_bits(kind, number):
    with pytest.raises(EncodeError):
        kind(number)


@pytest.mark.parametrize("kind", [Timestamp, Timespan])
def test_times_of_any_size_are_refused_not_cut(kind):
    with pytest.raises(EncodeError, match="64 bits"):
        kind.of(2**80 * 1000)


def test_a_datetime_needs_a_time_zone():
    with pytest.raises(EncodeError, match="add one"):
        nanoseconds_since_epoch(datetime(2024, 1, 1))


def test_the_zone_does_not_change_the_instant():
    there = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert nanoseconds_since_epoch(there) == nanoseconds_since_epoch(there.astimezone(UTC))


@pytest.mark.parametrize("year", [1, 1600, 2300, 9999])
def test_a_datetime_beyond_64_bits_is_refused(year):
    with pytest.raises(EncodeError, match="292 years"):
        nanoseconds_since_epoch(datetime(year, 1, 1, tzinfo=UTC))


SCALARS = [Count(1), Port(80), Enum("x"), Timestamp(1), Timespan(-1)]


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_scalars_are_frozen_hashable_and_can_be_copied(scalar):
    field = next(iter(scalar.__slots__))
    with pytest.raises(AttributeError):
        setattr(scalar, field, 2)
    assert pickle.loads(pickle.dumps(scalar)) == copy.deepcopy(scalar) == scalar
    assert hash(copy.copy(scalar)) == hash(scalar)
    assert eval(repr(scalar)) == scalar


def test_scalars_of_different_types_differ():
    assert len({*SCALARS, 1}) == len(SCALARS) + 1
    assert Timestamp(1) != Timespan(1)
    assert ip_network("10.0.0.0/8") not in SCALARS


def test_long_values_are_shortened_in_texts():
    assert shorten("x") == "'x'"
    assert len(shorten("x" * 1000)) == 60
