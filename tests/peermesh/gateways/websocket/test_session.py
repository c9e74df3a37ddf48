"""The dialogue of a WebSocket, of either side, without any socket."""

from __future__ import annotations

import json

import pytest

from peermesh.gateways.websocket.limits import ERRORS_MAX, PREFIXES_MAX
from peermesh.gateways.websocket.session import (
    CONTEXT_SIZE_MAX,
    PATH,
    VERSION,
    Incoming,
    Refused,
    Session,
    Told,
    acknowledgement,
    dropped_message,
    error_message,
    message,
    subscription,
)
from wire.encoding import encode
from wire.errors import NotAllowed


def session(*, depth_max: int = 32, entries_max: int = 1_000, refused: str = "/no") -> Session:
    def permit(topic: str) -> None:
        if topic.startswith(refused):
            raise NotAllowed(f"you may not publish on {topic}")

    return Session(depth_max, entries_max, permit)


def frame(topic: object = "/t", kind: str = "count", data: object = 1, **more: object) -> str:
    return json.dumps({"topic": topic, "@data-type": kind, "data": data, **more})


def refusal(speaker: Session, text: str | bytes, **options: bool) -> tuple[str, str]:
    """Give code and context of the error message that an input is refused with."""
    with pytest.raises(Refused) as refused:
        speaker.receive(text, **options)
    told = json.loads(str(refused.value))
    assert told.pop("type") == "error"
    return told["code"], told["context"]


def test_the_words_are_those_of_broker():
    assert (PATH, VERSION) == ("/v1/messages/json", "2.7.0")
    assert json.loads(acknowledgement("id")) == {
        "type": "ack",
        "endpoint": "id",
        "version": VERSION,
    }
    assert json.loads(subscription(["/a", 'b"'])) == ["/a", 'b"']
    assert subscription([]) == "[]"
    assert json.loads(message('/t"', '"@data-type": "none", "data": {}')) == {
        "type": "data-message",
        "topic": '/t"',
        "@data-type": "none",
        "data": {},
    }
    assert json.loads(error_message("code", 'some\x1b"text')) == {
        "type": "error",
        "code": "code",
        "context": 'some\\u001b"text',
    }
    told = json.loads(dropped_message(7))
    assert told["type"] == "error"
    assert told["code"] == "messages_dropped"
    assert told["context"] == "7 messages were dropped: read faster, or want less"


def test_an_error_message_is_short():
    told = json.loads(error_message("code", "x" * 1_000))
    assert told["context"] == "x" * CONTEXT_SIZE_MAX


@pytest.mark.parametrize("topics", [[], ["/a"], ["", "zeek/"], ["/x"] * PREFIXES_MAX])
def test_the_first_frame_names_topics(topics):
    assert session().open(json.dumps(topics)) == tuple(topics)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        (b"[]", "it is binary: send text"),
        ("{}", f"send an array of {PREFIXES_MAX} topics at most"),
        (
            json.dumps(["/x"] * (PREFIXES_MAX + 1)),
            f"send an array of {PREFIXES_MAX} topics at most",
        ),
        ('"/x"', "send an array"),
        ("[1]", "a topic is text, not int: 1"),
        ('["/<$>/x"]', "reserved"),
        ("[NaN]", "NaN is no JSON"),
        ("[" * 200_000, "it is nested too deep"),
    ],
)
def test_a_first_frame_that_names_none_is_refused(text, why):
    with pytest.raises(Refused) as refused:
        session().open(text)
    told = json.loads(str(refused.value))
    assert told["type"] == "error"
    assert told["code"] == "deserialization_failed"
    assert told["context"].startswith("the first frame names no topics -> ")
    assert why in told["context"]


def test_the_first_frame_of_the_other_side_acknowledges():
    assert session().acknowledged(acknowledgement("some-id")) == "some-id"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", r"\[\] acknowledges nothing"),
        ('{"type": "error", "code": "x"}', "'error'.* acknowledges nothing"),
        ("x", "Expecting value"),
        (b"", "it is binary"),
        ("[" * 200_000, "nested too deep"),
    ],
)
def test_a_first_frame_that_acknowledges_nothing_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        session().acknowledged(text)


