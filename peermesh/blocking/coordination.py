"""Sessions, locks and elections for threads, whose blocks nothing can cancel."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from endpoint.bound import Bound
from endpoint.replicas.receipts import Receipt
from peermesh.blocking.living import Passage
from stores.batch import Batch
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.stores.locks import FencingToken, Lock as CoreLock
    from endpoint.replicas.stores.session import Session as CoreSession


class Session(Bound):
    """Keys that die with their holder; see ``peermesh.Session``.

    Nothing interrupts the block when it is lost: ask ``check`` before what has to be safe, and
    again after it. The end of the block raises ``SessionExpired`` then.
    """

    def __init__(self, passage: Passage, core: CoreSession) -> None:
        """Use ``session`` of a store."""
        self._passage = passage
        self._core = core

    def __repr__(self) -> str:
        """Show its store, and its number."""
        return self._passage.show(type(self).__name__, self._core)

    @property
    def number(self) -> int:
        """What ``Entry.session`` of its keys is."""
        return self._core.number

    @property
    def ttl(self) -> float:
        """Its time to live, in seconds."""
        return self._core.ttl

    @property
    def is_alive(self) -> bool:
        """False once the group may have ended it."""
        return self._passage.call_sync(lambda: self._core.is_alive)

    def check(self) -> None:
        """Raise ``SessionExpired`` unless it is alive."""
        self._passage.call_sync(self._core.check)

    def wait_lost(self) -> None:
        """Wait until it is lost; it is not by its end."""
        self._passage.call(self._core.wait_lost)

    def put(self, key: Value, value: Value) -> Receipt:
        """Set a key for as long as the session lives; see ``peermesh.Session.put``."""
        return self._passage.call(self._core.put, key, value)

    def put_unique(self, key: Value, value: Value) -> bool:
        """Set a key if it is missing; see ``peermesh.Session.put_unique``."""
        return self._passage.call(self._core.put_unique, key, value)

    def __enter__(self) -> Self:
        """Open it, for the block."""
        self._passage.call(self._core.open)
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
                self.check()
        finally:
            self._passage.call(self._core.close)


class Lock(Session):
    """A name that one holds at a time; see ``peermesh.Lock``."""

    def __init__(self, passage: Passage, core: CoreLock) -> None:
        """Use ``lock`` or ``elect`` of a store."""
        super().__init__(passage, core)
        self._lock = core

    @property
    def token(self) -> FencingToken:
        """What to give along with all that is done while it is held."""
        return self._lock.token

    def guard(self, batch: Batch) -> Batch:
        """Have a batch fail unless this is held; see ``peermesh.Lock.guard``."""
        return self._lock.guard(batch)
