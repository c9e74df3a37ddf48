"""An endpoint's life as a guest of an asyncio loop, and what of it no description gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import Final, Self, Unpack

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.bound import Bound
from endpoint.endpoint import GRACE_SECONDS, Endpoint as Core
from endpoint.pubsub.options import QueueOptions
from peermesh.aio.guest import Guest, finished
from peermesh.aio.hot import HostTurns, Subscriber
from peermesh.aio.passage import Passage
from peermesh.doors.room import Result as Ended, Room
from wire.errors import EndpointClosed


class Life(Bound):
    """An endpoint from ``async with`` to its end; a base of ``Endpoint``."""

    def __init__(self, core: Core) -> None:
        """Live with ``core``, doing nothing yet."""
        self._endpoint = core
        self._room = Room(core)
        self._passage = Passage(core, self._room)
        self._guest: Guest | None = None
        self._over: asyncio.Future[None] | None = None
        self._grace = GRACE_SECONDS
        self._callbacks: set[asyncio.Task[None]] = set()
        """Those of a user that wait for something."""
        self.settings = core.settings
        publication = core.loop.publication
        publication.turns, publication.closed = HostTurns(self._passage), self._closed
        core.loop.callbacks.run = self._run_callback
        self.publish: Final = publication.publish

    def _closed(self) -> EndpointClosed:
        if self._guest is None:
            return EndpointClosed(
                "the endpoint is not open: use it inside of 'async with Endpoint() as endpoint'"
            )
        return self._room.error()

    async def __aenter__(self) -> Self:
        """Start the endpoint's tasks; raises ``EndpointClosed`` the second time.

        Raises ``RuntimeError`` where no task of asyncio runs it.
        """
        if self._guest is not None:
            raise EndpointClosed("an endpoint lives once, in one block: make a new one")
        self._guest = guest = await Guest.of_this_loop(self)
        self._over = guest.loop.create_future()
        self._endpoint.host_lag = guest.lag
        opened: asyncio.Future[Ended] = guest.loop.create_future()
        guest.start(self._live, opened.set_result)
        try:
            await finished(opened)
        except asyncio.CancelledError:
            await self.leave()
            raise
        try:
            opened.result().unwrap()
        except BaseException:
            await self.leave()
            raise
        self._passage.open(guest.loop)
        return self

    async def _live(self, opened: Callable[[Ended], object]) -> None:
        await self._room.live(opened, self._leave)
        self._end()

    async def _leave(self) -> None:
        await self._endpoint.shutdown(self._grace)

    def _end(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def died(self, error: BaseException) -> None:
        """Refuse what is asked from now on: the run is gone."""
        self._room.died(error)
        self._end()

    async def leave(self) -> None:
        """End it, if that has not begun, and wait for that whatever happens."""
        if self._guest is None or self._over is None:
            return
        self._room.close()
        try:
            await finished(self._over)
        finally:
            await self._guest.remove(self)

    async def shutdown(self, grace: Seconds = GRACE_SECONDS) -> None:
        """End: no new peers, then the stores, then all that was published leaves.

        Waits for ``grace`` seconds at most for stores and peers that do not answer, and for some
        seconds more for a disk in the middle of a write. May be called twice, and does nothing in a
        child process. In threads what was published goes ahead, for as long at most. There each
        call waits for the end, and Ctrl-C ends the waiting: the endpoint ends on its own.
        """
        self._grace = arguments.seconds("grace", grace, default=GRACE_SECONDS)
        if not self._endpoint.loop.publication.is_forked:
            await self.leave()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Shut down, and leave no task behind."""
        await self.shutdown(self._grace)

    def _open_reader(
        self, topics: Sequence[str], *, local: bool, **options: Unpack[QueueOptions]
    ) -> Subscriber:
        core = self._endpoint
        make = partial(Subscriber, self._passage, core.loop)
        return self._passage.look(partial(core.read_with, make, topics, local=local, **options))

    # Callbacks.

    def _run_callback(self, callback: Callable[..., object], values: tuple[object, ...]) -> None:
        assert self._guest is not None, "a callback comes from an open endpoint"
        self._guest.loop.call_soon(self._call_back, callback, values)

    def _call_back(self, callback: Callable[..., object], values: tuple[object, ...]) -> None:
        """Run a user's callback; what it raises is told, and ends nothing."""
        try:
            result = callback(*values)
            if isawaitable(result):
                task = asyncio.create_task(self._finish(callback, result))
                self._callbacks.add(task)
                task.add_done_callback(self._callbacks.discard)
        except Exception as error:
            self._failed(callback, error)

    async def _finish(self, callback: Callable[..., object], result: Awaitable[object]) -> None:
        try:
            await result
        except Exception as error:
            self._failed(callback, error)

    def _failed(self, callback: Callable[..., object], error: Exception) -> None:
        failed = partial(self._endpoint.loop.callbacks.failed, callback, error)
        self._room.guarded(failed)()