def test_an_error_shows_enough_of_what_acknowledges_nothing():
    with pytest.raises(ValueError, match="acknowledges nothing") as refused:
        session().acknowledged(json.dumps({"context": "x" * 100}))
    assert "x" * 100 in str(refused.value)
    with pytest.raises(ValueError, match="acknowledges nothing") as refused:
        session().acknowledged(json.dumps({"context": "x" * 1_000}))
    assert len(str(refused.value)) == 200 + len(" acknowledges nothing")


def test_a_message_is_taken_with_its_value_encoded():
    speaker = session()
    assert speaker.receive(frame(kind="string", data="x")) == Incoming("/t", encode("x"))
    named = frame(kind="string", data="x", type="data-message")
    assert speaker.receive(named) == Incoming("/t", encode("x"))


def test_the_dialling_side_is_told_errors_and_the_serving_side_is_not():
    told = error_message("some_code", "why")
    assert session().receive(told, may_tell=True) == Told("some_code", "why")
    code, context = refusal(session(), told)
    assert code == "deserialization_failed"
    assert context == (
        "input #1 contained invalid data -> 'error' is no type of a message here: send data-message"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("How is it going?", "malformed JSON -> Expecting value"),
        (b"{}", "malformed JSON -> it is binary: send text"),
        ('{"data": Infinity}', "malformed JSON -> Infinity is no JSON"),
        ("[" * 200_000, "malformed JSON -> it is nested too deep"),
        ("9" * 5_000, "malformed JSON -> Exceeds the limit"),
        ("1", "invalid data -> 1 is no message"),
        ("{}", "invalid data -> a topic is"),
        (frame(topic=1), "invalid data -> a topic is"),
        (frame(topic="/<$>/x"), "invalid data -> the segment"),
        (frame(type="ack"), "invalid data -> 'ack' is no type of a message here"),
        (frame(type=["data-message"]), "is no type of a message here"),
        (frame(kind="phone"), "invalid data -> there is no type 'phone'"),
        (frame(data=-1), "invalid data -> -1 is no count"),
        (frame(kind="integer", data=2**63), "invalid data -> "),
        (frame(kind="string", data="\ud800"), "invalid data -> "),
        (frame(topic="\ud800"), "invalid data -> "),
    ],
)
def test_what_is_no_message_is_refused_with_what_is_wrong(text, why):
    speaker = session()
    code, context = refusal(speaker, text)
    assert code == "deserialization_failed"
    assert context.startswith("input #1 contained ")
    assert why in context
    assert not speaker.is_over


def test_values_are_no_deeper_and_no_larger_than_the_endpoint_takes():
    def nested(depth: int) -> str:
        inner = '"@data-type": "vector", "data": [{' * depth + '"@data-type": "count", "data": 1'
        return f'{{"topic": "/t", {inner}{"}]" * depth}}}'

    speaker = session(depth_max=4, entries_max=8)
    assert isinstance(speaker.receive(nested(3)), Incoming)
    assert "nested" in refusal(speaker, nested(4))[1]
    many = [{"@data-type": "boolean", "data": True}] * 7
    assert isinstance(speaker.receive(frame(kind="vector", data=many)), Incoming)
    many = [{"@data-type": "boolean", "data": True}] * 8
    assert "more than 8 values" in refusal(speaker, frame(kind="vector", data=many))[1]
    assert "nested" in refusal(session(depth_max=10_000), nested(990))[1]
    counts = frame(kind="set", data=[{"@data-type": "count", "data": 1}])
    assert isinstance(session(depth_max=3).receive(counts), Incoming)
    assert "nested" in refusal(session(depth_max=2), counts)[1]


def test_a_topic_that_is_not_allowed_is_refused_before_its_value_is_read():
    code, context = refusal(session(), frame(topic="/no", data="nonsense"))
    assert code == "not_allowed"
    assert context == (
        "input #1 contained a topic that is not allowed -> you may not publish on /no"
    )


def test_inputs_are_numbered_and_the_first_frame_is_none_of_them():
    speaker = session()
    speaker.open("[]")
    speaker.receive(frame())
    assert refusal(speaker, "x")[1].startswith("input #2 ")
    assert refusal(speaker, "x")[1].startswith("input #3 ")


def test_so_many_errors_in_a_row_end_it():
    speaker = session()
    for _ in range(ERRORS_MAX - 1):
        refusal(speaker, "x")
    assert not speaker.is_over
    speaker.receive(frame())
    for _ in range(ERRORS_MAX - 1):
        refusal(speaker, frame(topic="/no"))
    assert not speaker.is_over
    refusal(speaker, frame(data=-1))
    assert speaker.is_over
