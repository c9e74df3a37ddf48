"""Runs a command's async part, and ends it in order when a signal asks for that."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TextIO, TypeVar

import click

from peermesh.cli.exits import CommandFailed
from peermesh.cli.output import say
from peermesh.cli.stderr import has_room
from wire.errors import MeshError

if TYPE_CHECKING:
    import trio

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LONG_END_SECONDS: Final = 1.0
"""An orderly end that takes longer is told of, with how to do without."""

Result = TypeVar("Result")


class Stopped(Exception):
    """A signal ended the command, and everything was put in order."""

    def __init__(self, number: int) -> None:
        """Remember which signal it was."""
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def run(function: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
    """Run an async function to its end; raises its ``MeshError`` plainly, or ``Stopped``.

    A first signal ends it in order. A second one ends the process at once, whatever hangs.
    """
    import trio  # which takes half of the time of a command that needs none

    with Signals() as signals:
        return trio.run(_run, signals, function, *arguments)


class Signals:
    """The signals that end a command: once in order, twice at once.

    A thread obeys the second one, since the main thread may be where no handler of Python's runs:
    in a lock that is never let go, in the disk, in another program that was stopped.
    """

    def __init__(self) -> None:
        """Count no signals yet."""
        self.number: int | None = None
        """The first signal that came."""
        self._before: dict[int, Any] = {}
        self._on_first: Callable[[], object] = lambda: None
        self._reader, self._writer = os.pipe()

    def __enter__(self) -> Self:
        """Listen to them."""
        os.set_blocking(self._writer, False)  # as it has to be for signals
        Thread(target=_end_at_next, args=(self._reader,), daemon=True).start()
        for number in SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # Started by nohup: it is to outlive its terminal.
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        """Listen no longer, unless one came: then the second one still ends the process."""
        if self.number is None:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            os.close(self._writer)

    def when_first(self, callback: Callable[[], object]) -> None:
        """Call back at the first signal, in the main thread; at once if it was before."""
        self._on_first = callback
        if self.number is not None:
            callback()

    def note_first(self, number: int) -> None:
        """Take a signal for the first one, however it came; from here on the next one ends all."""
        self.number = number
        # Only now: until then it is trio's, which wakes up by it.
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def _handle(self, number: int, frame: object) -> None:
        if self.number is None:
            self.note_first(number)
            self._on_first()
        else:
            _end_at_once(number)  # trio may have taken back what wakes the thread.


def _end_at_next(reader: int) -> None:
    """Wait for the signal after the first one; ends without any when the command has ended."""
    with open(reader, "rb", buffering=0) as numbers:
        if number := numbers.read(1):
            _end_at_once(number[0])


def _end_at_once(number: int) -> None:
    if _ending.acquire(blocking=False):  # The handler and the thread may both have heard of it.
        if has_room(2):
            os.write(2, b"peermesh: ended at once\n")
        os._exit(128 + number)


_ending: Final = Lock()


async def _run(
    signals: Signals, function: Callable[..., Awaitable[Result]], *arguments: object
) -> Result:
    import trio

    telling, results = trio.Event(), []
    try:
        async with trio.open_nursery() as outer:
            async with trio.open_nursery() as inner:

                def stop() -> None:
                    inner.cancel_scope.cancel()
                    telling.set()

                signals.when_first(partial(_call_soon, trio.lowlevel.current_trio_token(), stop))
                outer.start_soon(_tell_of_long_end, telling)
                results.append(await function(*arguments))
                inner.cancel_scope.cancel()
            outer.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise _plain(group) from None
    if results:
        return results[0]
    assert signals.number is not None, "nothing else cancels"
    raise Stopped(signals.number)


def _call_soon(token: trio.lowlevel.TrioToken, stop: Callable[[], object]) -> None:
    import trio

    with suppress(trio.RunFinishedError):  # It has just ended by itself.
        token.run_sync_soon(stop)


async def _tell_of_long_end(has_begun: trio.Event) -> None:
    """Say what to do when an orderly end takes its time."""
    import trio

    await has_begun.wait()
    await trio.sleep(LONG_END_SECONDS)
    say("peermesh: still ending in order; Ctrl-C again ends it at once", err=True)


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
    """Give the lines of stdin, with their ends; raises as ``open_input`` does."""
    import trio

    open_input()
    stdin = _open_stdin()
    while line := await trio.to_thread.run_sync(stdin.readline, abandon_on_cancel=True):
        yield line


def open_input() -> TextIO:
    """Give stdin; raises ``CommandFailed`` if it was closed before the command was started.

    Then there is nothing to read, and descriptor 0 may be another file by now.
    """
    if sys.stdin is None:
        raise CommandFailed("stdin is closed, and - reads it", hint="</dev/null is empty input")
    return sys.stdin


def _open_stdin() -> BinaryIO:
    """Open stdin once more: a thread that is left behind in it must not hold ``sys.stdin``'s lock.

    Python takes that when it ends.
    """
    return open(os.dup(0), "rb")
