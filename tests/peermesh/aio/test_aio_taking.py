"""What a handle gives once, to a task that may be cancelled: nothing is lost, and nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest

from endpoint.mesh.status import StatusCode, StatusEvent
from peermesh import aio
from peermesh.testing.time_limits import limit
from tests.peermesh.aio.conftest import (
    Run,
    cancelled_after,
    cancelled_at,
    open_pair,
    tasks,
    until,
)
from wire.errors import ErrorCode

LATE = pytest.mark.parametrize("late", [False, True], ids=["early", "late"])


@dataclass
class Giver:
    """A handle that gives numbers once, in their order."""

    give: Callable[[int], Any]
    """Has it give a number."""
    take: Callable[..., Any]
    """Takes numbers, within a time limit."""


@asynccontextmanager
async def keeper_log() -> AsyncIterator[tuple[aio.Log, aio.Log]]:
    async with aio.Endpoint() as endpoint, endpoint.attach_log("l") as log:
        yield log, log


@asynccontextmanager
async def proxy_log() -> AsyncIterator[tuple[aio.Log, aio.Log]]:
    async with open_pair() as (left, right), left.attach_log("l") as log:
        async with right.attach_log_proxy("l") as proxy:
            yield log, proxy


@asynccontextmanager
async def entry_giver(logs: Callable[[], Any], *, batches: bool) -> AsyncIterator[Giver]:
    async with logs() as (log, read):
        consumer = read.consume("c")
        assert await consumer.positions() == {0: 0}

        async def take(timeout: float | None = None) -> list[Any]:
            if batches:
                return [each.value for each in await consumer.get_batch(timeout=timeout)]
            return [(await consumer.get(timeout)).value]

        yield Giver(log.append, take)


@asynccontextmanager
async def watch_giver() -> AsyncIterator[Giver]:
    async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
        watch = store.watch()
        assert isinstance(await watch.get(limit()), aio.Bookmark)

        async def take(timeout: float | None = None) -> list[Any]:
            item: Any = await watch.get(timeout)
            return [item.changes[0].entry.value]

        yield Giver(partial(store.put, "k"), take)


@asynccontextmanager
async def event_giver() -> AsyncIterator[Giver]:
    async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
        events = store.events()

        async def take(timeout: float | None = None) -> list[Any]:
            event: Any = await events.get(timeout)
            return [event.after]

        yield Giver(partial(store.put, "k"), take)


@asynccontextmanager
async def status_giver() -> AsyncIterator[Giver]:
    async with aio.Endpoint() as endpoint:
        subscriber = endpoint.subscribe_status(StatusCode.CALLBACK_FAILED)

        async def give(number: int) -> None:
            status, code = StatusCode.CALLBACK_FAILED, ErrorCode.UNSPECIFIED
            event = StatusEvent(status, None, None, code, str(number))
            subscriber._status_subscriber.push(event)

        async def take(timeout: float | None = None) -> list[Any]:
            return [int((await subscriber.get(timeout)).reason)]

        yield Giver(give, take)


@asynccontextmanager
async def election_giver() -> AsyncIterator[Giver]:
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(aio.Endpoint(name="a"))
        store = await endpoint.attach_replica("s", voters=["a"])
        assert await store.await_leader(limit()) == "a"
        elections = store.elections("n")
        assert await elections.get(limit()) is None
        lead = await stack.enter_async_context(AsyncExitStack())

        async def give(number: int) -> None:
            await lead.aclose()
            await lead.enter_async_context(store.elect("n", value=number, ttl=30))

        async def take(timeout: float | None = None) -> list[Any]:
            elected = await elections.get(timeout)
            return [] if elected is None else [elected.value]

        yield Giver(give, take)


GIVERS: dict[str, Callable[[], Any]] = {
    "consumer of a keeper": partial(entry_giver, keeper_log, batches=False),
    "consumer of a keeper, batches": partial(entry_giver, keeper_log, batches=True),
    "consumer of a proxy": partial(entry_giver, proxy_log, batches=False),
    "consumer of a proxy, batches": partial(entry_giver, proxy_log, batches=True),
    "watch": watch_giver,
    "events": event_giver,
    "status": status_giver,
    "elections": election_giver,
}


async def take_to(giver: Giver, last: int, got: list[int]) -> None:
    """Take until the last number has come; all have come in their order, and once."""
    async with asyncio.timeout(limit()):
        while not got or got[-1] != last:
            got += await giver.take()
    assert got == list(range(last + 1))


class Waiting:
    """Takes from a giver, which gives a number once it is waited for in trio."""

    def __init__(self, giver: Giver, number: int) -> None:
        self._giver, self._number = giver, number
        self._before = tasks()
        self._is_over = False
        self._giving = asyncio.create_task(self._give())

    async def _give(self) -> None:
        await until(lambda: self._is_over or tasks() > self._before)
        await self._giver.give(self._number)

    async def take(self) -> list[int]:
        try:
            found: list[int] = await self._giver.take()
            return found
        finally:
            self._is_over = True

    async def over(self) -> None:
        self._is_over = True
        await self._giving


@pytest.mark.parametrize("what", GIVERS)
def test_a_task_that_takes_may_be_cancelled_after_each_step(run: Run, what: str) -> None:
    async def main() -> None:
        async with GIVERS[what]() as giver:
            got: list[int] = []
            for number in count():
                waiting = Waiting(giver, number)
                was_cancelled, found = await cancelled_after(waiting.take, number + 1)
                got += found or []
                await waiting.over()
                await take_to(giver, number, got)
                if not was_cancelled:
                    break
            assert number, "it was cancelled nowhere"

    run(main)


@LATE
@pytest.mark.parametrize("what", GIVERS)
def test_a_task_that_is_cancelled_has_taken_nothing(run: Run, what: str, late: bool) -> None:
    async def main() -> None:
        async with GIVERS[what]() as giver:
            got: list[int] = []
            for number in range(5):
                waiting = Waiting(giver, number)
                assert await cancelled_at(waiting.take, 1, late=late) == (True, None)
                await waiting.over()
                await take_to(giver, number, got)

    run(main)


@pytest.mark.parametrize("what", GIVERS)
def test_a_time_limit_that_passes_as_something_comes_loses_nothing(run: Run, what: str) -> None:
    async def main() -> None:
        async with GIVERS[what]() as giver:
            got: list[int] = []
            for number in range(50):
                giving = asyncio.create_task(giver.give(number))
                while not giving.done():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.0003):
                            got += await giver.take()
                await giving
                await take_to(giver, number, got)

    run(main)


@pytest.mark.parametrize("logs", [keeper_log, proxy_log])
@pytest.mark.parametrize("read", ["get", "get_batch"])
def test_a_commit_after_a_read_that_was_cancelled_passes_over_nothing(
    run: Run, logs: Callable[[], Any], read: str
) -> None:
    async def main() -> None:
        async with logs() as (log, read_log):
            for number in range(3):
                await (await log.append(number)).applied()
            for steps in count(1):
                name = f"c{steps}"
                consumer = read_log.consume(name)
                was_cancelled, _ = await cancelled_after(getattr(consumer, read), steps)
                if not was_cancelled:
                    break
                await (await consumer.commit()).applied()
                restarted = await read_log.consume(name).get_batch(timeout=limit())
                assert [each.value for each in restarted] == [0, 1, 2]
                assert [each.value for each in await consumer.get_batch(timeout=limit())] == [
                    0,
                    1,
                    2,
                ]
            assert steps > 1, "it was cancelled nowhere"

    run(main)


@pytest.mark.parametrize(
    "what", ["consumer of a keeper", "consumer of a proxy", "watch", "events", "status"]
)
def test_of_tasks_that_wait_for_one_handle_each_item_goes_to_one(run: Run, what: str) -> None:
    async def main() -> None:
        async with GIVERS[what]() as giver:
            before = tasks()
            waiting = [asyncio.create_task(giver.take()) for _ in range(3)]
            got: list[int] = []
            for number in range(3):
                await until(lambda: tasks() == before + len(waiting))
                await giver.give(number)
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                (taken,) = done
                waiting.remove(taken)
                got += taken.result()
            assert got == [0, 1, 2]

    run(main)


def test_an_election_that_is_over_before_it_was_taken_is_not_given(run: Run) -> None:
    async def main() -> None:
        async with election_giver() as giver:
            waiting = Waiting(giver, 0)
            assert await cancelled_at(waiting.take, 1, late=True) == (True, None)
            await waiting.over()
            await giver.give(1)
            assert await giver.take(limit()) == [1]

    run(main)


@pytest.mark.parametrize("what", GIVERS)
def test_time_is_up_where_nothing_comes(run: Run, what: str) -> None:
    async def main() -> None:
        async with GIVERS[what]() as giver:
            before = tasks()
            if what.endswith("batches"):
                assert await giver.take(0.01) == []
            else:
                with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
                    await giver.take(0.01)
            assert tasks() == before

    run(main)
