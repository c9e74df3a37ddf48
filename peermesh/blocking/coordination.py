"""Blocks of sessions, locks and elections for threads, which nothing can cancel."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from endpoint.bound import Bound
from endpoint.replicas.stores.session import Session as Core
from peermesh.blocking.living import Passage


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
                self._passage.call_sync(self._held.check_end)
        finally:
            self._passage.call(self._held.close)
