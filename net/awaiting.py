"""Awaits one wake-up in the world of the task that waits: trio's, or asyncio's.

What is handed out by an endpoint may be awaited wherever the program has its tasks: the endpoint's
own thread wakes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from trio.lowlevel import TrioToken, current_trio_token, in_trio_run, in_trio_task

from net.wakeup import Wakeup

Register = Callable[[Callable[[], None]], object]
"""Is given a function to call once, from any thread: a task that waits goes on then."""


def runs_here(run: TrioToken) -> bool:
    """Whether this thread has this run of trio: a call that waits in it for the run never ends."""
    return in_trio_run() and current_trio_token() is run


async def wake_up(register: Register) -> None:
    """Wait until the function is called that ``register`` is given."""
    if in_trio_task():
        wakeup = Wakeup()
        register(wakeup.wake)
        await wakeup.wait()
    else:
        await _wake_up_in_asyncio(register)


async def _wake_up_in_asyncio(register: Register) -> None:
    import asyncio  # trio's programs do without it

    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not future.done():  # Else the task was cancelled.
            future.set_result(None)

    def wake() -> None:
        if threading.get_ident() == thread:
            settle()
        else:
            with suppress(RuntimeError):  # The loop is closed: nothing waits in it any more.
                loop.call_soon_threadsafe(settle)

    register(wake)
    await future
