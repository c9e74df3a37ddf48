"""The handle of a store: a master's or a clone's table, and the way to change it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, Unpack

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.attaching import Backend, backend_of
from endpoint.replicas.backends import take_quota
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.coordinating import Coordinating
from endpoint.replicas.stores.observing import ObservedStore
from endpoint.replicas.stores.promoting import Promotion
from endpoint.replicas.stores.reading import (
    CopySource,
    CopyTable,
    Reader,
    StoreCopy,
    check_revision,
    current,
    reached,
    readable,
)
from endpoint.replicas.stores.session import SessionPart, SessionTable
from endpoint.replicas.stores.store_handle import StoreHandle
from endpoint.replicas.stores.verifying import Verification
from endpoint.replicas.stores.watching import WatchedPart
from stores.quota import STORE_QUOTA, Quota, QuotaLimits
from stores.statistics import StoreStatistics
from stores.watches import Source
from wire.decoding import decode
from wire.encoding import encode
from wire.public import public
from wire.values import Value

VERIFY_SECONDS: Final = 10.0
"""How long a comparison of all replicas may take: clones are waited for for five seconds."""


class SharedTable(CopyTable, Source, SessionTable, Protocol):
    """What is read, watched, and looked at by sessions, of a copy."""


class MasterOrClone(StoreCopy, WatchedPart, SessionPart, Protocol):
    """The part of a master or a clone."""

    @property
    def table(self) -> SharedTable:
        """What is read, and watched."""

    async def verify(self, timeout: float) -> Verification:
        """Compare all replicas."""


class Wanted(NamedTuple):
    """What a master is to be like that a clone is promoted to."""

    backend: Backend
    options: dict[str, object]
    quota: Quota
    is_forced: bool


Promote = Callable[[Wanted], Awaitable[Promotion]]
"""Has a clone lead."""


@public
class Store(StoreHandle, Reader, ObservedStore, Coordinating):
    """A replicated table of typed keys and values (design section 10).

    Reads are local: at the master what is committed, at a clone some earlier state of the master,
    never going back. Mutations wait only for room, and give a receipt that tells what the master
    made of them.
    """

    def __init__(
        self, part: MasterOrClone, close: Callable[[], Awaitable[None]], promote: Promote
    ) -> None:
        """Use ``Endpoint.attach_master`` or ``Endpoint.attach_clone``."""
        self.part = part
        self._promote = promote
        ObservedStore.__init__(self, part)
        Reader.__init__(self, CopySource(part, partial(readable, part)))
        StoreHandle.__init__(self, part.runner, part.core.requests, close)
        Coordinating.__init__(self, part, self, self._ask)

    def __repr__(self) -> str:
        """Show the store's name, its role here, and the revision that readers see."""
        runner = self.runner
        role = "master" if runner.is_master else "clone"
        state = f"revision={self.part.core.revision}" if runner.error is None else "closed"
        return f"<Store {runner.name} {role} {state}>"

    # Reads, besides those of every reader.

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing; see ``Reader.get``.

        At a clone in touch with its master there is nothing to wait for, which is seen at a glance.
        """
        if not self.runner.is_in_touch:
            await readable(self.part)
        encoded = self.part.table.get(encode(key))
        return default if encoded is None else decode(encoded)

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write: ``await store.not_before(receipt).get(key)``.

        A receipt of any handle of this store, or the revision that one gave, may be from another
        process. A receipt that has an error raises it.
        """
        check_revision(since)
        return Reader(CopySource(self.part, partial(reached, self.part, since)))

    def at_master(self) -> Reader:
        """Read what is as fresh as at the master: ``await store.at_master().get(key)``.

        A clone asks its master first, and waits until it has all that the master had then. So
        each read sees every write that had its receipt, anywhere, before the read began.
        """
        return Reader(CopySource(self.part, partial(current, self.part)))

    # The role.

    def is_master(self) -> bool:
        """Tell whether the store's master is here now: promotions change it."""
        return self.runner.is_master

    async def promote(
        self,
        backend: Backend | str = Backend.Memory,
        *,
        force: bool = False,
        **options: object,
    ) -> Promotion:
        """Make this clone the master of its store; the handle stays as it is.

        The last master is fenced: when it returns it becomes a clone. ``backend`` and ``options``
        are those of ``attach_master``; a file has to be a new one, and the quota of the last master
        is not known here. What the last master acknowledged and did not hand on is lost. Raises
        ``PromotionRefused`` if the master is alive or something of it is known to be missing here:
        with ``force`` that is lost, too. Raises ``MasterExists`` at a master, and
        ``BackendFailure``.
        """
        backend = backend_of(backend)
        arguments.refuse_replicas(options)
        quota = take_quota(options, STORE_QUOTA)
        return await self._promote(Wanted(backend, options, quota, force))

    # The quota.

    def statistics(self) -> StoreStatistics:
        """Count what this replica has; at the master, the quota is among it."""
        return self.part.core.statistics()

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change ``max_entries``, ``max_bytes`` or both, at once; ``None`` sets no limit.

        What is there stays, even if it is more. It holds until the master ends: give
        ``attach_master`` the same. Raises ``NoSuchMaster`` at a clone, and ``InvalidData``.
        """
        self.runner.set_quota(**limits)

    async def verify(self, timeout: Seconds = VERIFY_SECONDS) -> Verification:
        """Compare what all replicas hold at one moment of the master's stream.

        A clone that differs begins anew by itself. Raises ``RequestTimeout`` without a master.
        """
        limit = arguments.seconds("timeout", timeout)
        await readable(self.part)
        return await self.part.verify(limit)
