"""The asyncio API. Written by ``tools/doors.py``: change the trio class."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self, Unpack, overload

from endpoint import arguments
from endpoint.barriers import Callback, Seconds, barrier
from endpoint.bound import Bound
from endpoint.closing import AsyncClosing, EitherClosing
from endpoint.endpoint import (
    AWAIT_PEER_SECONDS,
    AWAIT_SUBSCRIBED_SECONDS,
    PEER_SECONDS,
    RETRY_SECONDS,
    Endpoint as CoreEndpoint,
)
from endpoint.pubsub.options import AS_SET, AsSet
from endpoint.replicas.attaching import (
    ANSWER_SECONDS,
    BUFFER_SECONDS,
    LEADER_SECONDS,
    ORDER_SECONDS,
    PATIENCE_SECONDS,
    READ_SECONDS,
    STALE_SECONDS,
    TTL_SECONDS,
    Attaching,
    Backend,
)
from endpoint.replicas.handle import (
    AWAIT_IDLE_SECONDS,
    GroupHandle as CoreGroupHandle,
    GroupMember,
    ReplicaHandle as CoreReplicaHandle,
)
from endpoint.replicas.logs.log_reading import READ_LIMIT, LogEntry, Start
from endpoint.replicas.stores.events import QUEUE_SIZE, Events as CoreEvents, StoreEvent
from endpoint.replicas.stores.store import (
    VERIFY_SECONDS,
    ObservedStore as CoreObservedStore,
    ReplicaStore as CoreReplicaStore,
    Store as CoreStore,
)
from endpoint.replicas.stores.store_handle import PUT_UNIQUE_SECONDS, StoreHandle as CoreStoreHandle
from peermesh.aio.coordination import SessionBlock
from peermesh.aio.living import Life
from stores.log.limits import FETCH_SIZE_MAX
from stores.scanning import LATEST, PAGE_COUNT
from wire.errors import FAILURES, EndpointClosed, StoreClosed

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterable, Mapping
    from datetime import datetime, timedelta

    from endpoint.arguments import NodeId
    from endpoint.inspection import Snapshot
    from endpoint.mesh.status import StatusCode, StatusEvent
    from endpoint.outcome import Outcome
    from endpoint.pubsub.messages import Missed
    from endpoint.pubsub.publisher import Publisher
    from endpoint.pubsub.stream import StatusSubscriber as CoreStatusSubscriber
    from endpoint.replicas.logs.log import Log as CoreLog, ReplicaLog as CoreReplicaLog
    from endpoint.replicas.logs.log_consumer import LogConsumer as CoreLogConsumer
    from endpoint.replicas.logs.log_handle import LogHandle as CoreLogHandle
    from endpoint.replicas.logs.log_receipts import AppendReceipt, LogPromotion
    from endpoint.replicas.receipts import Receipt
    from endpoint.replicas.stores.locks import (
        Coordinating as CoreCoordinating,
        Elected,
        Elections as CoreElections,
        FencingToken,
        Lock as CoreLock,
    )
    from endpoint.replicas.stores.outcomes import Promotion, Verification
    from endpoint.replicas.stores.reading import Entry, Page, Reader as CoreReader
    from endpoint.replicas.stores.session import Session as CoreSession
    from endpoint.replicas.stores.store_proxy import StoreProxy as CoreStoreProxy
    from endpoint.replicas.stores.watching import Watch as CoreWatch, WatchItem
    from endpoint.statistics import DialInfo, EndpointStatistics, PeerInfo
    from handshake.credentials import Credentials
    from handshake.keyfiles import RolesSource
    from peermesh.aio.hot import Subscriber
    from peermesh.aio.passage import Passage
    from stores import scanning
    from stores.batch import Batch
    from stores.log.bookmarks import LogBookmark
    from stores.log.partitions import Span
    from stores.log.runs import Run
    from stores.mutations import Expiry
    from stores.quota import QuotaLimits
    from stores.statistics import LogStatistics, StoreStatistics
    from stores.watches import Bookmark
    from wire.identifiers import EndpointId
    from wire.values import Value


class Reader(Bound):
    """Reads of a store. At a copy each is of one moment; a proxy's is, if it is of one page.

    A ``Store`` itself reads at once. ``Store.not_before`` and ``Store.at_master`` give readers that
    wait for what they promise; all of them have the same methods. A proxy asks the nearest replica
    that is far enough, or the master.
    """

    def __init__(self, passage: Passage, core: CoreReader) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._reader = core

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing.

        Raises ``StaleData`` if a clone has not found its master, or got as far as it has to, in
        ``READ_SECONDS``; at a proxy if no replica answers in that time, or all that can be reached
        are out of touch; ``InvalidData`` for a key of more than 64 KiB, which no store has; and
        ``StoreClosed``.
        """
        return await self._passage.call(self._reader.get, key, default)

    async def get_index_from_value(self, key: Value, index: Value) -> Value:
        """Look into the value of a key, as Broker does: what is there depends on its type.

        An element of a vector by its position, whether a set holds the index, a table's value
        of that key; of any other type the value itself. Raises ``NoSuchKey`` if the key, the
        position or the table's key is missing, ``TypeClash`` if the position is no number. To a
        proxy the value travels as a whole.
        """
        return await self._passage.call(self._reader.get_index_from_value, key, index)

    async def entry(self, key: Value) -> Entry | None:
        """Give the value of a key with its revision and expiry; ``None`` if it is missing."""
        return await self._passage.call(self._reader.entry, key)

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there; at a proxy its value stays where it is."""
        return await self._passage.call(self._reader.exists, key)

    async def keys(self) -> list[Value]:
        """Give all keys, in no order; at a proxy page by page, in their order."""
        return await self._passage.call(self._reader.keys)

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, in no order; at a proxy page by page, in their order."""
        return await self._passage.call(self._reader.items)

    async def scan(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
        after: bytes | None = None,
        revision: int | None = None,
    ) -> Page:
        """Give a page of entries in the order of keys (``stores.order``).

        From ``start`` on, up to ``stop`` and without it; none is the least of all keys, and as a
        ``stop`` it means the end. ``prefix`` is text, bytes or a vector. The ``continuation`` of a
        page, given as ``after`` to the same scan, gets the next one. A key that is there from the
        first page to the last is in exactly one, whatever is written meanwhile. A proxy's page may
        end earlier than ``limit``, as an answer has up to 256 KiB; only a page without a
        ``continuation`` is the last.

        With ``revision=0`` the replica that is read keeps what there is for the pages after this
        one, unless this is the last. Give them its ``revision``: they are as of that, as are scans
        of other spans, and of other readers. Raises ``RevisionGone`` where no replica in reach
        keeps it any more; see ``pages``, which does all this.
        """
        return await self._passage.call(
            self._reader.scan,
            start,
            stop,
            prefix=prefix,
            limit=limit,
            after=after,
            revision=revision,
        )

    async def scan_encoded(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
        after: bytes | None = None,
        revision: int | None = None,
        step: int = 1,
    ) -> scanning.Page:
        """Give a page as ``scan`` does, and decode nothing: its ``rows`` are columns of bytes.

        With a ``step`` it is only every so many-th entry: their keys cut the store into parts of as
        many entries, which several readers can go through at once, all of one revision.
        """
        return await self._passage.call(
            self._reader.scan_encoded,
            start,
            stop,
            prefix=prefix,
            limit=limit,
            after=after,
            revision=revision,
            step=step,
        )

    async def pages(
        self,
        start: Value = None,
        stop: Value = None,
        *,
        prefix: Value = None,
        limit: int = PAGE_COUNT,
    ) -> AsyncIterator[Page]:
        """Go through a scan page by page, all as of one revision, whatever is written meanwhile.

        A page has up to ``limit`` entries, and there is at least one page. Raises ``RevisionGone``
        where the revision was let go: after a pause of a minute, with the replica that was read, or
        for changes of 64 MiB, or for 16 readers that were not idle for as long. Read from the start
        again then.
        """
        page = await self.scan(start, stop, prefix=prefix, limit=limit, revision=LATEST)
        yield page
        while page.continuation is not None:
            after, revision = (page.continuation, page.revision)
            page = await self.scan(
                start, stop, prefix=prefix, limit=limit, after=after, revision=revision
            )
            yield page

    async def entries(
        self, start: Value = None, stop: Value = None, *, prefix: Value = None
    ) -> AsyncIterator[Entry]:
        """Go through all entries of a scan, page after page; each page is of its own moment."""
        after: bytes | None = None
        while True:
            page = await self.scan(start, stop, prefix=prefix, after=after)
            for entry in page:
                yield entry
            after = page.continuation
            if after is None:
                return


