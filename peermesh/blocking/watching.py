"""Store events and watches, for threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from endpoint.barriers import Seconds
from endpoint.closing import Closing
from endpoint.pubsub.messages import Missed
from endpoint.replicas.stores.events import StoreEvent
from endpoint.replicas.stores.locks import Elected
from endpoint.replicas.stores.watching import Watch as CoreWatch, WatchItem
from peermesh.blocking.living import FAILURES, Passage
from wire.errors import RequestTimeout, StoreClosed

ItemT = TypeVar("ItemT")


class Source(Protocol[ItemT]):
    """A stream of a store in the portal's thread."""

    async def get(self, timeout: Seconds = None) -> ItemT:
        """Wait for the next item."""

    def poll(self) -> list[ItemT]:
        """Take what is there."""

    def close(self) -> None:
        """Follow no longer."""


class _Stream(Closing, Generic[ItemT]):
    """What events and watches have in common."""

    def __init__(self, passage: Passage, core: Source[ItemT]) -> None:
        self._passage = passage
        self._core = core

    def get(self, timeout: Seconds = None) -> ItemT:
        """Wait for the next one, for ``timeout`` seconds at most; then ``RequestTimeout``.

        Raises ``StoreClosed`` when no more can come.
        """
        try:
            return self._passage.call(self._core.get, timeout)
        except TimeoutError as error:
            raise RequestTimeout(str(error)) from None

    def poll(self) -> list[ItemT]:
        """Take what is there, without waiting."""
        return self._passage.call_sync(self._core.poll)

    def close(self) -> None:
        """Follow no longer."""
        with suppress(StoreClosed, *FAILURES):  # Then it is closed.
            self._passage.call_sync(self._core.close)

    def __repr__(self) -> str:
        """Show the store, and what waits or was given."""
        return self._passage.show(type(self).__name__, self._core)

    def __iter__(self) -> Iterator[ItemT]:
        """Iterate until it, or the store, is closed."""
        while True:
            try:
                yield self.get()
            except StoreClosed:
                return


class Events(_Stream[StoreEvent | Missed]):
    """What happens to the keys of a store from now on; see ``Store.events``."""


class Elections(_Stream[Elected | None]):
    """Who is elected, from now on; see ``ReplicaStore.elections``."""


class Watch(_Stream[WatchItem]):
    """What there is, a mark, and then every commit; see ``Store.watch``."""

    def __init__(self, passage: Passage, core: CoreWatch) -> None:
        """Use ``Store.watch``."""
        super().__init__(passage, core)
        self._watch = core

    @property
    def revision(self) -> int:
        """Everything up to it was given: ``watch(…, from_revision=revision + 1)`` goes on there."""
        return self._watch.revision
