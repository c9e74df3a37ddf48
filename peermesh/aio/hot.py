"""What many messages pass in asyncio: it runs in the task that asks, without a way into trio's.

The trio run has the same thread, so that a task of asyncio may put messages in, and take them out,
by itself. Only what has to wait for the mesh waits in a task of trio. All waiting comes before a
message is put in or taken: what is cancelled has done nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

import trio

from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.subscriber import Subscriber as Core, SubscriberHost
from endpoint.pubsub.turns import Wait
from peermesh.aio.passage import Passage
from wire.errors import EndpointClosed, SubscriberOverflow

REFILLS: Final = 8
"""A reader that always finds messages lets others run after so many times."""


class HostTurns:
    """How publishers wait that are tasks of asyncio."""

    def __init__(self, passage: Passage) -> None:
        """Wait in the room that ``passage`` leads to."""
        self._passage = passage

    async def pause(self, *, is_due: bool) -> None:
        """Let others run if that ``is_due``; raises ``RuntimeError`` in a wrong loop."""
        self._passage.check()
        if is_due:
            await asyncio.sleep(0)

    async def wait(self, wait: Wait) -> None:
        """Wait in a task of the room."""
        await self._passage.call(wait)


class HostWakeup:
    """What ``net.wakeup.Wakeup`` is, for tasks of asyncio in the endpoint's thread."""

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        """Have no tasks waiting yet."""
        self._waiters: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Wait for the next ``wake``."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future in self._waiters:
                self._waiters.remove(future)
            raise

    def wake(self) -> None:
        """Wake all tasks that wait."""
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)


class Subscriber(Core):
    """Messages on topics that begin with given prefixes, in a bounded queue (seed 7.1).

    Read it with ``async for topic, data in subscriber``, or with ``get`` and ``poll``. In threads
    it is ``for``, and many may share it: each message goes to one of them. Received values are
    immutable; ``peermesh.plain`` gives dicts and lists. A subscriber that is full slows its
    publishers down; see ``Missed`` for one that is not read at all.
    """

    def __init__(self, passage: Passage, host: SubscriberHost, mailbox: Mailbox) -> None:
        """Use ``Endpoint.subscribe``."""
        super().__init__(host, mailbox, HostWakeup())
        self._passage = passage
        self._refills = 0
        self._is_left = False
        """Whether it was closed by itself, and not by the end of its endpoint."""

    async def _wait(self, timeout: float) -> None:
        """Wait until something is ready; raises ``TimeoutError``."""
        try:
            async with asyncio.timeout(timeout):
                await self._refill()
        except TimeoutError:
            self._take()  # It may have come just now.
            if not self._ready:
                raise TimeoutError(f"no message within {timeout} s") from None

    async def _refill(self) -> None:
        while not self._ready:
            if not self._mailbox.is_empty():
                await self._let_others()
            elif self._is_left:
                raise EndpointClosed("the subscriber is closed, and was read to its end")
            elif self._is_closed:
                await self._passage.call(trio.sleep_forever)  # The end of the endpoint says why.
            else:
                self._passage.check()
                await self._wakeup.wait()
            self._take()

    async def _let_others(self) -> None:
        self._refills += 1
        if self._refills >= REFILLS:
            self._refills = 0
            await asyncio.sleep(0)

    def _take(self) -> None:
        """Take what there is, if nothing is at hand; publishers that wait for it go on."""
        if not self._ready and not self._mailbox.is_empty():
            try:
                self._mailbox.take(self._ready)
            except SubscriberOverflow:
                self.close()
                raise
        self._make_room()

    def close(self) -> None:
        """Want nothing any more. What is there can still be read."""
        self._is_left = True
        super().close()
