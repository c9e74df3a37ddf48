"""The handles of a store whose copy is here: a master's or a clone's, and a group's replica's."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, Unpack

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.attaching import READ_SECONDS, Backend, backend_of
from endpoint.replicas.handle import GroupHandle, order_seconds
from endpoint.replicas.options import take_quota
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.events import QUEUE_SIZE, Events
from endpoint.replicas.stores.locks import Coordinating
from endpoint.replicas.stores.outcomes import Promotion, Verification
from endpoint.replicas.stores.part import TablePart, Wanted
from endpoint.replicas.stores.reading import (
    CopySource,
    Reader,
    check_revision,
    current,
    reached,
    readable,
    span_of,
)
from endpoint.replicas.stores.store_handle import StoreHandle
from endpoint.replicas.stores.watching import DecodedCommits, Watch, selection_of, start_of
from stores.quota import STORE_QUOTA, QuotaLimits
from stores.requests import encode_key
from stores.statistics import StoreStatistics
from stores.watches import Bookmark
from wire.decoding import decode
from wire.errors import InvalidData
from wire.public import public
from wire.values import Value

VERIFY_SECONDS: Final = 10.0
"""How long a comparison of all replicas may take: clones are waited for for five seconds."""


class ObservedStore:
    """A base of handles whose copy of a store is here."""

    def __init__(self, part: TablePart) -> None:
        """Follow what is in ``part``."""
        self._watched = part
        self._decoded = DecodedCommits()

    def events(self, *, prefix: Value = None, queue_size: int = QUEUE_SIZE) -> Events:
        """Follow what happens to each key from now on, with old and new value, and who did it.

        It never slows writers down: a reader that is more than ``queue_size`` events behind finds
        ``Missed`` in the place of the oldest.
        """
        return Events(self._watched, span_of(None, None, prefix), queue_size)

    def watch(
        self,
        *,
        prefix: Value = None,
        keys: Iterable[Value] | None = None,
        from_revision: int | None = None,
        after: Bookmark | None = None,
    ) -> Watch:
        """Give what there is, a ``Bookmark``, and then every ``Commit``: see ``stores.watches``.

        With ``from_revision`` it begins with the first commit of at least this revision instead:
        to go on after an interruption, give the last one's plus one; or give the last bookmark as
        ``after``, of this replica or of another one, which tells whether its history is the same.
        A ``Gap`` says that not all of what happened since is known any more; then what there is
        follows.
        """
        selection = selection_of(prefix, keys)
        return Watch(self._watched, selection, start_of(from_revision, after), self._decoded)


@public
class Store(StoreHandle, Reader, ObservedStore, Coordinating):
    """A replicated table of typed keys and values (design section 10).

    Reads are local: at the master what is committed, at a clone some earlier state of the master,
    never going back. Mutations wait only for room, and give a receipt that tells what the master
    made of them.
    """

    def __init__(self, part: TablePart) -> None:
        """Use ``Endpoint.attach_master`` or ``Endpoint.attach_clone``."""
        self.part = part
        ObservedStore.__init__(self, part)
        Reader.__init__(self, CopySource(part, partial(readable, part)))
        StoreHandle.__init__(self, part)
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

        At a clone in touch with its master there is nothing to wait for, nor at a master that has
        no request of its own under way, which is seen at a glance.
        """
        if not self.runner.is_settled:
            await readable(self.part)
        encoded = self.part.table.get(encode_key(key))
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
        return await self.part.promote(Wanted(backend, options, quota, force))

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


@public
class ReplicaStore(GroupHandle, StoreHandle, Reader, ObservedStore, Coordinating):
    """A replica of a store whose group elects its leader.

    A mutation's receipt is given once a majority of the voters has it, on the disk where they keep
    it there. Whichever endpoint it is asked at, the leader judges it. ``get`` and the other reads
    are local: some earlier state, never going back. ``read("linear")`` sees all that was
    acknowledged, anywhere, before the read began.
    """

    def __init__(self, part: TablePart) -> None:
        """Use ``Endpoint.attach_replica``."""
        self.part = part
        GroupHandle.__init__(self, part)
        ObservedStore.__init__(self, part)
        Reader.__init__(self, CopySource(part, partial(part.await_state, READ_SECONDS)))
        StoreHandle.__init__(self, part)
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
        encoded = self.part.core.machine.get(encode_key(key))
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
        voter that differs is told of as ``STORE_CONFLICT``. Raises ``NoQuorum`` without a leader,
        ``RequestTimeout`` and ``NotAllowed``.
        """
        return await self.part.verify(order_seconds(timeout))

    def statistics(self) -> StoreStatistics:
        """Count what this replica has."""
        return self.part.core.statistics()
