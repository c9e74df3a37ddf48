"""The trio run that is the guest of an asyncio loop: all endpoints of the loop live in it.

It starts with the first of them and ends with the last, or when the loop cancels all of its tasks,
as ``asyncio.run`` does at its end: then those that were left open shut down in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import trio
from outcome import Error, Outcome

from peermesh.doors.room import logger

BEAT_SECONDS: Final = 0.1
"""How often the host is looked after: a delay that peers could notice is seen many times over."""

LAG_SECONDS: Final = 1.0
"""A host that is late by so much is warned of: peers take an endpoint for gone after five."""

WINDOW_BEATS: Final = 600
"""Beats of which the worst delay is told: a minute of them."""

_guests: Final[dict[asyncio.AbstractEventLoop, Guest]] = {}


class Lodger(Protocol):
    """An endpoint that lives in the guest."""

    async def leave(self) -> None:
        """End it, if that has not begun, and wait for that whatever happens."""

    def died(self, error: BaseException) -> None:
        """Refuse what is asked from now on: the run is gone."""


class Guest:
    """A trio run in the thread of an asyncio loop. Each task of the loop may call its methods."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start it; raises ``RuntimeError`` where trio runs already."""
        self.loop = loop
        self._lodgers: dict[Lodger, None] = {}
        self._stop = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._ready, self._ended = loop.create_future(), loop.create_future()
        self._lags: deque[float] = deque(maxlen=WINDOW_BEATS)
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
        )
        self._keeper = loop.create_task(self._keep(), name="peermesh")

    @staticmethod
    async def of_this_loop(lodger: Lodger) -> Guest:
        """Give the guest of the loop that runs, started for the first endpoint, with one more.

        Raises ``RuntimeError`` without such a loop, and where trio runs in its thread already.
        """
        loop = _running_loop()
        while (guest := _guests.get(loop)) is not None and guest.is_ending:
            await guest.over()
        if guest is None:
            if trio.lowlevel.in_trio_run():
                raise RuntimeError(
                    "trio runs in this thread already, and only once: take peermesh.Endpoint in a"
                    " task of trio, or peermesh.blocking.Endpoint. A loop that was closed with"
                    " endpoints open leaves such a run behind: end them, or use asyncio.run"
                )
            guest = _guests[loop] = Guest(loop)
        await guest.take_in(lodger)
        return guest

    @property
    def is_ending(self) -> bool:
        """Whether its last endpoint is over."""
        return self._stop.is_set()

    async def over(self) -> None:
        """Wait for the end of the run."""
        await finished(self._ended)

    async def take_in(self, lodger: Lodger) -> None:
        """Wait until the run can have tasks. The endpoint shuts down with the loop from now on."""
        self._lodgers[lodger] = None
        try:
            await finished(self._ready)
        except asyncio.CancelledError:
            await self.remove(lodger)
            raise

    def start(self, function: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Start a task of trio that lives on its own, and raises nothing."""
        assert self._nursery is not None, "it was waited for"
        self._nursery.start_soon(function, *arguments)

    async def remove(self, lodger: Lodger) -> None:
        """Forget an endpoint that is over; the last one ends the guest, and waits for that."""
        self._lodgers.pop(lodger, None)
        if not self._lodgers and not self._ended.done():
            self._stop.set()
            await finished(self._ended)

    def lag(self) -> float:
        """Give the seconds by which the host was late at most, in the last minute."""
        return max(self._lags, default=0.0)

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._ready.set_result(None)
            while not self._stop.is_set():
                await self._beat()

    async def _beat(self) -> None:
        """Wait a moment, which the host makes longer if it is busy with something else."""
        due = trio.current_time() + BEAT_SECONDS
        with trio.move_on_at(due):
            await self._stop.wait()
            return
        lag = trio.current_time() - due
        if lag >= LAG_SECONDS:
            logger.warning(
                "the asyncio loop stood still for %.1f s, and its endpoints with it: peers cut"
                " them off after 5 s; run what takes long with asyncio.to_thread",
                lag,
            )
        self._lags.append(lag)

    def _done(self, result: Outcome[None]) -> None:
        _guests.pop(self.loop, None)
        if isinstance(result, Error):
            logger.error("the trio run of an asyncio loop failed; this is a bug")
            for lodger in list(self._lodgers):
                lodger.died(result.error)
        self._ended.set_result(None)

    async def _keep(self) -> None:
        """Wait for the end, and bring it about if the loop cancels its tasks."""
        try:
            await asyncio.wait((self._ended,))
        except asyncio.CancelledError:
            await finished(self._ready)
            for lodger in list(self._lodgers):
                await lodger.leave()
            if not self._ended.done():
                self._stop.set()
                await finished(self._ended)


async def finished(future: asyncio.Future[Any]) -> None:
    """Wait for a future whatever happens: a cancellation of the caller comes after it."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "peermesh.aio.Endpoint runs in a task of asyncio: take peermesh.Endpoint for trio, or"
            " peermesh.blocking.Endpoint for plain calls"
        ) from None
