"""A room: what becomes of the calls in it, whatever ends it, and that it ends alone."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import outcome
import pytest
import trio

from endpoint import Endpoint
from peermesh.doors.room import Room
from peermesh.errors import EndpointClosed, EndpointFailed
from peermesh.testing.time_limits import limit


class Told:
    """What was told of a call."""

    def __init__(self) -> None:
        self.results: list[outcome.Outcome[Any]] = []
        self.is_told = trio.Event()

    def __call__(self, result: outcome.Outcome[Any]) -> None:
        self.results.append(result)
        self.is_told.set()

    async def result(self) -> Any:
        with trio.fail_after(limit()):
            await self.is_told.wait()
        (result,) = self.results
        return result.unwrap()


class Lodging:
    """A room that lives, and what its endpoint does at the end."""

    def __init__(self) -> None:
        self.core = Endpoint(name="lodger")
        self.room = Room(self.core)
        self.opened = Told()
        self.left = 0
        self.over = trio.Event()

    async def live(self, *tasks: Any) -> None:
        await self.room.live(self.opened, self.leave, *tasks)
        self.over.set()

    async def leave(self) -> None:
        self.left += 1
        await self.core.shutdown(0)

    async def end(self) -> None:
        with trio.fail_after(limit()):
            await self.over.wait()


@asynccontextmanager
async def lodging(*tasks: Any) -> AsyncIterator[Lodging]:
    async with trio.open_nursery() as nursery:
        found = Lodging()
        nursery.start_soon(found.live, *tasks)
        await found.opened.result()
        yield found
        found.room.close()
        await found.end()


async def give(value: object) -> object:
    await trio.lowlevel.checkpoint()
    return value


async def fail() -> None:
    raise ArithmeticError("of a call")


async def test_calls_are_told_what_came_of_them_and_the_room_goes_on() -> None:
    async with lodging() as at:
        assert at.room.is_over is False
        for _ in range(2):
            good, bad, seen, blind = Told(), Told(), Told(), Told()
            at.room.begin(partial(give, 7), good)
            at.room.begin(fail, bad)
            assert await good.result() == 7
            with pytest.raises(ArithmeticError, match="of a call"):
                await bad.result()
            at.room.look(lambda: 8, seen)
            at.room.look(lambda: [][0], blind)
            assert await seen.result() == 8
            with pytest.raises(IndexError):
                await blind.result()
        assert at.room.failure is None
        assert not at.room.is_over
    assert at.left == 1
    assert at.room.is_over
    assert at.room.failure is None


async def test_a_call_waits_only_as_long_as_its_room_and_tasks_end_with_it() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("task")

    async with lodging(work, work) as at:
        pending = Told()
        at.room.begin(trio.sleep_forever, pending)
        await trio.testing.wait_all_tasks_blocked()
        assert pending.results == []
        assert ended == []
    assert ended == ["task", "task"]
    late, look = Told(), Told()
    at.room.begin(partial(give, 1), late)
    at.room.look(lambda: 1, look)
    for told in (pending, late, look):
        with pytest.raises(EndpointClosed, match=r"was shut down: make a new one") as found:
            await told.result()
        assert not isinstance(found.value, EndpointFailed)


async def test_a_call_before_the_room_lives_is_told_of_its_end() -> None:
    at = Lodging()
    early = Told()
    at.room.begin(partial(give, 1), early)
    at.room.close()
    await at.live()
    await at.opened.result()
    with pytest.raises(EndpointClosed):
        await early.result()


async def test_a_call_that_is_cancelled_is_told_nothing() -> None:
    async with lodging() as at:
        ended = trio.Event()

        async def wait() -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.set()

        told, other = Told(), Told()
        at.room.begin(wait, told)
        at.room.begin(wait, other)
        await trio.testing.wait_all_tasks_blocked()
        at.room.cancel(told)
        at.room.cancel(told)
        at.room.cancel(Told())
        with trio.fail_after(limit()):
            await ended.wait()
        assert other.results == []
        after = Told()
        at.room.begin(partial(give, 1), after)
        assert await after.result() == 1
    assert told.results == []
    with pytest.raises(EndpointClosed):
        await other.result()


async def test_a_call_that_gives_its_result_as_the_room_ends_is_told_once() -> None:
    async with lodging() as at:
        told = Told()

        async def stubborn() -> int:
            with trio.CancelScope(shield=True):
                await at.room_closes.wait()
            return 3

        at.room_closes = trio.Event()  # type: ignore[attr-defined]  # for the test alone
        at.room.begin(stubborn, told)
        await trio.testing.wait_all_tasks_blocked()
        at.room.close()
        await trio.testing.wait_all_tasks_blocked()
        at.room_closes.set()  # type: ignore[attr-defined]  # for the test alone
        assert await told.result() == 3


async def test_a_call_that_is_cancelled_and_ends_all_the_same_is_told_nothing() -> None:
    async with lodging() as at:
        told, goes_on, ended = Told(), trio.Event(), trio.Event()

        async def stubborn() -> None:
            with trio.CancelScope(shield=True):
                await goes_on.wait()
            ended.set()

        at.room.begin(stubborn, told)
        await trio.testing.wait_all_tasks_blocked()
        at.room.cancel(told)
        goes_on.set()
        await ended.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert at.room.failure is None
    assert told.results == []


async def test_a_call_that_a_task_makes_as_it_is_cancelled_is_told_of_the_end() -> None:
    late = Told()

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            at.room.begin(partial(give, 1), late)

    async with lodging(work) as at:
        await trio.testing.wait_all_tasks_blocked()
    assert at.room.failure is None
    with pytest.raises(EndpointClosed, match="was shut down"):
        await late.result()


@pytest.mark.parametrize("is_quiet", [False, True])
async def test_an_endpoint_that_fails_ends_its_room_alone(
    is_quiet: bool, caplog: pytest.LogCaptureFixture
) -> None:
    go = trio.Event()

    async def break_down() -> None:
        await go.wait()
        raise ArithmeticError("of a task")

    with caplog.at_level(logging.DEBUG, "peermesh"):
        async with trio.open_nursery() as nursery:
            at = Lodging()
            assert at.room.is_quiet is False
            if is_quiet:
                at.room.is_quiet = True
            nursery.start_soon(at.live, break_down)
            await at.opened.result()
            pending = Told()
            at.room.begin(trio.sleep_forever, pending)
            go.set()
            await at.end()
    assert at.room.is_over
    assert at.left == 0
    assert isinstance(at.room.failure, ArithmeticError), "it was in groups of one"
    with pytest.raises(EndpointFailed, match=r"ArithmeticError\('of a task'\).*make a new") as told:
        await pending.result()
    assert told.value.__cause__ is at.room.failure
    (record,) = (each for each in caplog.records if "ended by an error" in each.message)
    assert record.levelno == (logging.DEBUG if is_quiet else logging.ERROR)
    assert at.core.names.full(at.core.node_id()) in record.message
    assert record.exc_info
    assert record.exc_info[1] is at.room.failure


async def test_an_endpoint_that_does_not_open_says_why() -> None:
    at = Lodging()
    async with at.core:
        await at.live()
    assert at.room.is_over
    with pytest.raises(EndpointFailed) as found:
        await at.opened.result()
    assert found.value.__cause__ is at.room.failure


async def test_several_errors_at_once_stay_a_group() -> None:
    go, both = trio.Event(), ExceptionGroup("two", [ArithmeticError("1"), ArithmeticError("2")])

    async def break_down() -> None:
        await go.wait()
        raise both

    async with trio.open_nursery() as nursery:
        at = Lodging()
        nursery.start_soon(at.live, break_down)
        await at.opened.result()
        go.set()
        await at.end()
    assert isinstance(at.room.failure, ExceptionGroup)
    assert at.room.failure.exceptions == both.exceptions, "groups of one were taken off"


async def test_what_is_guarded_ends_its_room_and_not_who_calls_it() -> None:
    async with lodging() as at:
        done: list[int] = []
        at.room.guarded(partial(done.append, 1))()
        assert done == [1]
        assert at.room.failure is None
        pending = Told()
        at.room.begin(trio.sleep_forever, pending)
        at.room.guarded(lambda: [][0])()
        at.room.guarded(lambda: {}[0])()
        assert isinstance(at.room.failure, IndexError), "the first one says why"
        await at.end()
        with pytest.raises(EndpointFailed, match="IndexError"):
            await pending.result()
    assert at.left == 0


async def test_what_is_guarded_may_fail_before_the_room_lives() -> None:
    room = Room(Endpoint())
    room.guarded(lambda: [][0])()
    assert isinstance(room.failure, IndexError)
    assert not room.is_over


async def test_a_run_that_is_cancelled_takes_the_room_with_it() -> None:
    at = Lodging()
    pending = Told()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(at.live)
        await at.opened.result()
        at.room.begin(trio.sleep_forever, pending)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert not at.over.is_set(), "live raised Cancelled"
    assert not at.room.is_over, "died says why"
    assert pending.results == []
    error = RuntimeError("the run is gone")
    at.room.died(error)
    assert at.room.is_over
    assert at.room.failure is error
    late = Told()
    at.room.begin(partial(give, 1), late)
    with pytest.raises(EndpointFailed, match="the run is gone"):
        await late.result()


async def test_a_group_of_errors_with_a_cancellation_is_the_end_of_the_run() -> None:
    at = Lodging()

    async def break_down() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ArithmeticError("while it is cancelled")

    async def live_until_cancelled() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at.live, break_down)
            await at.opened.result()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    with pytest.raises(BaseExceptionGroup) as found:
        await live_until_cancelled()
    assert found.group_contains(ArithmeticError)
    assert not at.room.is_over
