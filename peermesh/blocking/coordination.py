"""Blocks of sessions, locks and elections for threads, which nothing can cancel."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from endpoint.bound import Bound
from endpoint.replicas.stores.session import Session as Core
from peermesh.blocking.living import Passage
from wire.errors import StoreClosed


class SessionBlock(Bound):
    """``with store.session() as session``; a base of ``Session``.

    Nothing interrupts the block when it is lost: ask ``check`` before what has to be safe, and
    again after it. The end of the block raises ``SessionExpired`` then.
    """

    def __init__(self, passage: Passage, core: Core) -> None:
        """Use ``session`` of a store."""
        self._passage = passage
        self._held = core

    def open(self) -> None:
        """Open it, and have it renewed; of a lock, wait for it.

        Raises ``NoQuorum``, ``NotAllowed``, ``QuotaExceeded``, and ``SessionExpired`` if it is
        closed meanwhile; a lock ``RequestTimeout``, too. Interrupted, it leaves nothing behind.
        """
        self._passage.take(lambda _: self._held.give_up(), self._held.open)

    @property
    def is_alive(self) -> bool:
        """False once the group may have ended it. True may be outdated as soon as it is read."""
        try:
            return self._passage.call_sync(lambda: self._held.is_alive)
        except StoreClosed:
            return False

    def check(self) -> None:
        """Raise ``SessionExpired`` unless it is alive."""
        self._check(self._held.check)

    def _check(self, check: Callable[[], None]) -> None:
        """Have it checked over there; its store, or its endpoint, may have ended under it."""
        try:
            self._passage.call_sync(check)
        except StoreClosed as error:
            raise self._held.over_with(error) from error

    def __enter__(self) -> Self:
        """Open it, for the block."""
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it; raises ``SessionExpired`` if it was lost, unless there is another error."""
        try:
            if value is None:
                self._check(self._held.check_end)
        finally:
            self._passage.end(self._held.close)
