"""Arguments: what means the obvious is taken, and every other mistake is told at the call."""

import math
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from endpoint import arguments
from wire.errors import InvalidTopic
from wire.identifiers import EndpointId

ID = EndpointId(bytes(range(16)))


def bag() -> st.SearchStrategy[object]:
    """Anything that a caller may hand over by mistake."""
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
    return plain | st.lists(plain) | st.builds(object) | st.timedeltas()


@pytest.mark.parametrize(("given", "port"), [(1, 1), ("9999", 9999), (65_535, 65_535)])
def test_a_port_is_a_number_or_its_digits(given, port):
    assert arguments.port("port", given) == port


@pytest.mark.parametrize("wrong", [True, 9999.0, None, b"9999", [9999]])
def test_what_is_no_number_is_no_port(wrong):
    with pytest.raises(TypeError, match=r"port=.*from 1 to 65535"):
        arguments.port("port", wrong)


@pytest.mark.parametrize("wrong", [0, -1, 65_536, "0", "-1", "x", "", "9999.0", "9" * 9999, "٣"])
def test_a_number_that_is_no_port_is_refused(wrong):
    with pytest.raises(ValueError, match="a port is a number from 1 to 65535"):
        arguments.port("port", wrong)


def test_only_a_listener_may_leave_the_port_to_the_system():
    assert arguments.port("port", 0, least=0) == 0
    assert arguments.port("port", "0", least=0) == 0


@pytest.mark.parametrize(
    "given",
    [ID, str(ID), str(ID).upper(), bytes(ID), bytes(ID).hex(), bytes(ID).hex().encode()],
)
def test_an_endpoint_id_may_be_text_bytes_or_digits(given):
    found = arguments.endpoint_id("to", given)
    assert found == ID
    assert type(found) is EndpointId


def test_an_endpoint_stands_for_its_id():
    assert arguments.endpoint_id("to", SimpleNamespace(node_id=lambda: ID)) == ID


@pytest.mark.parametrize("wrong", [5, None, 1.5, [ID], object()])
def test_what_can_be_no_id_is_refused(wrong):
    with pytest.raises(TypeError, match=r"to=.*node_id\(\)"):
        arguments.endpoint_id("to", wrong)


@pytest.mark.parametrize("wrong", ["", "x", b"short", b"\xff" * 32, str(ID)[:-1]])
def test_text_and_bytes_that_are_no_id_are_refused(wrong):
    with pytest.raises(ValueError, match=r"to=.*node_id\(\)"):
        arguments.endpoint_id("to", wrong)


def test_no_receiver_is_every_subscriber():
    assert arguments.receiver("to", None) is None
    assert arguments.receiver("to", str(ID)) == ID


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(0, 0.0), (1, 1.0), (0.5, 0.5), (timedelta(minutes=1), 60.0), (None, math.inf)],
)
def test_seconds_are_a_number_a_timedelta_or_for_ever(given, seconds):
    assert arguments.seconds("timeout", given) == seconds


def test_seconds_beyond_what_a_float_holds_are_for_ever():
    assert arguments.seconds("timeout", 10**400) == math.inf


def test_none_is_the_default_where_there_is_one():
    assert arguments.seconds("grace", None, default=3.0) == 3.0


@pytest.mark.parametrize("wrong", [True, "1", b"1", [1], object()])
def test_what_is_no_number_is_no_duration(wrong):
    with pytest.raises(TypeError, match=r"timeout=.*seconds as a number"):
        arguments.seconds("timeout", wrong)


@pytest.mark.parametrize("wrong", [-1, -0.001, math.nan, -math.inf, timedelta(seconds=-1)])
def test_a_duration_is_not_negative(wrong):
    with pytest.raises(ValueError, match="seconds are 0 or more"):
        arguments.seconds("timeout", wrong)


@pytest.mark.parametrize("wrong", [True, 1.0, "1", None])
def test_a_count_is_a_whole_number(wrong):
    with pytest.raises(TypeError, match="give a whole number"):
        arguments.count("queue_size", wrong)


@pytest.mark.parametrize("wrong", [0, -1, 11])
def test_a_count_is_within_its_limits(wrong):
    with pytest.raises(ValueError, match="it may be 1 to 10"):
        arguments.count("queue_size", wrong, most=10)


@pytest.mark.parametrize("given", [("/a", "/b"), (["/a", "/b"],), (("/a", "/b"),)])
def test_topics_are_texts_or_one_list(given):
    assert arguments.topics("topics", given) == ["/a", "/b"]


@pytest.mark.parametrize("none", [(), ([],)])
def test_at_least_one_topic_is_named(none):
    with pytest.raises(TypeError, match="name at least one topic"):
        arguments.topics("topics", none)


@pytest.mark.parametrize("wrong", [(5,), (["/a"], ["/b"]), (None,), (b"/a",)])
def test_a_topic_is_text(wrong):
    with pytest.raises(InvalidTopic, match="a topic is text"):
        arguments.topics("topics", wrong)


def test_a_wildcard_gets_a_hint():
    with pytest.raises(InvalidTopic, match=r"topics are prefixes.*'/a/' matches"):
        arguments.topics("topics", ("/a/*",))


def test_hosts_texts_and_functions_are_checked_by_their_type():
    assert arguments.host("address", "localhost") == "localhost"
    assert arguments.text("name", "cities") == "cities"
    assert arguments.function("callback", print) is print
    for check in (arguments.host, arguments.text, arguments.function):
        with pytest.raises(TypeError, match="it=5 is int: give"):
            check("it", 5)


CHECKS = (
    arguments.port,
    arguments.host,
    arguments.endpoint_id,
    arguments.receiver,
    arguments.seconds,
    arguments.count,
    arguments.text,
    arguments.function,
    arguments.prefix,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@given(value=bag())
def test_a_check_raises_nothing_but_what_it_promises(check, value):
    with suppress(TypeError, ValueError):
        check("it", value)
