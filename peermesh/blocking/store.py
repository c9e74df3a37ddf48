"""Stores for threads: reads look into the table directly, mutations cross the thread in batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Unpack

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import ORDER_SECONDS, Backend
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.promoting import Promotion
from endpoint.replicas.stores.store import VERIFY_SECONDS, Store as Core
from endpoint.replicas.stores.store_proxy import StoreProxy as CoreProxy
from endpoint.replicas.stores.verifying import Verification
from peermesh.blocking.coordinating import Coordinating
from peermesh.blocking.living import Passage
from peermesh.blocking.membership import GroupHandle
from peermesh.blocking.observing import ObservedStore
from peermesh.blocking.reading import Reader
from peermesh.blocking.store_handle import StoreHandle
from stores.quota import QuotaLimits
from stores.statistics import StoreStatistics
from wire.decoding import decode
from wire.encoding import encode
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.groups.replica import ReplicaStore as CoreReplica


class Store(ObservedStore, Coordinating):
    """A replicated table of typed keys and values; see ``peermesh.Store``.

    All methods may be called from any thread. Mutations of one thread keep their order.
    """

    def __init__(self, passage: Passage, core: Core) -> None:
        """Use ``Endpoint.attach_master`` or ``Endpoint.attach_clone``."""
        super().__init__(passage, core)
        Coordinating.__init__(self, passage, core)
        self._core: Core = core
        self._use_core()
        core.runner.on_swap.append(self._use_core)

    def inside(self) -> tuple[Passage, Core]:
        """Give the way into the loop's thread, and the store in there: for what serves it."""
        return self._passage, self._core

    def _use_core(self) -> None:
        """Read from the core that the store has now."""
        self._table = self._core.part.table

    # Reads.

    def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing."""
        if self._is_readable():
            encoded = self._table.get(encode(key))
            return default if encoded is None else decode(encoded)
        return self._passage.call(self._core.get, key, default)

    def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        if self._is_readable():
            return self._table.get(encode(key)) is not None
        return self._passage.call(self._core.exists, key)

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write; see ``peermesh.Store.not_before``."""
        return Reader(self._passage, self._core.not_before(since))

    def at_master(self) -> Reader:
        """Read what is as fresh as at the master; see ``peermesh.Store.at_master``."""
        return Reader(self._passage, self._core.at_master())

    def _is_readable(self) -> bool:
        """Tell whether the table can be read from this thread: nothing of ours is on its way."""
        runner = self._runner
        if self._is_closed or runner.error is not None:
            raise self._closed()
        runner.check()
        if runner.is_master:
            return not self._pending and runner.resolved_request == self._requests.last_request
        return runner.is_synced

    # The role.

    def is_master(self) -> bool:
        """Tell whether the store's master is here now: promotions change it."""
        return self._core.is_master()

    def promote(
        self, backend: Backend = Backend.Memory, *, force: bool = False, **options: object
    ) -> Promotion:
        """Make this clone the master of its store; see ``peermesh.Store.promote``."""
        ask = partial(self._core.promote, backend, force=force, **options)
        return self._passage.call(self._promote, ask)

    async def _promote(self, ask: Callable[[], Awaitable[Promotion]]) -> Promotion:
        self._take()
        return await ask()

    def verify(self, timeout: Seconds = VERIFY_SECONDS) -> Verification:
        """Compare what all replicas hold; see ``peermesh.Store.verify``."""
        return self._passage.call(self._core.verify, timeout)

    # The quota.

    def statistics(self) -> StoreStatistics:
        """Count what this replica has; see ``peermesh.Store.statistics``."""
        return self._passage.call_sync(self._core.statistics)

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change how much the store may hold; see ``peermesh.Store.set_quota``."""
        self._passage.call_sync(partial(self._core.set_quota, **limits))


class StoreProxy(StoreHandle):
    """A store without a copy; see ``endpoint.replicas.stores.store_proxy``."""

    def __init__(self, passage: Passage, core: CoreProxy) -> None:
        """Use ``Endpoint.attach_proxy``."""
        super().__init__(passage, core)
        self._proxy = core

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write; see ``peermesh.Store.not_before``."""
        return Reader(self._passage, self._proxy.not_before(since))

    def at_master(self) -> Reader:
        """Read at the master itself; see ``peermesh.Store.at_master``."""
        return Reader(self._passage, self._proxy.at_master())


class ReplicaStore(GroupHandle, ObservedStore, Coordinating):
    """A replica of a store whose group elects its leader; see ``peermesh.ReplicaStore``."""

    def __init__(self, passage: Passage, core: CoreReplica) -> None:
        """Use ``Endpoint.attach_replica``."""
        ObservedStore.__init__(self, passage, core)
        GroupHandle.__init__(self, passage, core)
        Coordinating.__init__(self, passage, core)
        self._replica = core

    def inside(self) -> tuple[Passage, CoreReplica]:
        """Give the way into the loop's thread, and the store in there: for what serves it."""
        return self._passage, self._replica

    def at_master(self) -> Reader:
        """Read as ``read("linear")`` does; see ``peermesh.ReplicaStore.at_master``."""
        return Reader(self._passage, self._replica.at_master())

    def read(self, consistency: str = "linear") -> Reader:
        """Read as consistently; see ``peermesh.ReplicaStore.read``."""
        return Reader(self._passage, self._replica.read(consistency))

    def set_quota(self, timeout: Seconds = ORDER_SECONDS, **limits: Unpack[QuotaLimits]) -> None:
        """Change the group's quota; see ``peermesh.ReplicaStore.set_quota``."""
        self._passage.call(partial(self._replica.set_quota, timeout, **limits))

    def statistics(self) -> StoreStatistics:
        """Count what this replica has."""
        return self._passage.call_sync(self._replica.statistics)
