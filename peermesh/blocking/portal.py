"""The background thread in which all blocking endpoints of a process live: one trio loop.

It starts with the first endpoint and ends with the last one, so that nothing stays behind. A thread
that died is replaced by the next endpoint, and a child process starts its own.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

import outcome
import trio

from net import forking
from peermesh.blocking.callbacks import CallbackThread
from peermesh.doors.room import Finish, Result as Ended, Task, logger
from wire.errors import EndpointClosed

Result = TypeVar("Result")

EXIT_SECONDS: Final = 1.0
"""How long the end of the process waits for endpoints that were left open: their last messages
leave meanwhile, unless a peer takes nothing."""

_lock = threading.Lock()
_portal: Portal | None = None


class Lodger(Protocol):
    """An endpoint in the portal's loop."""

    def begin_exit(self, grace: float, *, is_quiet: bool) -> None:
        """Start to shut down, once; ``is_quiet`` as the process ends."""

    def await_exit(self, timeout: float) -> None:
        """Wait for that."""

    def died(self, error: BaseException) -> None:
        """Refuse what is asked from now on: the loop is gone."""

    def forked(self) -> None:
        """Refuse what is asked from now on: this is a child process."""


class _Crossing:
    """A call on its way: its thread waits for what becomes of it."""

    __slots__ = ("_done", "_result")

    def __init__(self) -> None:
        self._result: Ended | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def finish(self, result: Ended) -> None:
        if self._result is None:
            self._result = result
            self._done.release()

    def wait(self) -> Any:  # noqa: ANN401 - of whatever was called
        self._done.acquire()
        assert self._result is not None
        return self._result.unwrap()


