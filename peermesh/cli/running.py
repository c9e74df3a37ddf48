"""Runs a command's async part, and ends it in order when a signal asks for that."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import BinaryIO, Final, TypeVar

import click
import trio

from wire.errors import MeshError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")


class Stopped(Exception):
    """A signal ended the command, and everything was put in order."""

    def __init__(self, number: int) -> None:
        """Remember which signal it was."""
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def run(function: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    """Run an async function to its end; raises its ``MeshError`` plainly, or ``Stopped``."""
    return trio.run(_run, function, *arguments)


async def _run(function: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    stopped: list[int] = []
    results: list[Result] = []

    async def stop(scope: trio.CancelScope) -> None:
        async for number in signals:
            stopped.append(number)
            scope.cancel()

    # The receiver outlives what it cancels: impatience must not cut off the way out.
    with trio.open_signal_receiver(*SIGNALS) as signals:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop, nursery.cancel_scope)
                results.append(await function(*arguments))
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _plain(group) from None
    if results:
        return results[0]
    raise Stopped(stopped[0])


def _plain(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Take the error for the user out of the groups that nurseries put around it.

    What click and the system say is theirs to tell in "run" of the application: a file that cannot
    be written, a broken pipe when who reads our output has enough of it.
    """
    errors = group.split((MeshError, click.ClickException, OSError))[0]
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]  # type: ignore[assignment]  # the group, or in the end its error
    return errors or group


async def read_stdin() -> AsyncIterator[bytes]:
    """Give the lines of stdin, with their ends; none if it was closed before we were started."""
    if sys.stdin is None:
        return  # Number 0 is another file by now.
    stdin = _open_stdin()
    while line := await trio.to_thread.run_sync(stdin.readline, abandon_on_cancel=True):
        yield line


def _open_stdin() -> BinaryIO:
    """Open stdin once more: a thread that is left behind in it must not hold ``sys.stdin``'s lock.

    Python takes that when it ends.
    """
    return open(os.dup(0), "rb")
