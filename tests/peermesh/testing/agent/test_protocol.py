"""What a cluster and its agents say: each message comes out as it went in, however it is cut."""

from __future__ import annotations

import pytest

from endpoint.flight import Record
from peermesh.testing.agent.protocol import (
    LENGTH,
    Call,
    Cancel,
    Failure,
    Inbox,
    Noted,
    Reply,
    to_bytes,
)
from wire.encoding import encode
from wire.errors import DecodeError
from wire.identifiers import EndpointId
from wire.limits import PAYLOAD_SIZE_MAX

NODE = EndpointId(b"n" * 16)
MET = ((NODE, 7),)
MESSAGES = [
    Call(1, "publish", ("/x", (1, 2), None), MET),
    Cancel(1),
    Reply(1, None, ()),
    Failure(2, "TypeClash", "no number", MET),
    Noted(Record(NODE, 3, 1.5, "peer_added", "a text", NODE, 0, MET, ())),
    Noted(Record(NODE, 4, 1.5, "announced", "a text", None, 9, (), MET)),
]


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_messages_come_out_as_they_went_in_however_they_are_cut(size):
    stream = b"".join(map(to_bytes, MESSAGES))
    inbox = Inbox()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [message for piece in pieces for message in inbox.feed(piece)] == MESSAGES


def test_what_is_no_message_is_refused():
    for value in (("sing", 1), ("call", "one", "x", (), ()), 5):
        encoded = encode(value)
        with pytest.raises(DecodeError, match="is no message between a cluster and its agents"):
            list(Inbox().feed(LENGTH.pack(len(encoded)) + encoded))
    whole = ("noted", bytes(16), 1, 1.5, "kind", "text", None, 0, (), ())
    encoded = encode(whole)
    assert len(list(Inbox().feed(LENGTH.pack(len(encoded)) + encoded))) == 1, "this one is"
    for value in (("reply", 1, 2, 3), ("reply", 1, 2, (4,)), ("reply", 1, 2, ((5, 6),)),
                  ("noted", 1), ("noted", 5, *whole[2:]), (*whole[:-1], 7)):  # fmt: skip
        encoded = encode(value)
        with pytest.raises(DecodeError):
            list(Inbox().feed(LENGTH.pack(len(encoded)) + encoded))
    with pytest.raises(DecodeError, match="are allowed here"):
        list(Inbox().feed(LENGTH.pack(PAYLOAD_SIZE_MAX + 1)))
