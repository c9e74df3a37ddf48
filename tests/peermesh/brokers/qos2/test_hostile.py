"""Hostile clients of the line protocol: slow, silent, endless; in virtual time."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import repeat

import pytest
import trio
import trio.testing

from peermesh.brokers.qos2.consumer_session import ConsumerSession
from peermesh.brokers.qos2.conversation import Conversation
from peermesh.brokers.qos2.limits import (
    LINE_SIZE_MAX,
    LINES_AT_ONCE,
    MESSAGE_SIZE_MAX,
    MISTAKES_MAX,
    RECEIVE_SIZE,
    UNFINISHED,
    UNFINISHED_SIZE_MAX,
    Pace,
)
from peermesh.brokers.qos2.publisher_session import PublisherSession
from peermesh.brokers.qos2.steps import Enter
from peermesh.brokers.unfinished import Unfinished
from peermesh.testing.scripted import ScriptedStream

PACE = Pace()
SESSIONS = pytest.mark.parametrize("session", [PublisherSession, ConsumerSession])


def beginning(first: bytes, rest: bytes) -> Iterator[bytes]:
    yield first
    yield from repeat(rest)


def conversation_at(
    stream: trio.abc.Stream, kind: type, unfinished: Unfinished | None = None
) -> Conversation:
    """Give a connection of a broker whose disk has everything at once."""

    async def perform(step: object) -> object:
        session = conversation._session
        return session.entered if isinstance(step, Enter) else session.stored

    budget = unfinished or Unfinished(UNFINISHED_SIZE_MAX)
    conversation = Conversation(stream, kind(PACE), perform, PACE.send_seconds, budget)
    return conversation


async def converse(
    stream: trio.abc.Stream, kind: type, unfinished: Unfinished | None = None
) -> Conversation:
    """Talk as the broker does."""
    conversation = conversation_at(stream, kind, unfinished)
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
    stream = ScriptedStream(beginning(b"LOGIN x\n", b"nonsense\n" * 50))
    conversation = await converse(stream, session)
    assert conversation.closed_because == "it made nothing but mistakes"
    assert stream.sent.count(b"ERROR") == MISTAKES_MAX


@SESSIONS
async def test_who_asks_and_does_not_read_the_answers_is_ended_in_time(
    autojump_clock, session
) -> None:
    stream = ScriptedStream(beginning(b"LOGIN x\n", b"nonsense\n" * 1_000))
    stream.socket.is_stuck = True
    began = trio.current_time()
    conversation = await converse(stream, session)
    assert conversation.closed_because == "it did not take what was sent"
    assert len(conversation._outbox) < 100
    assert trio.current_time() - began <= PACE.send_seconds + 1


TWO_BYTE_LINES = b"a\n" * (RECEIVE_SIZE // 2)


class Crowd:
    """Connections of one broker, each with what its client says and hears."""

    def __init__(self, nursery: trio.Nursery, size_max: int = UNFINISHED_SIZE_MAX) -> None:
        self.unfinished = Unfinished(size_max)
        self.ended: list[trio.abc.Stream] = []
        self._nursery = nursery

    async def join(self, *said: bytes) -> trio.abc.Stream:
        """Connect, and say something."""
        ours, theirs = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._serve, theirs, ours)
        for each in said:
            await ours.send_all(each)
        return ours

    async def _serve(self, theirs: trio.abc.Stream, ours: trio.abc.Stream) -> None:
        conversation = await converse(theirs, PublisherSession, self.unfinished)
        await theirs.aclose()
        if conversation.closed_because is not None:
            self.ended.append(ours)


@asynccontextmanager
async def crowd(size_max: int = UNFINISHED_SIZE_MAX) -> AsyncIterator[Crowd]:
    async with trio.open_nursery() as nursery:
        yield Crowd(nursery, size_max)
        nursery.cancel_scope.cancel()


def test_a_body_of_tiny_lines_takes_no_more_memory_than_its_bytes() -> None:
    session, count = PublisherSession(PACE), 20_000
    session.receive(b"BEGIN tea\n")
    tracemalloc.start()
    for number in range(count):
        session.receive(b"%d\n" % (number % 10))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert session.held_size == 2 * count
    assert taken < 3 * session.held_size


class Turns(trio.abc.Instrument):
    """Counts the lines that are dealt with between two looks at the network."""

    def __init__(self) -> None:
        self.lines = self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most = max(self.most, self.lines)
        self.lines = 0


async def test_thousands_of_lines_at_once_leave_turns_to_others(autojump_clock, monkeypatch):
    turns, receive = Turns(), PublisherSession.receive

    def counted(session: PublisherSession, data: bytes) -> object:
        turns.lines += 1
        return receive(session, data)

    monkeypatch.setattr(PublisherSession, "receive", counted)
    trio.lowlevel.add_instrument(turns)
    async with crowd() as found:
        for _ in range(3):
            await found.join(b"BEGIN tea\n", TWO_BYTE_LINES)
        honest = await found.join(b"BEGIN tea\ngreen\nEND\nPUBREL\n")
        heard = b""
        while b"PUBCOMP" not in heard:
            heard += await honest.receive_some()
        assert found.unfinished.total > 2 * RECEIVE_SIZE  # the others are not through
        await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.remove_instrument(turns)
    assert turns.most <= 4 * LINES_AT_ONCE


async def test_the_largest_unfinished_message_makes_room_and_its_publisher_is_told(
    autojump_clock,
) -> None:
    line = b"x" * 999 + b"\n"
    async with crowd(100_000) as found:
        small = await found.join(b"BEGIN tea\n", line * 30)
        large = await found.join(b"LOGIN till\n", b"BEGIN tea id=1\n", line * 60)
        await trio.testing.wait_all_tasks_blocked()
        assert found.unfinished.total == 90_000
        idle = await found.join(b"BEGIN tea\n", line * 15)
        await trio.testing.wait_all_tasks_blocked()
        assert found.ended == [large]
        assert await large.receive_some() == f"OK ids\nERROR {UNFINISHED}\n".encode()
        assert found.unfinished.total == 45_000
        for each in (small, idle):
            await each.send_all(b"END\nPUBREL\n")
        await trio.testing.wait_all_tasks_blocked()
        assert found.unfinished.total == 0
        assert await small.receive_some() == b"PUBREC\nPUBCOMP\n"


async def test_who_is_cut_frees_its_memory_though_it_does_not_hear_of_it(autojump_clock) -> None:
    deaf = ScriptedStream(beginning(b"BEGIN tea\n", TWO_BYTE_LINES))
    deaf.socket.is_stuck = True
    conversation = conversation_at(deaf, PublisherSession, Unfinished(RECEIVE_SIZE))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(conversation.run)
        while conversation.closed_because is None:
            await trio.testing.wait_all_tasks_blocked()
        assert conversation.closed_because == UNFINISHED
        assert not deaf.socket.is_closed  # it may still be told
        assert conversation._session.held_size + len(conversation._decoder) == 0
        nursery.cancel_scope.cancel()


async def test_a_line_without_end_counts_as_unfinished(autojump_clock) -> None:
    async with crowd(1_000) as found:
        endless = await found.join(b"x" * 600)
        await found.join(b"x" * 500)
        await trio.testing.wait_all_tasks_blocked()
        assert found.ended == [endless]
