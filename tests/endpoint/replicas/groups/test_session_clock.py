"""What a holder counts, by a clock that the test owns: from the sending of its renewals."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio

from endpoint.replicas.stores.session import Session
from stores.table.bodies import OpenSession, SessionGranted, SessionHeard
from wire.errors import NoQuorum, NotAllowed, SessionExpired

TTL = 6


async def passed(seconds: float) -> None:
    """Let the test's own clock go on."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


class Group:
    """Answers after a while, as long as it does at all."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.runner = SimpleNamespace(name="s", error=None, start_task=nursery.start_soon)
        self.seconds = 1.0
        self.is_late = False
        """It answers however long the holder wanted to wait."""
        self.error: Exception | None = None
        self.asked: list[float] = []

    async def ask(self, request: object, seconds: float) -> object:
        self.asked.append(trio.current_time())
        if self.error is not None:
            raise self.error
        with trio.move_on_after(math.inf if self.is_late else seconds):
            await passed(self.seconds)
            is_opening = isinstance(request, OpenSession)
            return SessionGranted(7) if is_opening else SessionHeard(is_alive=True)
        raise NoQuorum("nothing is heard")


@asynccontextmanager
async def opened():
    async with trio.open_nursery() as nursery:
        group = Group(nursery)
        session = Session(group, None, b"", TTL)
        await session.open()
        yield group, session
        nursery.cancel_scope.cancel()


async def test_a_holder_counts_from_the_sending_of_what_was_acknowledged(autojump_clock) -> None:
    began = trio.current_time()
    async with opened() as (group, session):
        await passed(4)
        assert [at - began for at in group.asked] == [0, 3]  # Heard at 1, and renewed at 4.
        group.seconds = 100.0
        await session.wait_lost()
        assert trio.current_time() - began == 3 + TTL
        with pytest.raises(SessionExpired, match="within 6 s"):
            session.check()


async def test_an_answer_that_comes_too_late_brings_nothing_back(autojump_clock) -> None:
    async with opened() as (group, session):
        group.is_late, group.seconds = True, TTL + 1
        await session.wait_lost()
        assert not session.is_alive
        await passed(TTL)
        assert not session.is_alive
        assert len(group.asked) == 2


async def test_it_is_over_by_the_clock_before_any_task_says_so(autojump_clock) -> None:
    async with opened() as (_, session):
        session._until = trio.current_time()
        assert not session.is_alive


async def test_a_right_that_is_taken_ends_a_session_by_its_time(autojump_clock) -> None:
    async with opened() as (group, session):
        group.error = NotAllowed("it may not write")
        began = trio.current_time()
        await session.wait_lost()
        assert trio.current_time() - began == TTL - 1  # It was opened a second before.
        assert len(group.asked) < 10


async def test_an_endpoint_that_closes_loses_its_sessions(autojump_clock) -> None:
    async with opened() as (group, session):
        group.runner.error = group.error = NoQuorum("it was closed")
        await session.wait_lost()
        await session.close()
