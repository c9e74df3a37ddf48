"""What tests of the asyncio API share: both kinds of loop, and what is left in one."""

from __future__ import annotations

import asyncio
import gc
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from peermesh import aio
from peermesh.testing.time_limits import limit
from tests.doors import run_in_asyncio

Run = Callable[..., Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run an async function in a loop of its own."""
    return partial(run_in_asyncio, loop=request.param)


@asynccontextmanager
async def open_pair() -> AsyncIterator[tuple[aio.Endpoint, aio.Endpoint]]:
    """Two peers."""
    async with aio.Endpoint() as left, aio.Endpoint() as right:
        assert await left.peer("127.0.0.1", await right.listen(), timeout=limit())
        yield left, right


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let the loop go round once."""
    yield


async def until(is_true: Callable[[], object]) -> None:
    """Let everything work until something is true, as long as the test may take."""
    async with asyncio.timeout(limit()):
        while not is_true():
            await turn()


def tasks() -> int:
    """Count the tasks of trio in this thread."""
    return trio.lowlevel.current_statistics().tasks_living


class CancelledAt:
    """Awaits a coroutine, and has its task cancelled at one of its waits.

    At the beginning of the wait; or if it is ``late``, when what it waits for has just come.
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, Any], wait: int, *, late: bool = False
    ) -> None:
        self._coroutine = coroutine
        self._wait = wait
        self._late = late
        self.waits = 0

    def __await__(self) -> Any:
        inner, error = self._coroutine.__await__(), None
        while True:
            try:
                awaited = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as stop:
                return stop.value
            self.waits += 1
            if self.waits == self._wait:
                self._cancel(asyncio.current_task(), awaited)
            error = None
            try:
                yield awaited
            except BaseException as raised:
                error = raised

    def _cancel(self, task: Any, awaited: Any) -> None:
        if not self._late:
            task.cancel()
        elif awaited is None:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            awaited.add_done_callback(lambda _: task.cancel())


async def cancelled_at(
    make: Callable[[], Coroutine[Any, Any, Any]], wait: int, *, late: bool
) -> tuple[bool, Any]:
    """Tell whether a coroutine was cancelled at a wait that it has, and else what it gave."""

    async def go() -> Any:
        return await CancelledAt(make(), wait, late=late)

    task = asyncio.create_task(go())
    await asyncio.wait((task,), timeout=limit())
    assert task.done(), "it goes on although it was cancelled"
    return (True, None) if task.cancelled() else (False, task.result())


class CancelsAfter(trio.abc.Instrument):
    """Cancels a task of asyncio after so many steps that tasks of trio take."""

    def __init__(self, task: asyncio.Task[Any], steps: int) -> None:
        self._task = task
        self._steps = steps

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._steps -= 1
        if self._steps == 0:
            self._task.cancel()


async def cancelled_after(
    make: Callable[[], Coroutine[Any, Any, Any]], steps: int
) -> tuple[bool, Any]:
    """Tell whether a coroutine was cancelled after so many steps of trio, or what it gave before.

    Turns of the asyncio loop would be no measure: it makes any number of them while a thread works.
    """
    task = asyncio.create_task(make())
    cancels = CancelsAfter(task, steps)
    trio.lowlevel.add_instrument(cancels)
    try:
        await asyncio.wait((task,), timeout=limit())
    finally:
        trio.lowlevel.remove_instrument(cancels)
    assert task.done(), "it goes on although it was cancelled"
    return (True, None) if task.cancelled() else (False, task.result())


@pytest.fixture(autouse=True)
def nothing_left() -> Any:
    """See to it that no run of trio is left in this thread."""
    yield
    gc.collect()
    assert not trio.lowlevel.in_trio_run()
