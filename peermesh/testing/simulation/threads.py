"""Threads, in a simulation: what is given to trio's worker threads runs in a step of its own."""

from __future__ import annotations

import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final, TypeVar, cast

import trio

T = TypeVar("T")

WORK_SECONDS_MAX: Final = 0.002
"""What a call takes that a thread would make, at most: as long as a disk needs to sync."""


class ThreadRefused(Exception):  # a fact about the code under test
    """A thread was to be started, which no seed can order."""


@contextmanager
def inline_threads(chance: Random) -> Iterator[None]:
    """Run what ``trio.to_thread.run_sync`` is given in the trio thread, a drawn moment later.

    Whoever starts threads past it gets ``ThreadRefused``. Other threads' trio is left alone.
    """
    mine = threading.get_ident()
    run_sync, start_thread_soon = trio.to_thread.run_sync, trio.lowlevel.start_thread_soon

    async def run_inline(
        function: Callable[..., T],
        *arguments: object,
        abandon_on_cancel: bool = False,
        **rest: object,
    ) -> T:
        if threading.get_ident() != mine:
            call: Callable[..., Awaitable[T]] = run_sync
            return await call(function, *arguments, abandon_on_cancel=abandon_on_cancel, **rest)
        await trio.lowlevel.checkpoint_if_cancelled()
        with trio.CancelScope(shield=not abandon_on_cancel):
            await trio.sleep(chance.random() * WORK_SECONDS_MAX)
        return function(*arguments)

    def refuse(*arguments: object, **options: object) -> None:
        if threading.get_ident() != mine:
            cast("Callable[..., None]", start_thread_soon)(*arguments, **options)
            return
        raise ThreadRefused(
            "no threads in a simulation, as no seed orders them: use trio.to_thread.run_sync, "
            "which runs in a step of its own here, or test this outside"
        )

    trio.to_thread.run_sync, trio.lowlevel.start_thread_soon = run_inline, refuse  # type: ignore[assignment]  # for the time of the run
    try:
        yield
    finally:
        trio.to_thread.run_sync, trio.lowlevel.start_thread_soon = run_sync, start_thread_soon


@contextmanager
def collection_off() -> Iterator[None]:
    """Collect no garbage within the block: finalizers would run at moments that no seed chose."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
