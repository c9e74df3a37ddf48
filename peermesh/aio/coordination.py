"""Blocks of sessions, locks and elections in asyncio: cancelled when what they hold is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from endpoint.bound import Bound
from endpoint.replicas.stores.session import Session as Core
from peermesh.aio.passage import Passage
from wire.errors import MeshError, SessionExpired, StoreClosed


class SessionBlock(Bound):
    """``async with store.session() as session``; a base of ``Session``."""

    def __init__(self, passage: Passage, core: Core) -> None:
        """Use ``ReplicaStore.session``."""
        self._passage = passage
        self._held = core
        self._task: asyncio.Task[object] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._cancelling = 0
        self._is_lost = False

    async def open(self) -> None:
        """Open it, and have it renewed; of a lock, wait for it.

        Raises ``NoQuorum``, ``NotAllowed``, ``QuotaExceeded``, and ``SessionExpired`` if it is
        closed meanwhile; a lock ``RequestTimeout``, too. Interrupted, it leaves nothing behind.
        """
        try:
            await self._passage.call(self._held.open)
        except asyncio.CancelledError:
            await self._passage.end(self._held.close)  # It may be open all the same.
            raise

    @property
    def is_alive(self) -> bool:
        """False once the group may have ended it. True may be outdated as soon as it is read."""
        return self._held.is_alive

    def check(self) -> None:
        """Raise ``SessionExpired`` unless it is alive."""
        try:
            self._passage.look(self._held.check)
        except StoreClosed as error:  # Its store, or its endpoint, has ended under it.
            raise self._held.over_with(error) from error

    async def __aenter__(self) -> Self:
        """Open it, for the block."""
        await self.open()
        self._task = asyncio.current_task()
        assert self._task is not None, "it was awaited in one"
        self._cancelling = self._task.cancelling()
        self._watch = asyncio.create_task(self._cancel_when_lost(self._task))
        return self

    async def _cancel_when_lost(self, task: asyncio.Task[object]) -> None:
        with suppress(MeshError):  # The endpoint ends, and the session with it.
            await self._passage.call(self._held.wait_lost)
        self._is_lost = True
        task.cancel()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it; raises ``SessionExpired`` if it was lost, unless there is another error."""
        assert self._task is not None, "the block was entered"
        assert self._watch is not None, "the block was entered"
        expired = self._objection()
        self._watch.cancel()
        try:
            await asyncio.wait((self._watch,))
            is_ours = self._is_lost and self._task.uncancel() <= self._cancelling
        finally:
            await self._passage.end(self._held.close)
        is_over = value is None or (is_ours and isinstance(value, asyncio.CancelledError))
        if is_over and expired is not None:
            raise expired from None

    def _objection(self) -> MeshError | None:
        try:
            self._passage.look(self._held.check_end)
        except StoreClosed as error:
            return self._held.over_with(error)
        except MeshError as error:
            return error
        return SessionExpired("the endpoint ended") if self._is_lost else None
