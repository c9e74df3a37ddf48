"""What a holder counts, by a clock that the test owns: from the sending of its renewals."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from endpoint.replicas.stores.locks import LOCK, Lock, Wanted
from endpoint.replicas.stores.session import END_SECONDS, OPEN_SECONDS, Session
from stores.table.bodies import (
    EndSession,
    OpenSession,
    RenewSession,
    SessionGranted,
    SessionHeard,
)
from stores.table.codec import NONCE_SIZE
from wire.errors import NoQuorum, NotAllowed, RequestTimeout, SessionExpired, StoreError

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
        self.requests: list[object] = []
        self.answering: Callable[[], object] = bool
        """Called in the turn in which it answers."""
        self.is_alive = True
        self.session: int | None = 7
        self.held: list[Callable[[], None]] = []
        """Told when the store is closed."""

    def hold(self, lose: Callable[[], None]) -> None:
        self.held.append(lose)

    def let_go(self, lose: Callable[[], None]) -> None:
        self.held.remove(lose)

    async def ask(self, request: object, seconds: float) -> object:
        self.asked.append(trio.current_time())
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        with trio.move_on_after(math.inf if self.is_late else seconds):
            await passed(self.seconds)
            self.answering()
            if isinstance(request, OpenSession):
                return SessionGranted(self.session)
            return SessionHeard(is_alive=self.is_alive)
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


async def test_a_session_that_is_over_is_told_nothing_of_its_store(autojump_clock) -> None:
    async with opened() as (group, session):
        (lose,) = group.held
        await session.close()
        await trio.testing.wait_all_tasks_blocked()
        assert not group.held
        lose()
        with pytest.raises(SessionExpired, match="it was closed"):
            session.check()


async def test_a_session_whose_store_is_closed_renews_nothing_more(autojump_clock) -> None:
    async with opened() as (group, session):
        (lose,) = group.held
        group.runner.error = group.error = NoQuorum("it was closed")
        lose()
        await session.wait_lost()
        await passed(TTL)
        assert not group.held
        assert len(group.requests) == 1


async def test_a_session_that_the_group_has_ended_is_not_ended_again(autojump_clock) -> None:
    async with opened() as (group, session):
        group.is_alive = False
        await session.wait_lost()
        await session.close()
        assert [type(each) for each in group.requests] == [OpenSession, RenewSession]


async def test_a_session_that_was_heard_of_too_late_is_ended(autojump_clock) -> None:
    async with opened() as (group, session):
        group.error = NoQuorum("nothing is heard")
        await session.wait_lost()
        group.error, group.requests = None, []
        await session.close()
        await trio.testing.wait_all_tasks_blocked()
        assert group.requests == [EndSession(7)]


# -- an opening that is given up -------------------------------------------------------------------


@asynccontextmanager
async def closed():
    """Give a group that answers, and a session with it that is not open."""
    async with trio.open_nursery() as nursery:
        group = Group(nursery)
        yield group, Session(group, None, b"drawn", TTL)
        nursery.cancel_scope.cancel()


async def test_what_a_cancelled_opening_may_have_opened_is_ended(autojump_clock) -> None:
    async with closed() as (group, session):
        with trio.move_on_after(0.5):
            await session.open()
        await passed(2.5)
        request = OpenSession(b"drawn", TTL * 10**9)
        assert group.requests == [request, request, EndSession(7)]
        with pytest.raises(SessionExpired, match="not open"):
            session.check()


@pytest.mark.parametrize("is_answered", [False, True])
async def test_an_opening_that_is_closed_meanwhile_is_told_so_and_ended(
    autojump_clock, is_answered
) -> None:
    async with closed() as (group, session), trio.open_nursery() as nursery:
        if is_answered:
            group.answering = session.give_up

        async def begin() -> None:
            with pytest.raises(SessionExpired, match="a session of store s is over: it was closed"):
                await session.open()

        nursery.start_soon(begin)
        await passed(0.5)
        if not is_answered:
            await session.close()
        await passed(3)
        assert [type(each) for each in group.requests] == [OpenSession, OpenSession, EndSession]


async def test_an_opening_in_vain_may_be_done_again_as_another_one(autojump_clock) -> None:
    async with closed() as (group, session):
        group.seconds = 100.0
        began = trio.current_time()
        with pytest.raises(NoQuorum):
            await session.open()
        assert trio.current_time() - began == OPEN_SECONDS
        group.seconds = 1.0
        await session.open()
        assert session.is_alive
        await passed(1.5)
        first, other, again, end = group.requests
        assert first == again
        assert other.nonce != first.nonce, "it would be ended with the one that is given up"
        assert len(other.nonce) == NONCE_SIZE
        assert end == EndSession(7)


async def test_what_cannot_be_taken_back_is_left_to_its_time(autojump_clock) -> None:
    async with closed() as (group, session):
        group.seconds = 100.0
        with trio.move_on_after(0.5):
            await session.open()
        await passed(END_SECONDS + 1)
        assert [type(each) for each in group.requests] == [OpenSession, OpenSession]


@pytest.mark.parametrize("is_over", [False, True])
async def test_nothing_is_taken_back_where_nothing_was_opened(autojump_clock, is_over) -> None:
    async with closed() as (group, session):
        if is_over:
            group.error = group.runner.error = NoQuorum("it was closed")
        else:
            group.error = NotAllowed("it may not write")
        with pytest.raises(StoreError):
            await session.open()
        await passed(1)
        assert len(group.requests) == 1


async def test_nothing_is_ended_where_the_group_has_no_room(autojump_clock) -> None:
    async with closed() as (group, session):
        group.session = None
        with trio.move_on_after(0.5):
            await session.open()
        await passed(3)
        assert [type(each) for each in group.requests] == [OpenSession, OpenSession]


@pytest.mark.parametrize(
    ("timeout", "error", "seconds"),
    [
        (1, RequestTimeout, 1),
        (OPEN_SECONDS + 1, NoQuorum, OPEN_SECONDS),
        (None, NoQuorum, OPEN_SECONDS),
        (0, NoQuorum, OPEN_SECONDS),
    ],
)
async def test_a_lock_is_opened_within_its_time(autojump_clock, timeout, error, seconds) -> None:
    async with trio.open_nursery() as nursery:
        group = Group(nursery)
        group.seconds = 100.0
        lock = Lock(group, None, b"", TTL, Wanted(None, (LOCK, "it"), None, timeout))
        began = trio.current_time()
        with pytest.raises(error) as found:
            await lock.open()
        assert trio.current_time() - began == seconds
        if error is RequestTimeout:
            assert str(found.value) == "lock it of store s: not within 1 s"
            assert isinstance(found.value.__cause__, NoQuorum)
        nursery.cancel_scope.cancel()


async def test_what_is_left_of_a_locks_time_is_for_its_queue(autojump_clock) -> None:
    async with trio.open_nursery() as nursery:
        group = Group(nursery)
        lock = Lock(group, lambda _: passed(100), b"", TTL, Wanted(None, (LOCK, "it"), None, 3))
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match="not within 3 s"):
            await lock.open()
        assert trio.current_time() - began == 3  # One of them until it was open.
        nursery.cancel_scope.cancel()
