"""The way of a handle to its endpoint: from a task of asyncio into the endpoint's room in trio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import ParamSpec, Protocol, TypeVar, cast

import trio

from endpoint.barriers import Barrier
from endpoint.endpoint import Endpoint as Core
from endpoint.outcome import Outcome
from endpoint.replicas.attaching import Attaching
from endpoint.replicas.handle import ReplicaHandle
from net import forking
from peermesh.doors.room import Result as Ended, Room
from wire.errors import FAILURES, EndpointClosed, MeshError, StoreClosed

Result = TypeVar("Result")
Made = TypeVar("Made")
Values = ParamSpec("Values")
CoreT = TypeVar("CoreT", bound=ReplicaHandle)


class Giving(Protocol):
    """What gives each item once."""

    def is_ready(self) -> bool:
        """Tell whether there is something to take."""

    async def await_ready(self, limit: float) -> bool:
        """Wait until there is, and take nothing; false after so many seconds."""


class _Call:
    """A call on its way: a task of asyncio waits for what becomes of it."""

    __slots__ = ("_future", "_loop", "result", "scope")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.result: Ended | None = None
        self.scope = trio.CancelScope()
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    def finish(self, result: Ended) -> None:
        self.result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> asyncio.CancelledError | None:
        """Wait for the result; if the task is cancelled meanwhile, cancel the call, and go on.

        Gives the cancellation, which is raised when nothing of the call is left.
        """
        cancelled = None
        while self.result is None:
            self._future = self._loop.create_future()
            try:
                await self._future
            except asyncio.CancelledError as error:
                cancelled = error
                self.scope.cancel()
        return cancelled

    async def run(self, function: Callable[[], Awaitable[object]]) -> object:
        """Make the call, in trio."""
        with self.scope:
            return await function()
        return None  # The task that asked was cancelled, and gets that.


class Passage:
    """Calls of one handle.

    Whatever ended the endpoint, they raise ``EndpointClosed``; or for stores and logs,
    ``StoreClosed``.
    """

    def __init__(self, core: Core, room: Room, store: str = "") -> None:
        """Lead to an endpoint. ``store`` says what the handle is of, as in ``"store cities"``."""
        self._core = core
        self._room = room
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lead from this loop, and no other."""
        self._loop = loop

    def of(self, store: str) -> Passage:
        """Give the passage of a store's or log's handle."""
        passage = Passage(self._core, self._room, store)
        passage._loop = self._loop
        return passage

    # Calls.

    async def call(
        self,
        function: Callable[Values, Awaitable[Result]],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Run an async function in a task of the room, and wait for its result.

        Cancelled, it waits until that task has ended; what it has made is closed.
        """
        call = _Call(self.check())
        self._room.begin(partial(call.run, partial(function, *arguments, **options)), call.finish)
        cancelled = await call.wait()
        assert call.result is not None, "it was waited for"
        if cancelled is not None:
            await self._discard(call.result)
            raise cancelled
        try:
            return cast("Result", call.result.unwrap())
        except EndpointClosed as error:
            raise self.shown(error) from error.__cause__

    async def await_ready(self, core: Giving, limit: float) -> bool:
        """Wait in the room until there is something to take; false after so many seconds.

        True means that it is there now. Take it at once, in the same task, and before the next
        ``await``: then neither a cancellation nor another task comes between, and what is cancelled
        has taken nothing.
        """
        loop = self.check()
        deadline = loop.time() + limit
        while not core.is_ready():
            if not await self.call(core.await_ready, max(0.0, deadline - loop.time())):
                return core.is_ready()  # It may have come just now.
        return True

    async def _discard(self, result: Ended) -> None:
        """Close a handle that no task gets."""
        with suppress(Exception):
            made = result.unwrap()
            if isinstance(made, ReplicaHandle):
                with suppress(asyncio.CancelledError):  # One is raised anyway.
                    await self.call(made.close)

    def look(
        self,
        function: Callable[Values, Result],
        *arguments: Values.args,
        **options: Values.kwargs,
    ) -> Result:
        """Make a call that does not wait."""
        self.check()
        try:
            return function(*arguments, **options)
        except EndpointClosed as error:
            raise self.shown(error) from error.__cause__

    async def wait(
        self, how: Barrier, function: Callable[[], Awaitable[Outcome | None]]
    ) -> Outcome | None:
        """Wait for a barrier: false if the store is closed, unless a callback is to be told."""
        try:
            return await self.call(function)
        except StoreClosed as error:
            if how.callback is not None:
                raise
            return Outcome(reached=False, reason=str(error), error=error)

    async def attach(self, make: Callable[[Passage, CoreT], Made], core: Attaching[CoreT]) -> Made:
        """Attach a store or a log, and give its handle."""
        found = await self.call(lambda: core)
        return make(self.of(f"{found.runner.kind} {found.name()}"), found)

    async def rest(self, core: ReplicaHandle) -> None:
        """Let other tasks run, and wait until a store has room for more mutations."""
        has_room = core.rest()
        await asyncio.sleep(0)
        if not has_room:
            await self.call(core.await_room)

    # Ends.

    def close(self, close: Callable[[], None]) -> None:
        """Close what waits for nothing, once more or after its endpoint, too."""
        with suppress(EndpointClosed, StoreClosed):
            self.look(close)

    async def end(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close a store or log, once more or after its endpoint, too."""
        with suppress(EndpointClosed, StoreClosed):
            await self.call(close)

    @asynccontextmanager
    async def hosted(self, manager: AbstractAsyncContextManager[Result]) -> AsyncIterator[Result]:
        """Have one task of the room enter a block of trio's and leave it, for the time of this."""
        loop = self.check()
        opened: asyncio.Future[Result] = loop.create_future()
        closing = trio.Event()

        async def live() -> None:
            async with manager as value:
                opened.set_result(value)
                await closing.wait()

        task = loop.create_task(self.call(live))
        try:
            await asyncio.wait((task, opened), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            raise
        if not opened.done():
            await task
        try:
            yield opened.result()
        finally:
            closing.set()
            with suppress(EndpointClosed, StoreClosed):  # It ended with its endpoint.
                await task

    # What is said when the endpoint is over.

    def check(self) -> asyncio.AbstractEventLoop:
        """Give the loop, if it is the one that runs."""
        if self._core.loop.publication.is_forked:
            raise forking.error()
        if self._room.is_over:
            raise self.error()
        if self._loop is None:
            raise self._core.loop.publication.closed()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "the endpoint lives in another asyncio loop: use it in a task of that one, as with"
                " asyncio.run_coroutine_threadsafe"
            )
        return self._loop

    def error(self) -> MeshError:
        """Give what calls raise once the endpoint is over."""
        return self.shown(self._room.error())

    def better(self, error: MeshError) -> MeshError:
        """Give the error that ended the endpoint instead of what follows from it."""
        found = self._room.error() if self._room.is_over else error
        return found if isinstance(found, FAILURES) else error

    def shown(self, error: EndpointClosed) -> MeshError:
        """Give the error that says why the endpoint is closed, if ``error`` only says that."""
        if self._room.is_over and not isinstance(error, FAILURES):
            error = self._room.error()
        if not self._store or isinstance(error, FAILURES):
            return error
        return StoreClosed(f"{self._store} is closed: {error}")
