"""The bytes of logs: what is written is read, and what is bad is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from stores.actions import WriterId
from stores.log import messages
from stores.log.encoding import (
    decode_event,
    decode_message,
    decode_requests,
    encode_event,
    encode_message,
    encode_requests,
    is_log_message,
    kinds,
)
from stores.log.memory import Remembered, WriterNews
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Requests, Trim, Trimmed
from stores.log.producers import ProducerRow
from stores.log.runs import OpenRun, partition_of
from stores.outcomes import Applied, Outcome, Refused
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

SENDER = EntityId(EndpointId(bytes(range(16))), 3)
WRITER = WriterId.of(SENDER, 9)
RUN = OpenRun(1, 5, 99, [None, encode(1), encode("k"), encode(2)]).seal()
OUTCOMES = (
    Outcome(1, 3, Applied(7)),
    Outcome(4, 4, Applied(2, answer=False)),
    Outcome(5, 5, Refused(ErrorCode.INVALID_DATA, "no")),
)
REMEMBERED = Remembered(
    (WriterNews(WRITER, 5, 0, OUTCOMES), WriterNews(WRITER, 5, 5, ())),
    (WRITER,),
    (ProducerRow("p", ((1, 0, 5), (3, 1, 0)), 1),),
    ("q",),
    is_last=False,
)
CURSORS = (("consumer", ((0, 1), (1, 2))),)
MESSAGES = [
    messages.Hello(1, 9, WRITER, 5),
    messages.Welcome(9, 1, 8, 2, 4, 5, OUTCOMES),
    messages.Answers(9, 4, OUTCOMES),
    messages.Join(3, 8, 9, (1, 2), 4),
    messages.Admitted(
        9, 3, 4, 5, 8, (0, 0), (1, 2), (1, 1), ((8, (0, 0)), (9, (1, 0))), True, CURSORS
    ),
    messages.Fetch(1, ((0, 5),), 1_000, 10),
    messages.Fetched(1, (RUN,), (0,), (9,)),
    messages.StateQuery(2),
    messages.State(2, (0,), (9,), CURSORS),
    messages.TimeQuery(3, 0, 77),
    messages.Found(3, 5),
    messages.QueryFailed(3, ErrorCode.NO_SUCH_PARTITION, "no"),
    messages.Proclaim(9),
    messages.MemoryQuery(3, 4, 1),
    messages.MemoryPage(4, 1, REMEMBERED),
    messages.MemoryPage(4, 7, None),
]


def test_every_kind_of_message_is_tried_here():
    assert {type(message) for message in MESSAGES} == set(kinds().values())


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message):
    data = encode_message(SENDER, message)
    assert is_log_message(data)
    assert decode_message(data) == (SENDER, message)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_cut_message_is_refused(message):
    data = encode_message(SENDER, message)
    for size in range(3, len(data)):
        with pytest.raises(DecodeError):
            decode_message(data[:size])


@given(st.sampled_from(MESSAGES), st.data())
def test_a_changed_message_is_read_or_refused_and_nothing_else(message, data):
    damaged = bytearray(encode_message(SENDER, message))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    try:
        decode_message(bytes(damaged))
    except DecodeError:
        pass


def test_requests_and_events_are_read_as_they_were_written():
    flat = (None, encode(1), encode("k"), encode(2))
    asked = (
        Append(0, None, 0, flat),
        Append(1, "p", 7, flat),
        MoveCursor("consumer", ((0, 1),)),
        ForgetConsumer("consumer"),
        Trim(0, 5),
    )
    requests = Requests(WRITER, 4, 3, asked)
    assert decode_requests(encode_requests(requests)) == requests
    for event in (RUN, Trimmed(((0, 5),)), asked[2], asked[3], REMEMBERED, Remembered()):
        assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize(
    "bad",
    [
        None,
        (),
        (bytes(WRITER), 1, 0, ()),
        (bytes(WRITER), 1, 0, ((0, 0, None, 0),)),
        (bytes(WRITER), 1, 0, ((0, 0, None, 0, None),)),
        (bytes(WRITER), 1, 0, ((0, 0, None, 0, None, None),)),
        (bytes(WRITER), 1, 0, ((0, 0, None, 0, 5, b""),)),
        (bytes(WRITER), 1, 0, ((0, -1, None, 0, None, b""),)),
        (bytes(WRITER), 1, 0, ((0, 0, "", 0, None, b""),)),
        (bytes(WRITER), 1, 0, ((1, "c", ((0,),)),)),
        (bytes(WRITER), 1, 0, ((9,),)),
        (b"short", 1, 0, ((2, "c"),)),
    ],
)
def test_bad_requests_are_refused(bad):
    with pytest.raises(DecodeError):
        decode_requests(encode(bad))


@pytest.mark.parametrize(
    "bad", [None, (0, 1), (0, 1, 5, 0, 99, b""), (1, 5), (3, ""), (7,), (4, (), (), (), ())]
)
def test_bad_events_are_refused(bad):
    with pytest.raises(DecodeError):
        decode_event(encode(bad))


def test_commands_of_stores_are_no_messages_of_logs():
    assert not is_log_message(encode((43, b"", 0)))
    assert not is_log_message(encode((5, b"", 0)))
    assert not is_log_message(b"")


def test_the_partition_of_a_key_never_changes():
    keys = ["a", "b", 1, True, 1.0, ("k", 1)]
    assert [partition_of(encode(key), 7) for key in keys] == [5, 3, 5, 6, 6, 3]