class ReplicaHandle(AsyncClosing):
    """A base of the handles that users get."""

    def __init__(self, passage: Passage, core: CoreReplicaHandle) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._replica_handle = core

    def name(self) -> str:
        """Give the name of the store or log."""
        return self._replica_handle.name()

    @overload
    async def await_idle(self, timeout: Seconds = AWAIT_IDLE_SECONDS) -> Outcome: ...
    @overload
    async def await_idle(
        self, callback: Callback, timeout: Seconds = AWAIT_IDLE_SECONDS
    ) -> None: ...
    async def await_idle(
        self,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_IDLE_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until it is idle (seed 7.6.1); false after ``timeout`` seconds, with the reason.

        A store's master is idle when all its clones have acknowledged everything. A clone is idle
        when it has its master's state as of a round trip, and the master everything that was asked
        here. A log's keeper is idle when all that was asked is committed, and acknowledged by all
        followers; a follower when it has what its keeper had after it was asked.
        With a ``callback``, in the place of the timeout or before it, it returns ``None`` at once,
        and the callback is given the outcome later.
        """
        how = barrier("await_idle", positional, timeout, callback, AWAIT_IDLE_SECONDS)
        wait = partial(self._replica_handle.await_idle, timeout=how.seconds, callback=how.callback)
        return await self._passage.wait(how, wait)

    async def close(self) -> None:
        """Let go of the store or log, after what was asked here has its outcome."""
        await self._passage.end(self._replica_handle.close)


class StoreHandle(ReplicaHandle):
    """Changes a store through its runner: a master's, a clone's or a proxy's."""

    def __init__(self, passage: Passage, core: CoreStoreHandle) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        ReplicaHandle.__init__(self, passage, core)
        self._store_handle = core

    async def put(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Set a key. Without an expiry it stays for ever, whatever it had before."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.put(key, value, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def put_unique(
        self,
        key: Value,
        value: Value,
        expiry: Expiry = None,
        *,
        timeout: Seconds = PUT_UNIQUE_SECONDS,
    ) -> bool:
        """Set a key if it is missing; tell whether it was. Of all callers that try, one succeeds.

        Raises ``RequestTimeout`` if the master does not answer within ``timeout`` seconds. Then, or
        cancelled while it waits for the answer, the key may be set.
        """
        return await self._passage.call(
            self._store_handle.put_unique, key, value, expiry, timeout=timeout
        )

    async def erase(self, key: Value) -> Receipt:
        """Remove a key, present or not."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.erase(key)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def clear(self) -> Receipt:
        """Remove everything."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.clear()
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def increment(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Add to a number or an instant; a missing key begins at zero."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.increment(key, amount, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def decrement(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Take away from a number or an instant; the key has to be there."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.decrement(key, amount, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def append(self, key: Value, text: Value, expiry: Expiry = None) -> Receipt:
        """Append to a string; a missing key begins empty."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.append(key, text, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: Expiry = None
    ) -> Receipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.insert_into(key, index, *value, expiry=expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def remove_from(self, key: Value, index: Value, expiry: Expiry = None) -> Receipt:
        """Remove an element from a set, or an entry from a table."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.remove_from(key, index, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def push(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Append an element to a vector; a missing key begins empty."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.push(key, value, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def pop(self, key: Value, expiry: Expiry = None) -> Receipt:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.pop(key, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def batch(self, batch: Batch) -> Receipt:
        """Do all of a batch as one mutation, if its guards hold."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.batch(batch)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def compare_and_set(
        self, key: Value, value: Value, revision: int | None, expiry: Expiry = None
    ) -> Receipt:
        """Set a key if its ``entry`` has this revision still.

        ``None`` stands for a key that is missing. Otherwise the receipt raises ``GuardFailed``, and
        nothing happened. The revision that it gives is the one for the next time.
        """
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.compare_and_set(key, value, revision, expiry)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__

    async def compare_and_erase(self, key: Value, revision: int) -> Receipt:
        """Remove a key if it is unchanged since this revision; see ``compare_and_set``."""
        core = self._store_handle
        while core.is_due:
            await self._passage.rest(core)
        try:
            return await core.compare_and_erase(key, revision)
        except StoreClosed as error:
            raise self._passage.better(error) from error.__cause__


class ObservedStore:
    """A base of handles whose copy of a store is here."""

    def __init__(self, passage: Passage, core: CoreObservedStore) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._observed_store = core

    def events(self, *, prefix: Value = None, queue_size: int = QUEUE_SIZE) -> Events:
        """Follow what happens to each key from now on, with old and new value, and who did it.

        It never slows writers down: a reader that is more than ``queue_size`` events behind finds
        ``Missed`` in the place of the oldest.
        """
        return Events(
            self._passage,
            self._passage.look(self._observed_store.events, prefix=prefix, queue_size=queue_size),
        )

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
        return Watch(
            self._passage,
            self._passage.look(
                self._observed_store.watch,
                prefix=prefix,
                keys=keys,
                from_revision=from_revision,
                after=after,
            ),
        )


class GroupHandle:
    """A replica whose group elects its leader, as far as the group is looked at, and steered."""

    def __init__(self, passage: Passage, core: CoreGroupHandle) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._group_handle = core

    def leader(self) -> str | None:
        """Give the name of the leader, as far as this replica knows; ``None`` if it knows none."""
        return self._passage.look(self._group_handle.leader)

    def is_leader(self) -> bool:
        """Tell whether this replica leads, and serves."""
        return self._passage.look(self._group_handle.is_leader)

    async def await_leader(self, timeout: Seconds = LEADER_SECONDS) -> str:
        """Wait until a leader serves this replica, and give its name.

        Raises ``NoQuorum`` after ``timeout`` seconds, which says what is missing.
        """
        return await self._passage.call(self._group_handle.await_leader, timeout)

    async def members(self) -> list[GroupMember]:
        """Give all members, as the leader knows them; without one the voters, by name alone."""
        return await self._passage.call(self._group_handle.members)

    async def add_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Give the replica at the endpoint called ``name`` a vote, once in touch and level.

        Raises ``NoQuorum``, ``NotAllowed`` and ``RequestTimeout``, which says what is in the way
        after ``timeout`` seconds; then it may be done later still.
        """
        return await self._passage.call(self._group_handle.add_voter, name, timeout)

    async def remove_voter(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Take the vote of the replica at the endpoint called ``name``.

        Refused while the voters that stay have no healthy majority, and of three voters for one
        that is in touch: two voters survive no loss. It is a decision of the group, and holds under
        every leader, also for one that is declared (``voters=``), is away, comes back or begins
        anew, until ``add_voter``; 64 names are kept so, the latest ones, and first of all those
        that the leader was given as voters. Raises as ``add_voter`` does.
        """
        return await self._passage.call(self._group_handle.remove_voter, name, timeout)

    async def transfer(self, name: str, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have the voter at the endpoint called ``name`` lead; raises as ``add_voter`` does."""
        return await self._passage.call(self._group_handle.transfer, name, timeout)

    async def promote(self, *, force: bool = False, timeout: Seconds = ORDER_SECONDS) -> None:
        """Have this replica lead: by a transfer, or with ``force`` without a majority.

        ``force`` is for a person who knows that the other voters are gone for good. What a majority
        of them had and this replica lacks is lost, though it was acknowledged; a voter that comes
        back with it keeps it in a file of its own, ``PATH.lost-TERM``. A leader that a majority
        follows has nothing to force, and goes on. Raises as ``add_voter`` does, and with ``force``
        ``PromotionRefused`` while another replica leads.
        """
        return await self._passage.call(self._group_handle.promote, force=force, timeout=timeout)

    async def set_quota(
        self, timeout: Seconds = ORDER_SECONDS, **limits: Unpack[QuotaLimits]
    ) -> None:
        """Change ``max_entries``, ``max_bytes`` or both for the group; ``None`` sets no limit.

        It is of the group: every leader judges by it, now and after restarts. What is there stays,
        even if it is more. Raises ``InvalidData``, ``NoQuorum`` and ``NotAllowed``.
        """
        return await self._passage.call(self._group_handle.set_quota, timeout, **limits)


class Session(SessionBlock):
    """Keys that die with their holder: ``async with store.session(ttl=10) as session``.

    A task of the endpoint renews it. The block is cancelled, and raises ``SessionExpired``, when no
    majority has acknowledged a renewal that was sent within the last ``ttl`` seconds: so the holder
    learns of it before the group ends the session. The end of the block ends the session.
    """

    def __init__(self, passage: Passage, core: CoreSession) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        SessionBlock.__init__(self, passage, core)
        self._session = core

    def __repr__(self) -> str:
        """Show its store, and its number."""
        return repr(self._session)

    @property
    def number(self) -> int:
        """What ``Entry.session`` of its keys is; raises ``SessionExpired`` before it is open."""
        return self._session.number

    @property
    def ttl(self) -> float:
        """Its time to live, in seconds."""
        return self._session.ttl

    async def wait_lost(self) -> None:
        """Wait until it is lost; it is not by its end."""
        return await self._passage.call(self._session.wait_lost)

    async def put(self, key: Value, value: Value) -> Receipt:
        """Set a key for as long as the session lives.

        The key goes with the session of its last put: one without a session keeps it. The receipt
        raises ``SessionExpired`` if the session had ended, ``QuotaExceeded`` if it has too many
        keys.
        """
        return await self._passage.call(self._session.put, key, value)

    async def put_unique(self, key: Value, value: Value) -> bool:
        """Set a key if it is missing, and tell whether it was; see ``put``."""
        return await self._passage.call(self._session.put_unique, key, value)

    async def close(self) -> None:
        """End it, and all of its keys; once more does nothing.

        Waits until the group has ended it; for no answer if it is lost, as there may be none.
        """
        await self._passage.end(self._session.close)


class Lock(Session):
    """A name that one holds at a time: ``async with store.lock("name") as lock``.

    It is a session, too: the block is cancelled when it is lost. A holder that was paused may not
    know yet; ``token`` and ``guard`` are for that.
    """

    def __init__(self, passage: Passage, core: CoreLock) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        Session.__init__(self, passage, core)
        self._lock = core

    @property
    def token(self) -> FencingToken:
        """What to give along with all that is done while it is held."""
        return self._lock.token

    def guard(self, batch: Batch) -> Batch:
        """Have a batch for the same store fail with ``GuardFailed`` unless this is held.

        The leader judges it: nothing that a later holder does comes between.
        """
        return self._passage.look(self._lock.guard, batch)


class Elections(EitherClosing):
    """Who is elected, from now on: ``async for elected in store.elections("name")``.

    Gives ``Elected``, or ``None`` while there is none; first who it is now, then each change. Of
    changes that follow each other closely, the last one.
    """

    def __init__(self, passage: Passage, core: CoreElections) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._elections = core

    async def get(self, timeout: Seconds = None) -> Elected | None:
        """Wait for the next change, for ``timeout`` seconds at most.

        Raises ``RequestTimeout`` then, and ``StoreClosed`` when none can come.
        """
        core = self._elections
        limit = arguments.seconds("timeout", timeout)
        core.forget()
        if await self._passage.await_ready(core, limit):
            return core.take()
        raise core.late(limit)

    def poll(self) -> list[Elected | None]:
        """Give nothing: whether there is a change is not seen without waiting."""
        return self._passage.look(self._elections.poll)

    def close(self) -> None:
        """Follow no longer."""
        self._passage.close(self._elections.close)

    def __aiter__(self) -> Self:
        """Iterate until it, or the store, is closed."""
        return self

    async def __anext__(self) -> Elected | None:
        """Wait for the next change."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


class Coordinating:
    """A store with sessions, and what stands on them."""

    def __init__(self, passage: Passage, core: CoreCoordinating) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._coordinating = core

    def session(self, ttl: float | timedelta = TTL_SECONDS) -> Session:
        """Have keys that die with this process: ``async with store.session(ttl=10) as session``.

        Without a renewal the leader ends it, with all that was put in it, after ``ttl`` seconds: 2
        to 3,600. Opening it raises ``NoQuorum``, ``NotAllowed`` and ``QuotaExceeded``.
        """
        return Session(self._passage, self._passage.look(self._coordinating.session, ttl))

    def lock(
        self, name: str, *, ttl: float | timedelta = TTL_SECONDS, timeout: Seconds = None
    ) -> Lock:
        """Hold a name alone: ``async with store.lock("name") as lock``; first come, first served.

        Waits for ``timeout`` seconds in all, then raises ``RequestTimeout``; with ``timeout=0`` for
        no holder, only for the group's word. A holder that dies holds it for ``ttl`` seconds more.
        The block is cancelled, and raises ``SessionExpired``, before another one can hold it; but a
        process that is paused goes on for a moment when it wakes: see ``Lock.token`` and
        ``Lock.guard``.
        """
        return Lock(
            self._passage,
            self._passage.look(self._coordinating.lock, name, ttl=ttl, timeout=timeout),
        )

    def elect(
        self,
        name: str,
        value: Value = None,
        *,
        ttl: float | timedelta = TTL_SECONDS,
        timeout: Seconds = None,
    ) -> Lock:
        """Stand for election: ``async with store.elect("name", value="me") as lead``.

        The block begins once this one is elected, and ends as that of a ``lock`` does; leaving it
        resigns. ``elected`` and ``elections`` tell others the value.
        """
        return Lock(
            self._passage,
            self._passage.look(self._coordinating.elect, name, value, ttl=ttl, timeout=timeout),
        )

    async def elected(self, name: str) -> Elected | None:
        """Give who is elected, as far as this replica knows; ``None`` if none is.

        It may be over as soon as this is read.
        """
        return await self._passage.call(self._coordinating.elected, name)

    def elections(self, name: str) -> Elections:
        """Follow who is elected: ``async for elected in store.elections("name")``."""
        return Elections(self._passage, self._passage.look(self._coordinating.elections, name))


class Store(StoreHandle, Reader, ObservedStore, Coordinating):
    """A replicated table of typed keys and values (design section 10).

    Reads are local: at the master what is committed, at a clone some earlier state of the master,
    never going back. Mutations wait only for room, and give a receipt that tells what the master
    made of them.
    """

    def __init__(self, passage: Passage, core: CoreStore) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        StoreHandle.__init__(self, passage, core)
        Reader.__init__(self, passage, core)
        ObservedStore.__init__(self, passage, core)
        Coordinating.__init__(self, passage, core)
        self._store = core

    def __repr__(self) -> str:
        """Show the store's name, its role here, and the revision that readers see."""
        return repr(self._store)

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing; see ``Reader.get``.

        At a clone in touch with its master there is nothing to wait for, nor at a master that has
        no request of its own under way, which is seen at a glance.
        """
        if self._store.runner.is_settled:
            return await self._store.get(key, default)
        return await self._passage.call(self._store.get, key, default)

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write: ``await store.not_before(receipt).get(key)``.

        A receipt of any handle of this store, or the revision that one gave, may be from another
        process. A receipt that has an error raises it.
        """
        return Reader(self._passage, self._passage.look(self._store.not_before, since))

    def at_master(self) -> Reader:
        """Read what is as fresh as at the master: ``await store.at_master().get(key)``.

        A clone asks its master first, and waits until it has all that the master had then. So
        each read sees every write that had its receipt, anywhere, before the read began.
        """
        return Reader(self._passage, self._passage.look(self._store.at_master))

    def is_master(self) -> bool:
        """Tell whether the store's master is here now: promotions change it."""
        return self._store.is_master()

    async def promote(
        self, backend: Backend | str = Backend.Memory, *, force: bool = False, **options: object
    ) -> Promotion:
        """Make this clone the master of its store; the handle stays as it is.

        The last master is fenced: when it returns it becomes a clone. ``backend`` and ``options``
        are those of ``attach_master``; a file has to be a new one, and the quota of the last master
        is not known here. What the last master acknowledged and did not hand on is lost. Raises
        ``PromotionRefused`` if the master is alive or something of it is known to be missing here:
        with ``force`` that is lost, too. Raises ``MasterExists`` at a master, and
        ``BackendFailure``.
        """
        return await self._passage.call(self._store.promote, backend, force=force, **options)

    def statistics(self) -> StoreStatistics:
        """Count what this replica has; at the master, the quota is among it."""
        return self._passage.look(self._store.statistics)

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change ``max_entries``, ``max_bytes`` or both, at once; ``None`` sets no limit.

        What is there stays, even if it is more. It holds until the master ends: give
        ``attach_master`` the same. Raises ``NoSuchMaster`` at a clone, and ``InvalidData``.
        """
        return self._passage.look(self._store.set_quota, **limits)

    async def verify(self, timeout: Seconds = VERIFY_SECONDS) -> Verification:
        """Compare what all replicas hold at one moment of the master's stream.

        A clone that differs begins anew by itself. Raises ``RequestTimeout`` without a master.
        """
        return await self._passage.call(self._store.verify, timeout)

    def inside(self) -> tuple[Passage, CoreStore]:
        """Give the way to what lives there, and that: for front ends."""
        return self._passage, self._store


class StoreProxy(StoreHandle, Reader):
    """A store without a copy: for a program that comes, reads or writes a little, and goes.

    Reads ask the nearest replica, and never go back; they see every write whose receipt this handle
    has. Mutations go to the master, and are applied once.
    """

    def __init__(self, passage: Passage, core: CoreStoreProxy) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        StoreHandle.__init__(self, passage, core)
        Reader.__init__(self, passage, core)
        self._store_proxy = core

    def __repr__(self) -> str:
        """Show the store's name, and whether the handle is closed."""
        return repr(self._store_proxy)

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write; see ``Store.not_before``."""
        return Reader(self._passage, self._passage.look(self._store_proxy.not_before, since))

    def at_master(self) -> Reader:
        """Read at the master itself: what has every write that anybody had a receipt for."""
        return Reader(self._passage, self._passage.look(self._store_proxy.at_master))


class ReplicaStore(GroupHandle, StoreHandle, Reader, ObservedStore, Coordinating):
    """A replica of a store whose group elects its leader.

    A mutation's receipt is given once a majority of the voters has it, on the disk where they keep
    it there. Whichever endpoint it is asked at, the leader judges it. ``get`` and the other reads
    are local: some earlier state, never going back. ``read("linear")`` sees all that was
    acknowledged, anywhere, before the read began.
    """

    def __init__(self, passage: Passage, core: CoreReplicaStore) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        GroupHandle.__init__(self, passage, core)
        StoreHandle.__init__(self, passage, core)
        Reader.__init__(self, passage, core)
        ObservedStore.__init__(self, passage, core)
        Coordinating.__init__(self, passage, core)
        self._replica_store = core

    def __repr__(self) -> str:
        """Show the store's name, what this replica is, and the revision that readers see."""
        return repr(self._replica_store)

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing; see ``Reader.get``.

        A replica that has a state has nothing to wait for, which is seen at a glance.
        """
        if self._replica_store.part.has_state:
            return await self._replica_store.get(key, default)
        return await self._passage.call(self._replica_store.get, key, default)

    def read(self, consistency: str = "linear") -> Reader:
        """Read as consistently: ``await store.read("linear").get(key)``.

        ``"linear"`` waits until a majority confirms the leader, and this replica has what it had
        committed; without a majority it raises ``NoQuorum``. ``"session"`` waits until this replica
        has all that was written by this handle before, whatever others wrote; it raises
        ``NoQuorum`` if that has no outcome in time. ``"local"`` reads at once.
        """
        return Reader(self._passage, self._passage.look(self._replica_store.read, consistency))

    def at_master(self) -> Reader:
        """Read as ``read("linear")`` does: so a ``Store`` is asked for what its master has."""
        return Reader(self._passage, self._passage.look(self._replica_store.at_master))

    async def verify(self, timeout: Seconds = VERIFY_SECONDS) -> Verification:
        """Compare what all members hold at one entry of the journal.

        Members are waited for for five seconds. A learner in memory that differs takes all anew; a
        voter that differs is told of as ``STORE_CONFLICT``. Raises ``NoQuorum`` without a leader,
        ``RequestTimeout`` and ``NotAllowed``.
        """
        return await self._passage.call(self._replica_store.verify, timeout)

    def statistics(self) -> StoreStatistics:
        """Count what this replica has."""
        return self._passage.look(self._replica_store.statistics)

    def inside(self) -> tuple[Passage, CoreReplicaStore]:
        """Give the way to what lives there, and that: for front ends."""
        return self._passage, self._replica_store


class Events(EitherClosing):
    """What happens to the keys of a store from now on, in the order in which its master commits.

    ``async for event in store.events()`` gives ``StoreEvent``, and ``Missed`` where events were
    dropped as they were not read. To miss nothing, and to go on after an interruption, ``watch``.
    """

    def __init__(self, passage: Passage, core: CoreEvents) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._events = core

    def __repr__(self) -> str:
        """Show the store, and how many events wait."""
        return repr(self._events)

    async def get(self, timeout: Seconds = None) -> StoreEvent | Missed:
        """Wait for the next event, for ``timeout`` seconds at most.

        Raises ``RequestTimeout`` then, and ``StoreClosed`` when no more events can come.
        """
        core = self._events
        limit = arguments.seconds("timeout", timeout)
        if await self._passage.await_ready(core, limit):
            return core.take()
        raise core.late(limit)

    def poll(self) -> list[StoreEvent | Missed]:
        """Take all events that are there."""
        return self._passage.look(self._events.poll)

    def close(self) -> None:
        """Follow no longer."""
        self._passage.close(self._events.close)

    def __aiter__(self) -> Self:
        """Iterate until the store is closed."""
        return self

    async def __anext__(self) -> StoreEvent | Missed:
        """Wait for the next event."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


class Watch(EitherClosing):
    """A watch of a store: ``async for item in store.watch(prefix="job/")``.

    Items are ``Entry`` for what there is, ``Bookmark``, ``Commit`` and ``Gap``. Closing it waits
    for nothing; the ``revision`` at any time is what to resume after, there or elsewhere.
    """

    def __init__(self, passage: Passage, core: CoreWatch) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._watch = core

    @property
    def revision(self) -> int:
        """Everything up to it was given: ``watch(…, from_revision=revision + 1)`` goes on there.

        While what there is is being given, it is the revision of before.
        """
        return self._watch.revision

    def __repr__(self) -> str:
        """Show the store, and up to which revision everything was given."""
        return repr(self._watch)

    async def get(self, timeout: Seconds = None) -> WatchItem:
        """Wait for the next item, for ``timeout`` seconds at most.

        Raises ``RequestTimeout`` then, ``StoreClosed`` when nothing more can come, and
        ``NotAllowed`` when this endpoint may not read the store any more.
        """
        core = self._watch
        limit = arguments.seconds("timeout", timeout)
        if await self._passage.await_ready(core, limit):
            return core.take()
        raise core.late(limit)

    def poll(self) -> list[WatchItem]:
        """Take what is there, without waiting."""
        return self._passage.look(self._watch.poll)

    def close(self) -> None:
        """Watch no longer; a task that waits for an item gets ``StoreClosed``."""
        self._passage.close(self._watch.close)

    def __aiter__(self) -> Self:
        """Iterate until the watch or the store is closed."""
        return self

    async def __anext__(self) -> WatchItem:
        """Wait for the next item."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


class LogHandle(ReplicaHandle):
    """An append-only store of entries, in partitions, each with offsets from zero.

    An append with a receipt is there once, in order for each handle and partition. Readers see
    what is committed.
    """

    def __init__(self, passage: Passage, core: CoreLogHandle) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        ReplicaHandle.__init__(self, passage, core)
        self._log_handle = core

    async def partition_count(self) -> int:
        """Give the number of partitions, which never changes.

        A handle that has not met the keeper yet waits for it; see ``append``.
        """
        return await self._passage.call(self._log_handle.partition_count)

    async def append(
        self,
        value: Value,
        key: Value = None,
        *,
        partition: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append an entry; ``await receipt.applied()`` gives its place.

        Entries of one key go to one partition; without a key and a partition they take turns. With
        ``producer`` and a growing ``sequence`` a repetition is recognised, after restarts of any
        end, and its receipt names the place of the first. Raises ``KeeperUnreachable`` if no keeper
        was ever met within the patience of the handle, and in a group ``NoQuorum`` if the log has
        not begun.
        """
        return await self._passage.call(
            self._log_handle.append,
            value,
            key,
            partition=partition,
            producer=producer,
            sequence=sequence,
        )

    async def append_batch(
        self,
        values: Iterable[Value],
        key: Value = None,
        *,
        partition: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append entries to one partition, one after the other, all or none of them."""
        return await self._passage.call(
            self._log_handle.append_batch,
            values,
            key,
            partition=partition,
            producer=producer,
            sequence=sequence,
        )

    async def append_entries(
        self,
        entries: Iterable[tuple[Value, Value]],
        *,
        partition: int,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> AppendReceipt:
        """Append entries, each a key or ``None`` and a value, to one partition: all or none."""
        return await self._passage.call(
            self._log_handle.append_entries,
            entries,
            partition=partition,
            producer=producer,
            sequence=sequence,
        )

    async def trim(self, partition: int, offset: int) -> Receipt:
        """Let the entries of a partition before an offset go, read or not."""
        return await self._passage.call(self._log_handle.trim, partition, offset)

    async def read(
        self, partition: int, offset: int, limit: int = READ_LIMIT, timeout: Seconds = 0.0
    ) -> list[LogEntry]:
        """Read entries from an offset on: what is there, or after ``timeout`` seconds nothing.

        Raises ``OffsetOutOfRange`` for entries that are gone, and for an offset beyond the end that
        no entry ever had here, or none has any more. Raises ``NoSuchPartition``, too, and
        ``KeeperUnreachable``.
        """
        return await self._passage.call(self._log_handle.read, partition, offset, limit, timeout)

    async def runs(
        self,
        positions: Mapping[int, int],
        size: int = FETCH_SIZE_MAX,
        timeout: Seconds = 0.0,
        *,
        after: LogBookmark | None = None,
    ) -> list[Run]:
        """Read from several partitions with one question, and decode nothing.

        ``positions`` has an offset for each of up to 1,024 partitions. What comes are runs, as the
        leader has them: entries of one partition that were committed together. There are up to
        ``size`` bytes of them, 1 MiB at most, and one run at least if there is an entry; those of
        the partition that is named first come first. A run may begin before the offset asked for.
        Nothing comes after ``timeout`` seconds. Raises as ``read`` does; ``after`` a bookmark of
        ``marked_offsets`` ``OffsetOutOfRange``, too, if another log began since, or if entries
        before ``positions`` that were there then are lost.
        """
        return await self._passage.call(
            self._log_handle.runs, positions, size, timeout, after=after
        )

    def consume(
        self,
        name: str | None = None,
        *,
        start: Start | Mapping[int, int] = Start.EARLIEST,
        partitions: Iterable[int] | None = None,
    ) -> LogConsumer:
        """Give a consumer: ``async for entry in log.consume("name")``.

        One with a name goes on where it has committed; ``start`` is for partitions where it has
        not, and for one without a name: an end of the log, or an offset for each partition. With
        ``partitions`` it reads these alone; of none, nothing ever comes.
        """
        return LogConsumer(
            self._passage,
            self._passage.look(self._log_handle.consume, name, start=start, partitions=partitions),
        )

    async def offsets(self) -> dict[int, Span]:
        """Give the first offset of each partition, and the one after the last."""
        return await self._passage.call(self._log_handle.offsets)

    async def marked_offsets(self) -> tuple[dict[int, Span], LogBookmark]:
        """Give what ``offsets`` does, and which log it is: for a program that keeps offsets.

        ``runs`` takes it as ``after``.
        """
        return await self._passage.call(self._log_handle.marked_offsets)

    async def offsets_at(self, when: datetime | int) -> dict[int, int]:
        """Give the offset of each partition's first entry that was appended then or later.

        If there is none, it is the one that the next entry will have. A number is in nanoseconds
        since 1970. However many partitions there are, it is one question.
        """
        return await self._passage.call(self._log_handle.offsets_at, when)

    async def offset_at(self, partition: int, when: datetime | int) -> int:
        """Give what ``offsets_at`` does for one partition; raises ``NoSuchPartition``."""
        return await self._passage.call(self._log_handle.offset_at, partition, when)

    async def commit(self, consumer: str, positions: Mapping[int, int]) -> Receipt:
        """Remember that a consumer is done with all before these offsets, back or forth."""
        return await self._passage.call(self._log_handle.commit, consumer, positions)

    async def committed(self, consumer: str) -> dict[int, int]:
        """Give the next offsets that a consumer wants; empty if it has committed nothing."""
        return await self._passage.call(self._log_handle.committed, consumer)

    async def consumers(self) -> dict[str, dict[int, int]]:
        """Give all named consumers with what they have committed."""
        return await self._passage.call(self._log_handle.consumers)

    async def forget_consumer(self, consumer: str) -> Receipt:
        """Forget a consumer, with what it has committed."""
        return await self._passage.call(self._log_handle.forget_consumer, consumer)

    async def lag(self, consumer: str) -> int:
        """Count the entries that are there and that a consumer has not committed."""
        return await self._passage.call(self._log_handle.lag, consumer)


class Log(LogHandle):
    """An append-only store of entries, in partitions, each with offsets from zero.

    An append with a receipt is there once, in order for each handle and partition. Readers see
    what is committed: at the keeper all of it, at a follower some earlier state.
    """

    def __init__(self, passage: Passage, core: CoreLog) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        LogHandle.__init__(self, passage, core)
        self._log = core

    def __repr__(self) -> str:
        """Show the log's name, and its role here."""
        return repr(self._log)

    def is_keeper(self) -> bool:
        """Tell whether the log's keeper is here now: promotions change it."""
        return self._log.is_keeper()

    async def promote(
        self, topics: str | Iterable[str] = (), *, force: bool = False, **keep: object
    ) -> LogPromotion:
        """Make this follower the keeper of its log; the handle stays as it is, and so the file.

        The last keeper is fenced: when it returns it becomes a follower. ``topics``,
        ``keep_seconds``, ``keep_count``, ``keep_bytes``, ``max_entries`` and ``max_bytes`` are
        those of ``attach_log``. Raises ``PromotionRefused`` if the keeper is alive or something of
        it is known to be missing here: with ``force`` that is lost. Raises ``MasterExists`` at a
        keeper, and ``BackendFailure``.
        """
        return await self._passage.call(self._log.promote, topics, force=force, **keep)

    def statistics(self) -> LogStatistics:
        """Count what this handle has; at the keeper, the quota is among it."""
        return self._passage.look(self._log.statistics)

    def set_quota(self, **limits: Unpack[QuotaLimits]) -> None:
        """Change ``max_entries``, ``max_bytes`` or both, at once; ``None`` sets no limit.

        What is there stays, even if it is more. It holds until the keeper ends: give
        ``attach_log`` the same. Raises ``NoSuchMaster`` where the keeper is not, and
        ``InvalidData``.
        """
        return self._passage.look(self._log.set_quota, **limits)


class ReplicaLog(GroupHandle, LogHandle):
    """A replica of a log whose group elects its leader.

    An append's receipt is given once a majority of the voters has it, on the disk where they keep
    it there. Whichever endpoint it is asked at, the leader gives it its offset, and after a change
    of the leader it is there once. Reads and consumers see what is committed and has come here,
    never going back; after ``catch_up`` that is all that was acknowledged before.
    """

    def __init__(self, passage: Passage, core: CoreReplicaLog) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        GroupHandle.__init__(self, passage, core)
        LogHandle.__init__(self, passage, core)
        self._replica_log = core

    def __repr__(self) -> str:
        """Show the log's name, what this replica is, and where its partitions end."""
        return repr(self._replica_log)

    async def catch_up(self, timeout: Seconds = READ_SECONDS) -> None:
        """Wait until reads here see all that was acknowledged, anywhere, before this call.

        Without a majority it raises ``NoQuorum`` after ``timeout`` seconds.
        """
        return await self._passage.call(self._replica_log.catch_up, timeout)

    async def set_retention(
        self,
        timeout: Seconds = ORDER_SECONDS,
        *,
        keep_seconds: float | timedelta | None = None,
        keep_count: int | None = None,
        keep_bytes: int | None = None,
    ) -> None:
        """Have each partition keep so much at least; ``None`` sets no limit.

        It is of the group, now and after restarts, and takes the place of what was said before.
        Entries age while the group has a leader. Raises ``InvalidData``, ``NoQuorum`` and
        ``NotAllowed``.
        """
        return await self._passage.call(
            self._replica_log.set_retention,
            timeout,
            keep_seconds=keep_seconds,
            keep_count=keep_count,
            keep_bytes=keep_bytes,
        )

    def statistics(self) -> LogStatistics:
        """Count what this replica has."""
        return self._passage.look(self._replica_log.statistics)


class LogConsumer(EitherClosing):
    """Entries of a log, in order within each partition.

    What was handed out and not committed comes again after a restart. Of several tasks that read
    one consumer each entry goes to one, and ``commit`` is for all of them; of two consumers of one
    name each gets everything.
    """

    def __init__(self, passage: Passage, core: CoreLogConsumer) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._log_consumer = core

    def __repr__(self) -> str:
        """Show the log, the consumer's name, and where it reads next."""
        return repr(self._log_consumer)

    async def get(self, timeout: Seconds = None) -> LogEntry:
        """Wait for the next entry, for ``timeout`` seconds at most; then ``RequestTimeout``.

        Raises ``OffsetOutOfRange`` when retention went past, when entries that were read are
        lost, or when another log began under the name: ``seek`` where it says that the partition
        goes on. Where no keeper answers, it takes as long as the log's ``patience``, and raises
        ``KeeperUnreachable``.
        """
        core = self._log_consumer
        limit = arguments.seconds("timeout", timeout)
        if await self._passage.await_ready(core, limit):
            return core.take()
        raise core.late(limit)

    async def get_batch(self, limit: int = READ_LIMIT, timeout: Seconds = None) -> list[LogEntry]:
        """Wait for entries, and take those that are there; none after ``timeout`` seconds.

        Raises what ``get`` does, but for ``RequestTimeout``.
        """
        core = self._log_consumer
        limit = arguments.count("limit", limit)
        await self._passage.await_ready(core, arguments.seconds("timeout", timeout))
        return core.take_batch(limit)

    def seek(self, partition: int, offset: int) -> None:
        """Go on from there in a partition; raises ``NoSuchPartition``, or the next read does."""
        return self._passage.look(self._log_consumer.seek, partition, offset)

    async def commit(self) -> Receipt:
        """Remember that all that was handed out is dealt with; raises without a name.

        A partition of which nothing was handed out is remembered as where it began: what comes
        without a consumer is not passed over, wherever ``start`` was. Raises ``OffsetOutOfRange``
        when another log began under the name.
        """
        return await self._passage.call(self._log_consumer.commit)

    async def positions(self) -> dict[int, int]:
        """Give the next offset of each partition: the one after what was handed out last."""
        return await self._passage.call(self._log_consumer.positions)

    def close(self) -> None:
        """Read no more; what was not committed comes again to the next consumer of this name.

        What waits in ``get`` is told so at once.
        """
        self._passage.close(self._log_consumer.close)

    def __aiter__(self) -> Self:
        """Iterate until the log is closed."""
        return self

    async def __anext__(self) -> LogEntry:
        """Wait for the next entry."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


class StatusSubscriber(EitherClosing):
    """Follows what happens in the mesh: ``async for event in endpoint.subscribe_status()``."""

    def __init__(self, passage: Passage, core: CoreStatusSubscriber) -> None:
        """Lead to ``core``; for the endpoint, which makes its handles."""
        self._passage = passage
        self._status_subscriber = core

    def __repr__(self) -> str:
        """Show how many events wait."""
        return repr(self._status_subscriber)

    async def get(self, timeout: Seconds = None) -> StatusEvent:
        """Wait for the next event, for ``timeout`` seconds at most.

        Raises ``TimeoutError`` then, and ``EndpointClosed`` when the endpoint has shut down.
        """
        arguments.seconds("timeout", timeout)
        if (found := self._status_subscriber.take()) is not None:
            return found
        core = self._status_subscriber
        limit = arguments.seconds("timeout", timeout)
        while await self._passage.await_ready(core, limit):
            if (event := core.take()) is not None:
                return event
        raise TimeoutError(f"no status event within {limit:g} s")

    def poll(self) -> list[StatusEvent]:
        """Take all events that are there."""
        return self._status_subscriber.poll()

    def available(self) -> int:
        """Count the events that wait."""
        return self._status_subscriber.available()

    def close(self) -> None:
        """Follow no longer; what is there can still be read."""
        self._passage.close(self._status_subscriber.close)

    def __aiter__(self) -> Self:
        """Iterate until the endpoint shuts down."""
        return self

    async def __anext__(self) -> StatusEvent:
        """Wait for the next event."""
        try:
            return await self.get()
        except FAILURES:
            raise
        except EndpointClosed:
            raise StopAsyncIteration from None


class Endpoint(Life):
    """One participant of the mesh: ``async with Endpoint() as endpoint``.

    It listens, peers with others, publishes, subscribes, and holds stores. Leaving the block does
    what ``shutdown`` does, in about ``GRACE_SECONDS`` and one more at most, and up to
    ``FINISH_SECONDS`` longer if a disk does not answer: this also holds within a time limit of
    less. Until then it works, even when the block is cancelled: what is
    shielded can use it to put things in order. A second Ctrl-C leaves at once.
    """

    def __init__(
        self,
        *,
        credentials: Credentials | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        endpoint_id: EndpointId | None = None,
        roles: RolesSource | None = None,
        **settings: object,
    ) -> None:
        """Set up with settings.

        ``credentials`` turn TLS on, as ``secret`` and other settings do. ``roles`` (a TOML file, or
        the same as dicts) say what each certificate's name may do; without them everybody who is in
        may do everything. The file is read again when it changes. Keyword arguments are the fields
        of ``Settings``, and go before ``PEERMESH_*`` variables, which go before ``settings_file``
        (TOML). ``endpoint_id`` is random unless a test wants a certain one: no two endpoints may
        ever share an id. Raises ``SettingsError``, ``RolesError`` and ``CredentialsError``.
        """
        super().__init__(
            CoreEndpoint(
                credentials=credentials,
                settings_file=settings_file,
                endpoint_id=endpoint_id,
                roles=roles,
                **settings,
            )
        )

    @property
    def credentials(self) -> Credentials | None:
        """Give the credentials in force, for front ends that go with this endpoint."""
        return self._endpoint.credentials

    def node_id(self) -> EndpointId:
        """Give the endpoint's id, which no other endpoint ever has."""
        return self._endpoint.node_id()

    def name_of(self, node_id: NodeId) -> str:
        """Give how an endpoint is called here, for people to read; its id if it has no name.

        That is what its certificate of an own authority calls it, with a ``*`` after it; or else
        what it calls itself, which nothing proves. Two of one name are told apart by the first
        digits of their ids, as in ``store-a~3f2a``. No right may depend on it.
        """
        return self._passage.look(self._endpoint.name_of, node_id)

    def __repr__(self) -> str:
        """Show name and id, where it listens, and how many peers it has."""
        return repr(self._endpoint)

    async def listen(self, address: str = "127.0.0.1", port: int | str = 0) -> int:
        """Accept peers at this address; give the port, which 0 lets the system choose.

        Raises ``AddressInvalid`` for a host that is none of this machine, ``AddressInUse``,
        ``LimitExceeded`` when the process may open no more files, and ``InsecureAddress`` beyond
        loopback without credentials.
        """
        return await self._passage.call(self._endpoint.listen, address, port)

    async def peer(
        self,
        address: str,
        port: int | str | None = None,
        retry: Seconds = RETRY_SECONDS,
        timeout: Seconds = PEER_SECONDS,
    ) -> Outcome:
        """Peer with the endpoint that listens there; true once messages can flow both ways.

        ``address`` is a host; or without a port, ``"HOST:PORT"`` or a join ticket (``peermesh
        ticket new``). A ticket holds address, port and secret: it lets an endpoint in that has no
        credentials, and has neither listened nor peered before.

        False after ``timeout`` seconds, with the reason of the last attempt; attempts go on, and
        the peering is renewed whenever it is lost, until ``unpeer``. ``retry`` is the longest pause
        between attempts in seconds; 0 makes one attempt, and renews nothing.
        """
        return await self._passage.call(self._endpoint.peer, address, port, retry, timeout)

    async def unpeer(self, address: str, port: int | str | None = None) -> Outcome:
        """End the peering with that address; what was published before still arrives.

        The address is the one given to ``peer``, or that of an inbound peer as ``peers`` shows it.
        """
        return await self._passage.call(self._endpoint.unpeer, address, port)

    def dialled(self) -> list[DialInfo]:
        """List the addresses that ``peer`` named and that are dialled still, or again, sorted."""
        return self._passage.look(self._endpoint.dialled)

    def peers(self) -> list[PeerInfo]:
        """List the peers, in the order of their ids, with what flows to and from them."""
        return self._passage.look(self._endpoint.peers)

    @overload
    async def await_peer(
        self, node_id: NodeId, timeout: Seconds = AWAIT_PEER_SECONDS
    ) -> Outcome: ...
    @overload
    async def await_peer(
        self, node_id: NodeId, callback: Callback, timeout: Seconds = AWAIT_PEER_SECONDS
    ) -> None: ...
    async def await_peer(
        self,
        node_id: NodeId,
        *positional: Seconds | Callback,
        timeout: Seconds = AWAIT_PEER_SECONDS,
        callback: Callback | None = None,
    ) -> Outcome | None:
        """Wait until there is a path to an endpoint; false after ``timeout`` seconds.

        True over any number of hops. The reason says what is missing, also when the endpoint
        closes. It says nothing of the other direction, nor of subscriptions that the other endpoint
        makes later: see ``await_subscribed``. With a ``callback``, in the place of the timeout or
        before it, it returns ``None`` at once, and the callback is given the outcome later.
        """
        how = barrier("await_peer", positional, timeout, callback, AWAIT_PEER_SECONDS)
        wait = partial(
            self._endpoint.await_peer, node_id, timeout=how.seconds, callback=how.callback
        )
        return await self._passage.wait(how, wait)

    async def await_subscribed(
        self, topic: str, count: int = 1, timeout: Seconds = AWAIT_SUBSCRIBED_SECONDS
    ) -> Outcome:
        """Wait until so many other endpoints known here subscribe to a topic.

        What is published on it from then on goes to them. False after ``timeout`` seconds, and
        the reason names those that do. ``count`` is 1 or more.
        """
        return await self._passage.call(self._endpoint.await_subscribed, topic, count, timeout)

    def publish_nowait(self, topic: str, data: Value, *, to: NodeId | None = None) -> None:
        """Publish without waiting, or raise ``OutboxFull``; then nothing was sent."""
        return self._passage.look(self._endpoint.publish_nowait, topic, data, to=to)

    async def publish_batch(self, batch: Iterable[tuple[str, Value]]) -> None:
        """Publish many messages, in order, waiting for room between them.

        Up to a thousand are taken at a time. Of those among which one is refused, or after which
        the batch raises, some or all are not published; in threads, those before it are.
        """
        return await self._endpoint.publish_batch(batch)

    def publisher(self, topic: str) -> Publisher:
        """Give a publisher for one topic."""
        return self._passage.look(self._endpoint.publisher, topic)

    def subscribe(
        self,
        *topics: str | Iterable[str],
        queue_size: int | None = None,
        queue_bytes: int | None = None,
        overflow: str | None = None,
        stall_seconds: Seconds | AsSet = AS_SET,
        name: str | None = None,
        local: bool = False,
    ) -> Subscriber:
        """Subscribe to all topics that begin with one of these; ``""`` is every topic.

        One list of topics is taken, too. With ``local`` it also gets what this endpoint itself
        publishes. What is published before the publisher's endpoint knows of the subscription does
        not come: await_subscribed there. The ``name`` is shown where publishers wait for it.

        ``queue_size`` messages and ``queue_bytes`` may wait. What a full queue means, ``overflow``
        says: ``"wait"`` has publishers of these topics wait, and nothing is lost while it is read
        at least once in ``stall_seconds`` (``None``: however long that takes); ``"drop_oldest"``
        and ``"drop_newest"`` drop, and ``Missed`` stands in the gap; ``"error"`` ends the
        subscription, and each read from then on raises ``SubscriberOverflow``.
        """
        wanted = arguments.topics("topics", topics)
        return self._open_reader(
            wanted,
            local=local,
            queue_size=queue_size,
            queue_bytes=queue_bytes,
            overflow=overflow,
            stall_seconds=stall_seconds,
            name=name,
        )

    def subscribe_status(self, *codes: StatusCode | str) -> StatusSubscriber:
        """Follow what happens in the mesh from now on: events of these kinds, or of all kinds."""
        return StatusSubscriber(
            self._passage, self._passage.look(self._endpoint.subscribe_status, *codes)
        )

    def forward(self, *topics: str | Iterable[str]) -> None:
        """Have these topics sent here and forwarded, as if a subscriber were here."""
        return self._passage.look(self._endpoint.forward, *topics)

    def attach_master(
        self,
        name: str,
        backend: Backend | str = Backend.Memory,
        *,
        fresh: bool = False,
        **options: object,
    ) -> Attaching[Store]:
        """Attach the master of a store: ``async with endpoint.attach_master("name") as store``.

        ``Backend.SQLite`` needs ``path``, and takes ``synchronous``, and ``key_file`` or ``keys``
        for a file that is encrypted. Beyond ``max_entries`` (10 million) or ``max_bytes`` of keys
        and values (2 GiB) nothing more is taken, with ``QuotaExceeded``; ``None`` sets no limit.
        What is acknowledged is here alone: ``attach_replica`` has a majority keep it. With
        ``fresh`` no clone is asked what it has of an earlier life, and a file whose ballot is lost
        is led with what it has. Raises ``MasterExists`` if a master of that name is known, or a
        clone is promoted meanwhile, ``BackendFailure``, ``InvalidData``, ``ReplicaRegressed``,
        ``StoreConflict``, and ``CredentialsError`` for a key.
        """
        core = self._passage.look(
            self._endpoint.attach_master, name, backend, fresh=fresh, **options
        )
        return Attaching(partial(self._passage.attach, Store, core))

    def attach_clone(
        self,
        name: str,
        *,
        stale_interval: Seconds = STALE_SECONDS,
        mutation_buffer_interval: Seconds = BUFFER_SECONDS,
    ) -> Attaching[Store]:
        """Attach a clone of a store: ``async with endpoint.attach_clone("name") as store``.

        Its master need not be known yet, nor be a direct peer. After ``stale_interval`` seconds
        without it reads raise ``StaleData``; ``None`` means never. Mutations wait for a master for
        ``mutation_buffer_interval`` seconds, and then fail. Raises ``NoSuchMaster`` where the
        master itself lives.
        """
        core = self._passage.look(
            self._endpoint.attach_clone,
            name,
            stale_interval=stale_interval,
            mutation_buffer_interval=mutation_buffer_interval,
        )
        return Attaching(partial(self._passage.attach, Store, core))

    def attach_replica(
        self,
        name: str,
        *,
        voters: Iterable[str] | int = (),
        found: bool = False,
        backend: Backend | str = Backend.Memory,
        patience: Seconds = ANSWER_SECONDS,
        **options: object,
    ) -> Attaching[ReplicaStore]:
        """Attach a replica of a store whose group of replicas elects its leader.

        ``voters`` are names of endpoints (``Endpoint(name=...)``), the same in the same order at
        all. The first one founds the group once all have been heard. An endpoint that is not among
        them has a learner: a replica without a vote. Without ``voters`` it is a learner of
        whichever group of this name there is.

        ``voters`` may be a number instead: the group's leader makes replicas that were attached so
        voters until it has as many, each once it is level and was in touch for ten seconds. One of
        them, and no other, is given ``found=True``: it founds the group once more than half of that
        number, itself included, have answered that they know of none. Until the second voter is
        there it alone has what is acknowledged.

        What is written here waits for an answer of the group for ``patience`` seconds, and fails at
        once where no majority is heard any more. ``Backend.SQLite`` needs ``path``. Raises
        ``MasterExists`` if the store has a master, ``InvalidData``, ``NotAllowed`` without the
        right ``vote``, of a learner ``read``, and ``BackendFailure``.
        """
        core = self._passage.look(
            self._endpoint.attach_replica,
            name,
            voters=voters,
            found=found,
            backend=backend,
            patience=patience,
            **options,
        )
        return Attaching(partial(self._passage.attach, ReplicaStore, core))

    def attach_proxy(
        self, name: str, *, mutation_buffer_interval: Seconds = BUFFER_SECONDS
    ) -> Attaching[StoreProxy]:
        """Use a store without a copy: ``async with endpoint.attach_proxy("name") as store``.

        Every read asks the nearest replica, over any number of hops, and raises ``StaleData`` if
        none answers; every write goes to the master. Mutations wait for a master for
        ``mutation_buffer_interval`` seconds, and then fail. Raises ``StoreError`` where the store
        has a handle already.
        """
        core = self._passage.look(
            self._endpoint.attach_proxy, name, mutation_buffer_interval=mutation_buffer_interval
        )
        return Attaching(partial(self._passage.attach, StoreProxy, core))

    def attach_log(
        self,
        name: str,
        topics: str | Iterable[str] = (),
        partitions: int | None = None,
        backend: Backend | str = Backend.Memory,
        *,
        fresh: bool = False,
        **options: object,
    ) -> Attaching[Log]:
        """Attach the keeper of a log: ``async with endpoint.attach_log("name") as log``.

        It collects what others publish on topics that begin with one of ``topics``. ``partitions``
        is one for a new log, and stays. ``keep_seconds``, ``keep_count`` and ``keep_bytes`` say
        how much each partition keeps, all for ever if not given: the oldest entries go. Beyond
        ``max_entries`` or ``max_bytes`` of all partitions appends are refused with
        ``QuotaExceeded``: 10 million and 2 GiB in memory, 64 GiB in a file, ``None`` for no limit.
        ``Backend.SQLite`` needs ``path``, and takes what that of a store takes. What is
        acknowledged is here alone: ``attach_log_replica`` has a majority keep it. With ``fresh`` no
        follower is asked what it has of an earlier life, and a file whose ballot is lost is led
        with what it has. Raises ``MasterExists`` if a keeper of that name is known,
        ``InvalidData``, ``BackendFailure``, ``ReplicaRegressed``, ``StoreConflict``, and
        ``CredentialsError`` for a key.
        """
        core = self._passage.look(
            self._endpoint.attach_log, name, topics, partitions, backend, fresh=fresh, **options
        )
        return Attaching(partial(self._passage.attach, Log, core))

    def attach_log_clone(
        self,
        name: str,
        backend: Backend | str = Backend.Memory,
        *,
        stale_interval: Seconds = STALE_SECONDS,
        patience: Seconds = PATIENCE_SECONDS,
        **options: object,
    ) -> Attaching[Log]:
        """Attach a follower of a log, with a copy of its own that reads are served from.

        What it appends fails with ``KeeperUnreachable`` when there has been no keeper for
        ``patience`` seconds. After ``stale_interval`` seconds without one reads raise
        ``StaleData``; ``None`` means never.
        """
        core = self._passage.look(
            self._endpoint.attach_log_clone,
            name,
            backend,
            stale_interval=stale_interval,
            patience=patience,
            **options,
        )
        return Attaching(partial(self._passage.attach, Log, core))

    def attach_log_proxy(
        self, name: str, *, patience: Seconds = PATIENCE_SECONDS
    ) -> Attaching[Log]:
        """Use a log without a copy: every read asks its keeper, over any number of hops.

        Without a keeper for ``patience`` seconds, appends and reads raise ``KeeperUnreachable``.
        """
        core = self._passage.look(self._endpoint.attach_log_proxy, name, patience=patience)
        return Attaching(partial(self._passage.attach, Log, core))

    def attach_log_replica(
        self,
        name: str,
        *,
        voters: Iterable[str] | int = (),
        found: bool = False,
        partitions: int | None = None,
        backend: Backend | str = Backend.Memory,
        patience: Seconds = ANSWER_SECONDS,
        **options: object,
    ) -> Attaching[ReplicaLog]:
        """Attach a replica of a log whose group of replicas elects its leader.

        ``voters``, ``found`` and ``patience`` are as ``attach_replica`` takes them. ``partitions``
        is one for a new log, and stays: the first leader's number is that of all. It takes 10
        million entries and 2 GiB at most, if ``set_quota`` says nothing else. ``Backend.SQLite``
        needs ``path``. Raises ``MasterExists`` if the log has a keeper, ``InvalidData``,
        ``NotAllowed`` without the right ``vote``, of a learner ``read``, ``BackendFailure``, and
        ``CredentialsError`` for a key.
        """
        core = self._passage.look(
            self._endpoint.attach_log_replica,
            name,
            voters=voters,
            found=found,
            partitions=partitions,
            backend=backend,
            patience=patience,
            **options,
        )
        return Attaching(partial(self._passage.attach, ReplicaLog, core))

    def known_stores(self) -> tuple[str, ...]:
        """Name the stores in reach: a master, or at another endpoint a clone or replica; sorted.

        It is what has been announced so far: right after ``peer()``, all that the peer knows.
        """
        return self._passage.look(self._endpoint.known_stores)

    def known_groups(self) -> tuple[str, ...]:
        """Name those of the known stores that a replica group keeps, sorted."""
        return self._passage.look(self._endpoint.known_groups)

    def known_logs(self) -> tuple[str, ...]:
        """Name the logs in reach: a keeper, or elsewhere a follower or replica; sorted."""
        return self._passage.look(self._endpoint.known_logs)

    def known_log_groups(self) -> tuple[str, ...]:
        """Name those of the known logs that a replica group keeps, sorted."""
        return self._passage.look(self._endpoint.known_log_groups)

    def describe(self) -> Snapshot:
        """Give a frozen snapshot of everything here, with the process: what ``describe`` tells.

        It holds names and counts, no value of a store and no message. ``to_dict`` makes it JSON.
        """
        return self._passage.look(self._endpoint.describe)

    def statistics(self) -> EndpointStatistics:
        """Give a frozen snapshot in numbers."""
        return self._passage.look(self._endpoint.statistics)

    def inside(self) -> tuple[Passage, CoreEndpoint]:
        """Give the way to what lives there, and that: for front ends."""
        return self._passage, self._endpoint
