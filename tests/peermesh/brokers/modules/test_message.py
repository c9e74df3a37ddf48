"""What a message holds: a value of the mesh and texts, which its sender can change no more."""

from __future__ import annotations

import copy
import json
import pickle
from collections import deque
from types import MappingProxyType

import pytest
from hypothesis import given, strategies as st

from peermesh import Count, Set, Table
from peermesh.brokers.modules import BrokerResult, InvalidArgument, Message, NoValue
from tests.peermesh.brokers.modules.requirements import requirement
from wire.encoding import encode
from wire.errors import DecodeError
from wire.limits import VALUE_DEPTH_MAX
from wire.values import freeze


@requirement("SRS_BROKER_17_025")
@requirement("SRS_BROKER_17_027")
def test_a_message_is_immutable_and_goes_through_bytes_unchanged() -> None:
    parts, properties = [1, b"2", ["3"]], {"unit": "celsius"}
    message = Message(parts, properties)
    parts.append(4)
    properties["unit"] = "kelvin"
    assert message == Message((1, b"2", ("3",)), {"unit": "celsius"})
    assert Message.decode(message.encode()) == message
    for attribute in ("content", "properties"):
        with pytest.raises(AttributeError):
            setattr(message, attribute, None)
    for encoded in (encode(1), encode((1, 2)), encode(({"n": 1}, b"")), b"\xff"):
        with pytest.raises(DecodeError):
            Message.decode(encoded)


class Own:
    """No value of the mesh."""


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)

NO_VALUES = [
    *(Own(), lambda: 0, 2**63, -(2**63) - 1, 10**30, 1j, deque([1]), range(3), Own),
    *("\ud800", ["a", "\ud800"], {"\ud800": 1}, {"a": "\ud800"}),
    *([1, [Own()]], (Own(),), {"a": {"b": Own()}}, {1: Own()}, {Own(): 1}, {Own()}),
    *(nested(VALUE_DEPTH_MAX + 1), CIRCLE),
]


@pytest.mark.parametrize("content", NO_VALUES, ids=lambda content: type(content).__name__)
def test_a_content_that_is_no_value_is_a_type_error_and_an_invalid_argument(content) -> None:
    with pytest.raises(TypeError) as caught:
        Message(content)
    assert type(caught.value) is NoValue
    assert caught.value.result is BrokerResult.INVALIDARG


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.builds(Count, st.integers(0, 2**64 - 1)),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
        | st.dictionaries(st.integers(0, 9) | st.binary(), inner)
        | st.lists(inner).map(Set)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_a_value_is_what_its_receiver_in_another_process_gets(value) -> None:
    message = Message(value)
    assert repr(message.content) == repr(freeze(value))
    decoded = Message.decode(message.encode())
    assert decoded == message
    assert repr(decoded.content) == repr(message.content)


def test_nothing_is_encoded_where_the_message_stays_in_the_process(monkeypatch) -> None:
    def refuse(value: object) -> bytes:
        raise AssertionError("it was encoded")

    class Texts:
        def __call__(self, value: object) -> bytes:
            assert isinstance(value, str), "more than a key was encoded"
            return value.encode()

    monkeypatch.setattr("peermesh.brokers.modules.message.encode", Texts())
    for content in (b"bytes", "text", 1, [1, "a", [2.5, None]], {"b": [1], "a": {"c": True}}):
        Message(content, {"unit": "celsius"})


@pytest.mark.parametrize(
    "properties",
    [
        {"n": 1},
        {1: "n"},
        {"n": b"1"},
        {"\ud800": "n"},
        {"n": "\ud800"},
        5,
        None,
        "text",
        [("a", "b")],
    ],
)
def test_properties_are_texts_with_names(properties) -> None:
    with pytest.raises(InvalidArgument):
        Message(b"", properties)


def test_properties_are_shown_as_a_dict_and_are_no_one_s_to_change() -> None:
    message = Message(b"", {"unit": "c"})
    assert str(message.properties) == f"{message.properties}" == "{'unit': 'c'}"
    assert repr(Message(b"x")) == "Message(content=b'x', properties={})"
    assert message.properties == {"unit": "c"} == dict(message.properties)
    assert json.dumps(dict(message.properties)) == '{"unit": "c"}'
    with pytest.raises(TypeError):
        message.properties["unit"] = "f"
    assert message == Message(b"", MappingProxyType({"unit": "c"}))
    assert hash(message) == hash(Message(b"", Table({"unit": "c"})))
    assert {Message(1, {"a": "1", "b": "2"})} == {Message(1, {"b": "2", "a": "1"})}
    for copied in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert copied == message
