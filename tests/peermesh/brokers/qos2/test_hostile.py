"""Hostile clients of the line protocol: slow, silent, endless; in virtual time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import repeat

import pytest
import trio

from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.conversation import Conversation
from peermesh.brokers.qos2.limits import LINE_SIZE_MAX, MESSAGE_SIZE_MAX, MISTAKES_MAX, Pace
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.testing.scripted import ScriptedStream

PACE = Pace()
SESSIONS = pytest.mark.parametrize("session", [PublisherSession, ConsumerSession])


def beginning(first: bytes, rest: bytes) -> Iterator[bytes]:
    yield first
    yield from repeat(rest)


async def converse(stream: ScriptedStream, kind: type) -> Conversation:
    """Talk as the broker does, with a disk that has everything at once."""

    async def perform(_step: object) -> object:
        return conversation._session.stored

    conversation = Conversation(stream, kind(PACE), perform, PACE.send_seconds)
    await conversation.run()
    return conversation


@SESSIONS
@pytest.mark.parametrize("said", [b"x", b"", b"\xff"])
async def test_a_line_byte_by_byte_is_ended_in_time(autojump_clock, session, said) -> None:
    stream = ScriptedStream(repeat(said or b"x"), seconds=1.0 if said else 1e9)
    began = trio.current_time()
    conversation = await converse(stream, session)
    assert conversation.closed_because == "it was silent"
    assert trio.current_time() - began <= PACE.silence_seconds + 1


@SESSIONS
async def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    autojump_clock, session
) -> None:
    tracemalloc.start()
    conversation = await converse(ScriptedStream(repeat(bytes(10_000))), session)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert conversation.closed_because == "LINE TOO LONG"
    assert peak < 10 * LINE_SIZE_MAX


async def test_a_message_without_end_is_refused_before_it_fills_the_memory(autojump_clock) -> None:
    lines = b"a line\n" * 1_000
    tracemalloc.start()
    conversation = await converse(
        ScriptedStream(beginning(b"BEGIN tea\n", lines)), PublisherSession
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert conversation.closed_because == "a message was too large"
    assert peak < 16 * MESSAGE_SIZE_MAX


@SESSIONS
async def test_who_makes_nothing_but_mistakes_is_ended(autojump_clock, session) -> None:
    stream = ScriptedStream(repeat(b"GET / HTTP/1.1\n" * 50))
    conversation = await converse(stream, session)
    assert conversation.closed_because == "it made nothing but mistakes"
    assert stream.sent.count(b"ERROR") == MISTAKES_MAX


@SESSIONS
async def test_who_asks_and_does_not_read_the_answers_is_ended_in_time(
    autojump_clock, session
) -> None:
    stream = ScriptedStream(repeat(b"nonsense\n" * 1_000))
    stream.socket.is_stuck = True
    began = trio.current_time()
    conversation = await converse(stream, session)
    assert conversation.closed_because == "it did not take what was sent"
    assert len(conversation._outbox) < 100
    assert trio.current_time() - began <= PACE.send_seconds + 1
