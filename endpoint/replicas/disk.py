"""Calls that wait for a disk: in threads, and with errors that say which backend they are about."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio

from endpoint.shielding import shielded
from endpoint.tasks import FINISH_SECONDS
from wire.errors import BackendFailure
from wire.logs import logger_of

Result = TypeVar("Result")


async def on_disk(
    function: Callable[..., Result],
    *arguments: object,
    limiter: trio.CapacityLimiter | None = None,
) -> Result:
    """Call something that waits for a disk; to be awaited by a task of the endpoint.

    The endpoint cancels its tasks only after it has waited for them. A thread that then still hangs
    in a dead disk is left to itself, since it would hold up the end of the process for ever.
    """
    return await trio.to_thread.run_sync(
        function, *arguments, abandon_on_cancel=True, limiter=limiter
    )


@asynccontextmanager
async def reading(
    load: Callable[[], Result], close: Callable[[], None]
) -> AsyncIterator[Callable[[], Awaitable[Result]]]:
    """Give a function that reads a backend in a thread, which the block then may own.

    If the block fails, the backend is closed. A caller that is cancelled while the disk is busy
    leaves at once, and the thread closes what it has read.
    """
    lock = threading.Lock()
    has_begun = has_ended = is_unwanted = False

    def run() -> Result:
        nonlocal has_ended
        try:
            return load()
        finally:
            with lock:
                has_ended = True
            if is_unwanted:
                close()

    async def read() -> Result:
        nonlocal has_begun
        has_begun = True
        return await on_disk(run)

    try:
        yield read
    except BaseException:
        with lock:
            is_unwanted = has_begun and not has_ended
        if not is_unwanted:
            with shielded("a file to be closed that is not needed", FINISH_SECONDS):
                await on_disk(close)
        raise


async def close_file(name: str, close: Callable[[], None]) -> None:
    """Close a backend; raises ``BackendFailure``, whatever it was that failed."""
    has_begun = False

    def run() -> None:
        nonlocal has_begun
        has_begun = True
        close()

    try:
        try:
            await on_disk(run)
        except RuntimeError:
            if has_begun:
                raise
            close()  # The system has no thread left: better a loop that waits than a locked file.
    except BackendFailure:
        raise
    except Exception as error:
        raise BackendFailure(f"{name}: its file is not closed: {describe(error)}") from error


def describe(error: Exception) -> str:
    """Say what failed; an error that no backend explains is told with its type."""
    if isinstance(error, BackendFailure):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} (the log has the traceback)"


def log_failure(kind: str, name: str, error: Exception) -> None:
    """Log that a backend failed; with a traceback if it does not explain why."""
    is_explained = isinstance(error, BackendFailure)
    logger = logger_of(f"peermesh.{kind}")
    logger.error("%s %s: %s", kind, name, error, exc_info=None if is_explained else error)
