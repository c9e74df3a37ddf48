"""Scripts that run in each door: written once, as generators that give what may have to wait.

A script gives each result of a call that waits somewhere, and each block that it uses, and takes
what comes of it. So one suite tests trio, threads, and asyncio with two kinds of loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from inspect import isawaitable
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import trio

import peermesh
from peermesh import aio, blocking


class Block(NamedTuple):
    """What has to be entered, and is left at the end of the script."""

    manager: Any


class Raised(NamedTuple):
    """What a call raised that a script has asked for with ``Try``."""

    error: Exception


class Try(NamedTuple):
    """A call whose error the script wants to see."""

    call: Callable[[], Any]


Steps = Generator[Any, Any, Any]
"""A script at work."""

Script = Callable[..., Steps]
"""Is called with the door, and maybe more."""


@contextmanager
def played(steps: Steps) -> Iterator[Any]:
    """Run a script in threads; what it returns is there for the block."""
    with ExitStack() as stack:
        came: Any = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                result = done.value
                break
            if isinstance(step, Block):
                came = stack.enter_context(step.manager)
            elif isinstance(step, Try):
                try:
                    came = step.call()
                except Exception as error:
                    came = Raised(error)
            else:
                came = step
        yield result


@asynccontextmanager
async def played_async(steps: Steps) -> AsyncIterator[Any]:
    """Run a script in a task of trio or asyncio; what it returns is there for the block."""
    async with AsyncExitStack() as stack:
        came: Any = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as done:
                result = done.value
                break
            if isinstance(step, Block):
                is_sync = not hasattr(step.manager, "__aenter__")
                enter = stack.enter_context if is_sync else stack.enter_async_context
                came = enter(step.manager)
                came = came if is_sync else await came
            elif isinstance(step, Try):
                try:
                    came = step.call()
                    came = await came if isawaitable(came) else came
                except Exception as error:
                    came = Raised(error)
            else:
                came = await step if isawaitable(step) else step
        yield result


async def _play(steps: Steps) -> Any:
    async with played_async(steps) as result:
        return result


def run_in_asyncio(
    function: Callable[..., Coroutine[Any, Any, Any]], *arguments: object, loop: str = "asyncio"
) -> Any:
    """Run an async function in a loop of its own, of asyncio or uvloop."""
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(function(*arguments))


class Door(NamedTuple):
    """A door, and a way to run a script in it."""

    api: ModuleType
    loop: str = ""

    def run(self, script: Script, *values: object) -> Any:
        """Run a script; gives what it returns."""
        steps = script(self.api, *values)
        if self.api is blocking:
            with played(steps) as result:
                return result
        if self.api is aio:
            return run_in_asyncio(_play, steps, loop=self.loop)
        return trio.run(_play, steps)


DOORS = {
    "trio": Door(peermesh),
    "blocking": Door(blocking),
    "asyncio": Door(aio, "asyncio"),
    "uvloop": Door(aio, "uvloop"),
}
