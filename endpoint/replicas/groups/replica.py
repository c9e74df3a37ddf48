"""The handle of a group's replica: its reads, its writes, and who leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Unpack

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import ORDER_SECONDS
from endpoint.replicas.groups.membership import GroupHandle, order_seconds
from endpoint.replicas.groups.table_part import TablePart
from endpoint.replicas.stores.coordinating import Coordinating
from endpoint.replicas.stores.observing import ObservedStore
from endpoint.replicas.stores.reading import READ_SECONDS, CopySource, Reader
from endpoint.replicas.stores.store import VERIFY_SECONDS
from endpoint.replicas.stores.store_handle import StoreHandle
from endpoint.replicas.stores.verifying import Verification
from stores.quota import QuotaLimits
from stores.statistics import StoreStatistics
from stores.table.bodies import ChangeQuota
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData
from wire.public import public
from wire.values import Value


@public
class ReplicaStore(GroupHandle, StoreHandle, Reader, ObservedStore, Coordinating):
    """A replica of a store whose group elects its leader.

    A mutation's receipt is given once a majority of the voters has it, on the disk where they keep
    it there. Whichever endpoint it is asked at, the leader judges it. ``get`` and the other reads
    are local: some earlier state, never going back. ``read("linear")`` sees all that was
    acknowledged, anywhere, before the read began.
    """

    def __init__(self, part: TablePart, close: Callable[[], Awaitable[None]]) -> None:
        """Use ``Endpoint.attach_replica``."""
        self.part = part
        GroupHandle.__init__(self, part)
        ObservedStore.__init__(self, part)
        Reader.__init__(self, CopySource(part, partial(part.await_state, READ_SECONDS)))
        StoreHandle.__init__(self, part.runner, part.core.requests, close)
        Coordinating.__init__(self, part, self, self._ask)

    def __repr__(self) -> str:
        """Show the store's name, what this replica is, and the revision that readers see."""
        runner = self.runner
        state = f"revision={self.part.core.revision}" if runner.error is None else "closed"
        role = "leader" if self.is_leader() else f"leader={self.leader()}"
        return f"<ReplicaStore {runner.name} {role} {state}>"

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing; see ``Reader.get``.

        A replica that has a state has nothing to wait for, which is seen at a glance.
        """
        if not self.part.has_state:
            await self.part.await_state(READ_SECONDS)
        encoded = self.part.core.machine.get(encode(key))
        return default if encoded is None else decode(encoded)

    def read(self, consistency: str = "linear") -> Reader:
        """Read as consistently: ``await store.read("linear").get(key)``.

        ``"linear"`` waits until a majority confirms the leader, and this replica has what it had
        committed; without a majority it raises ``NoQuorum``. ``"session"`` waits until this replica
        has all that was written by this handle before, whatever others wrote; it raises
        ``NoQuorum`` if that has no outcome in time. ``"local"`` reads at once.
        """
        part = self.part
        waits = {
            "local": part.await_state,
            "session": part.await_session,
            "linear": part.await_linear,
        }
        wait = waits.get(consistency)
        if wait is None:
            known = ", ".join(map(repr, waits))
            raise InvalidData(f"consistency={consistency!r}: there are {known}")
        return Reader(CopySource(self.part, partial(wait, READ_SECONDS)))

    def at_master(self) -> Reader:
        """Read as ``read("linear")`` does: so a ``Store`` is asked for what its master has."""
        return self.read("linear")

    # Comparison.

    async def verify(self, timeout: Seconds = VERIFY_SECONDS) -> Verification:
        """Compare what all members hold at one entry of the journal.

        Members are waited for for five seconds. A learner in memory that differs takes all anew; a
        voter that differs is told of as ``STORE_CONFLICT``. Raises ``RequestTimeout`` and
        ``NotAllowed``.
        """
        return await self.part.verify(order_seconds(timeout))

    # The quota.

    async def set_quota(
        self, timeout: Seconds = ORDER_SECONDS, **limits: Unpack[QuotaLimits]
    ) -> None:
        """Change ``max_entries``, ``max_bytes`` or both for the group; ``None`` sets no limit.

        It is of the group: every leader judges by it, now and after restarts. What is there stays,
        even if it is more. Raises ``InvalidData``, ``NoQuorum`` and ``NotAllowed``.
        """
        quota = replace(self.part.table.meter.quota, **limits)
        await self.part.ask(ChangeQuota(quota), order_seconds(timeout))

    def statistics(self) -> StoreStatistics:
        """Count what this replica has."""
        return self.part.core.statistics()
