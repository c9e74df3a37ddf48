"""What handles for threads have whose copy of a store is here: events, and watches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from endpoint.replicas.stores.events import QUEUE_SIZE, Events as CoreEvents
from endpoint.replicas.stores.store import Store as CoreStore
from peermesh.blocking.living import Passage
from peermesh.blocking.store_handle import StoreHandle
from peermesh.blocking.watching import Events, Watch
from stores.watches import Bookmark
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.groups.replica import ReplicaStore as CoreReplica


class ObservedStore(StoreHandle):
    """Follows what changes in a master, a clone, or a group's replica."""

    def __init__(self, passage: Passage, core: CoreStore | CoreReplica) -> None:
        """Follow what ``core`` is the handle of."""
        super().__init__(passage, core)
        self._observed = core

    def events(self, *, prefix: Value = None, queue_size: int = QUEUE_SIZE) -> Events:
        """Follow what happens to each key from now on; see ``peermesh.Store.events``."""

        def begin() -> CoreEvents:
            return self._observed.events(prefix=prefix, queue_size=queue_size)

        return Events(self._passage, self._passage.call_sync(begin))

    def watch(
        self,
        *,
        prefix: Value = None,
        keys: Iterable[Value] | None = None,
        from_revision: int | None = None,
        after: Bookmark | None = None,
    ) -> Watch:
        """Give what there is, a mark, and then every commit; see ``peermesh.Store.watch``."""
        if self._is_closed:
            raise self._closed()
        begin = self._observed.watch
        return Watch(
            self._passage,
            begin(prefix=prefix, keys=keys, from_revision=from_revision, after=after),
        )