class Portal:
    """The way into the trio thread."""

    def __init__(self) -> None:
        """Start the thread."""
        self.callbacks = CallbackThread()
        self.lodgers: dict[Lodger, None] = {}
        self.is_forked = False
        self._users = 0
        self._started: queue.SimpleQueue[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = (
            queue.SimpleQueue()
        )
        self._stop = trio.Event()
        self._crossings: set[_Crossing] = set()
        self.is_over = False
        """Whether the loop has ended, in order or by an error."""
        self._thread = threading.Thread(target=self._run, name="peermesh", daemon=True)
        self._thread.start()
        self._token, self._nursery = self._started.get()
        forking.tell(self)

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self.is_over = True
            logger.exception("the loop of all blocking endpoints ended by an error; this is a bug")
            for lodger in list(self.lodgers):
                lodger.died(error)
        finally:
            # In this order: a call that comes between is told by one of the two.
            self.is_over = True
            for crossing in list(self._crossings):
                crossing.finish(outcome.Error(trio.RunFinishedError()))
            self.callbacks.end()

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._started.put((trio.lowlevel.current_trio_token(), nursery))
            await self._stop.wait()

    # The one place where calls cross.

    def cross(self, begin: Callable[[Finish], object], give_up: Callable[[Finish], object]) -> Any:  # noqa: ANN401 - of whatever is called
        """Have ``begin`` called over there, and wait until its argument is told the result.

        Raises ``EndpointClosed`` when the loop or the task there ends before. A wait that is
        interrupted, by Ctrl-C, has ``give_up`` called there with the same argument.
        """
        if self.is_forked:
            raise forking.error()
        if self.is_here():
            raise RuntimeError(
                "a blocking call in the thread that has to do it would wait for itself: call it"
                " from another thread, or from a callback, which has one"
            )
        crossing = _Crossing()
        self._crossings.add(crossing)
        try:
            self._send(partial(copy_context().run, begin, crossing.finish))
            return crossing.wait()
        except (trio.Cancelled, trio.RunFinishedError, trio.EndOfChannel):
            raise _ended() from None
        except KeyboardInterrupt:
            with suppress(EndpointClosed):
                self.soon(partial(give_up, crossing.finish))
            raise
        finally:
            self._crossings.discard(crossing)

    def _send(self, function: Callable[[], object]) -> None:
        with suppress(EndpointClosed):
            self.soon(function)
            if not self.is_over:
                return
        self._thread.join()  # Then the lodgers know why it ended.
        raise _ended()

    def call(self, function: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
        """Run an async function over there, and wait for its result."""
        scope = trio.CancelScope()

        async def run(finish: Finish) -> None:
            with scope:
                finish(await outcome.acapture(function, *arguments))

        def begin(finish: Finish) -> None:
            trio.lowlevel.spawn_system_task(run, finish, context=copy_context())

        return cast("Result", self.cross(begin, lambda _: scope.cancel()))

    def call_sync(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function over there, and wait for its result."""

        def begin(finish: Finish) -> None:
            finish(outcome.capture(function, *arguments))

        return cast("Result", self.cross(begin, lambda _: None))

    def soon(self, function: Callable[[], object]) -> None:
        """Run a function over there some time soon; does not wait. It raises nothing.

        Raises ``EndpointClosed`` when the loop has ended.
        """
        try:
            self._token.run_sync_soon(function)
        except (trio.RunFinishedError, OSError):  # The latter when the loop died.
            raise _ended() from None

    def start_soon(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Start a task that lives on its own, some time soon; does not wait."""
        self.soon(partial(self.spawn, partial(function, *arguments)))

    def is_alive(self) -> bool:
        """Tell whether the loop runs; false from the moment at which it died."""
        try:
            self.soon(bool)
        except EndpointClosed:
            return False
        return not self.is_over

    def is_here(self) -> bool:
        """Tell whether this is the thread of the loop, which nothing may block."""
        return threading.current_thread() is self._thread

    def spawn(self, task: Task) -> None:
        """Start a task that lives on its own; to be called over there."""
        self._nursery.start_soon(_alone, task)

    # Life.

    @staticmethod
    def acquire() -> Portal:
        """Get the portal, starting it for the first user."""
        global _portal
        with _lock:
            if _portal is None or not _portal.is_alive():
                _portal = Portal()
            _portal._users += 1
            return _portal

    def release(self) -> None:
        """Give the portal back; the last user ends it, and waits for that."""
        if not self.is_forked:
            self.leave()
            self.join()

    def leave(self) -> None:
        """Give the portal back, without waiting."""
        global _portal
        with _lock:
            self._users -= 1
            if self._users:
                return
            if _portal is self:
                _portal = None
        with suppress(EndpointClosed):
            self.soon(self._stop.set)

    def join(self) -> None:
        """Wait for the end of a thread that nothing uses any more."""
        if not self._users and not self.is_here():
            self._thread.join()

    def forked(self) -> None:
        """Refuse what is asked from now on: this is a child process, without the thread."""
        self.is_forked = True
        for lodger in list(self.lodgers):
            lodger.forked()


async def _alone(task: Task) -> None:
    """Run a task whose error ends nothing else."""
    try:
        await task()
    except Exception:
        logger.exception("a task of the loop of all blocking endpoints failed; this is a bug")


def _ended() -> EndpointClosed:
    return EndpointClosed("its endpoint was shut down: make a new one")


def _forget() -> None:
    """Reset the portal in a child process: its thread is not there, and its lock may be held."""
    global _portal, _lock
    _portal, _lock = None, threading.Lock()


def _exit() -> None:
    """Shut down what was left open, for a short time."""
    portal = _portal
    if portal is None:
        return
    deadline = time.monotonic() + EXIT_SECONDS
    lodgers = list(portal.lodgers)
    with suppress(KeyboardInterrupt, EndpointClosed):
        for lodger in lodgers:
            lodger.begin_exit(EXIT_SECONDS / 2, is_quiet=True)
        for lodger in lodgers:
            lodger.await_exit(max(0.0, deadline - time.monotonic()))


atexit.register(_exit)
forking.renew(_forget)
