"""What the handles of stores and of logs have in common: they can be idle."""

from __future__ import annotations

from abc import abstractmethod
from typing import overload

from endpoint.barriers import Barrier, Callback, Seconds, barrier
from endpoint.outcome import Outcome
from endpoint.replicas.handle import AWAIT_IDLE_SECONDS
from peermesh.blocking.living import Passage
from wire.errors import StoreClosed


class Idling:
    """A base of handles whose calls go by a passage."""

    _passage: Passage

    @abstractmethod
    async def _await_idle(self, how: Barrier) -> Outcome | None:
        """Wait over there."""

    @overload
    def await_idle(self, timeout: Seconds = AWAIT_IDLE_SECONDS) -> Outcome: ...

    @overload
    def await_idle(self, callback: Callback, timeout: Seconds = AWAIT_IDLE_SECONDS) -> None: ...

    def await_idle(
        self,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_IDLE_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until it is idle; see ``peermesh.Store.await_idle``.

        A ``callback`` runs in a thread of its own, and may call anything.
        """
        how = barrier("await_idle", positional, timeout, callback, AWAIT_IDLE_SECONDS)
        try:
            return self._passage.call(self._await_idle, how)
        except StoreClosed as error:
            if how.callback is not None:
                raise
            return Outcome(reached=False, reason=str(error), error=error)
