"""Locks and elections over sessions: the first to come holds, and each waits for the one before it.

All who want a name put a key of their own, each in a session of its own. The one whose key was put
first holds it. The next one watches that key alone, so that its end wakes one waiter and no herd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from itertools import count
from typing import Final, NamedTuple, Self

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.closing import EitherClosing
from endpoint.replicas.attaching import TTL_SECONDS
from endpoint.replicas.stores.part import TablePart
from endpoint.replicas.stores.reading import Entry, Reader
from endpoint.replicas.stores.session import OPEN_SECONDS, Ask, Session
from stores.batch import Batch, batch_of
from stores.table.codec import NONCE_SIZE
from wire.encoding import encode
from wire.errors import InvalidData, NoQuorum, RequestTimeout, StoreClosed
from wire.public import public
from wire.values import Value

LOCK: Final = "peermesh/lock"
ELECTION: Final = "peermesh/election"
"""What the keys of locks and elections begin with: vectors of it, the name, and the session."""

NAME_SIZE_MAX: Final = 1_024
"""Characters of a name: it is a part of keys."""


@public
class FencingToken(NamedTuple):
    """Tells holders of one name apart: the later one's token is greater than all before it.

    It is the position at which the holder's key was put. What a lock is for keeps the greatest
    token that it has seen, and refuses lesser ones: so a holder that does not know yet that it is
    none any more does no harm. It travels as a vector of three integers.
    """

    term: int
    entry: int
    revision: int
    """Tells two keys of one journal entry apart."""


@public
@dataclass(frozen=True, slots=True)
class Elected:
    """Who holds a name, as far as a replica knows."""

    value: Value
    """What it gave with ``elect(name, value=...)``."""
    revision: int
    """That of its ``FencingToken``."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which name is wanted, and how."""

    reader: Reader
    prefix: tuple[str, str]
    value: Value
    timeout: Seconds


def prefix_of(kind: str, name: str) -> tuple[str, str]:
    """Give what the keys of a name begin with; raises ``InvalidData``."""
    name = arguments.text("name", name)
    if not 0 < len(name) <= NAME_SIZE_MAX:
        raise InvalidData(f"a name has 1 to {NAME_SIZE_MAX} characters: {name!r:.60}")
    return kind, name


async def queue_of(reader: Reader, prefix: tuple[str, str]) -> list[Entry]:
    """Give all who want a name, in their order."""
    entries = [entry async for entry in reader.entries(prefix=prefix)]
    return sorted(entries, key=lambda entry: entry.revision)


@public
class Lock(Session):
    """A name that one holds at a time: ``async with store.lock("name") as lock``.

    It is a session, too: the block is cancelled when it is lost. A holder that was paused may not
    know yet; ``token`` and ``guard`` are for that.
    """

    def __init__(
        self,
        part: TablePart,
        ask: Ask,
        nonce: bytes,
        ttl: float | timedelta,
        wanted: Wanted,
    ) -> None:
        """Use ``lock`` or ``elect`` of a store."""
        super().__init__(part, ask, nonce, ttl)
        self._reader = wanted.reader
        self._prefix = wanted.prefix
        self._value = encode(wanted.value)
        self._timeout = arguments.seconds("timeout", wanted.timeout)
        self._token: FencingToken | None = None

    @property
    def token(self) -> FencingToken:
        """What to give along with all that is done while it is held."""
        if self._token is None:
            raise self._error()
        return self._token

    def guard(self, batch: Batch) -> Batch:
        """Have a batch for the same store fail with ``GuardFailed`` unless this is held.

        The leader judges it: nothing that a later holder does comes between.
        """
        return batch_of(batch).if_revision(self._key, self.token.revision)

    async def _begin(self) -> None:
        """Wait for it; raises ``RequestTimeout``, too."""
        # To try is to look once, however long the group takes for that.
        seconds = self._timeout or OPEN_SECONDS
        deadline = trio.current_time() + seconds
        try:
            await self._open(min(seconds, OPEN_SECONDS))
        except NoQuorum as error:
            if seconds >= OPEN_SECONDS:
                raise
            raise self._late() from error
        try:
            with trio.move_on_at(deadline):
                await self._acquire()
                return
            raise self._late()
        except BaseException:
            self.give_up()
            raise

    def _late(self) -> RequestTimeout:
        what = f"{self._what} of store {self._part.runner.name}"
        return RequestTimeout(f"{what}: not within {self._timeout:g} s")

    @property
    def _what(self) -> str:
        kind, name = self._prefix
        return f"{kind.partition('/')[2]} {name}"

    @property
    def _key(self) -> tuple[str, str, int]:
        return (*self._prefix, self.number)

    async def _acquire(self) -> None:
        """Queue, and wait for each that is before."""
        token = await self._queue()
        while True:
            queue = await queue_of(self._reader, self._prefix)
            if (objection := self._objection()) is not None:
                self._lose(objection)
                await trio.sleep_forever()  # This is cancelled.
            before = [entry for entry in queue if entry.revision < token.revision]
            if not before:
                break
            if not self._timeout:
                raise self._late()
            await self._await_end(before[-1])

    async def _queue(self) -> FencingToken:
        """Put the key; its place in the queue is the entry that it became."""
        part, key = self._part, encode(self._key)
        while True:
            revision = await (await self._put(key, self._value)).applied()
            while part.core.revision < revision and part.runner.error is None:
                await part.moved.wait()
            if part.runner.error is not None:
                raise part.runner.error
            position = part.table.position_of(revision)
            # Otherwise a snapshot came between: then it queues anew.
            if position is not None:
                self._token = FencingToken(position.term, position.index, revision)
                return self._token

    async def _await_end(self, before: Entry) -> None:
        """Wait until one that is before has ended."""
        part, key = self._part, encode(before.key)
        while _revision(part, key) == before.revision:
            if part.runner.error is not None:
                raise part.runner.error
            await part.moved.wait()

    def _objection(self) -> str | None:
        """Notice that the key was erased, or cleared away, by another one."""
        if self._token is None or _revision(self._part, encode(self._key)) == self._token.revision:
            return None
        return f"its key {self._key} was erased or put by others"


def _revision(part: TablePart, key: bytes) -> int | None:
    (revision,) = part.table.revisions([key])
    return revision


@public
class Elections(EitherClosing):
    """Who is elected, from now on: ``async for elected in store.elections("name")``.

    Gives ``Elected``, or ``None`` while there is none; first who it is now, then each change. Of
    changes that follow each other closely, the last one.
    """

    def __init__(self, part: TablePart, reader: Reader, name: str) -> None:
        """Use ``elections`` of a store."""
        self._part = part
        self._reader = reader
        self._prefix = prefix_of(ELECTION, name)
        self._last: tuple[Elected | None] | None = None
        """What was given last."""
        self._before: tuple[Elected | None] | None = None
        """What was given before that."""
        self._found: tuple[Elected | None] | None = None
        """What is to be taken."""
        self._is_closed = False

    async def get(self, timeout: Seconds = None) -> Elected | None:
        """Wait for the next change, for ``timeout`` seconds at most.

        Raises ``RequestTimeout`` then, and ``StoreClosed`` when none can come.
        """
        limit = arguments.seconds("timeout", timeout)
        self.forget()
        if await self.await_ready(limit):
            return self.take()
        raise self.late(limit)

    def late(self, limit: float) -> RequestTimeout:
        """Say that nothing came within so many seconds; for a front end."""
        what = f"{' '.join(self._prefix).partition('/')[2]} of {self._part.what}"
        return RequestTimeout(f"{what}: no change within {limit:g} s")

    def forget(self) -> None:
        """Forget what was not taken, which may be over by now; for a front end."""
        self._found = None

    def is_ready(self) -> bool:
        """Tell whether there is something to take; for a front end."""
        return self._found is not None

    async def await_ready(self, limit: float) -> bool:
        """Wait until there is something to take; false after so many seconds; for a front end."""
        with trio.move_on_after(limit):
            while True:
                self._check()
                revision = self._part.core.revision
                found = (await elected(self._reader, self._prefix),)
                if found != self._last:
                    self._found = found
                    return True
                last = self._last
                while self._part.core.revision == revision and self._last is last:
                    self._check()
                    await self._part.moved.wait()
        return False

    def take(self) -> Elected | None:
        """Take what was found; for a front end."""
        assert self._found is not None, "it was waited for"
        self._before, self._last, self._found = self._last, self._found, None
        return self._last[0]

    def give_back(self, found: Sequence[Elected | None]) -> None:
        """Have what was taken, and reached no reader, come next; for a front end."""
        if self._last == (*found,):  # Otherwise another one was given meanwhile.
            self._last = self._before
            self._part.moved.wake()

    def _check(self) -> None:
        if self._is_closed or self._part.runner.error is not None:
            raise self._part.runner.closed("follower of an election")

    def poll(self) -> list[Elected | None]:
        """Give nothing: whether there is a change is not seen without waiting."""
        return []

    def close(self) -> None:
        """Follow no longer."""
        self._is_closed = True
        self._part.moved.wake()

    def __aiter__(self) -> Self:
        """Iterate until it, or the store, is closed."""
        return self

    async def __anext__(self) -> Elected | None:
        """Wait for the next change."""
        try:
            return await self.get()
        except StoreClosed:
            raise StopAsyncIteration from None


async def elected(reader: Reader, prefix: tuple[str, str]) -> Elected | None:
    """Give who holds a name."""
    queue = await queue_of(reader, prefix)
    return Elected(queue[0].value, queue[0].revision) if queue else None


class Coordinating:
    """A store with sessions, and what stands on them."""

    def __init__(self, part: TablePart, reader: Reader, ask: Ask) -> None:
        """Hold sessions with the group of ``part``, in the name of one handle."""
        self._session_part = part
        self._session_reader = reader
        self._session_ask = ask
        self._nonces = count()

    def session(self, ttl: float | timedelta = TTL_SECONDS) -> Session:
        """Have keys that die with this process: ``async with store.session(ttl=10) as session``.

        Without a renewal the leader ends it, with all that was put in it, after ``ttl`` seconds: 2
        to 3,600. Opening it raises ``NoQuorum``, ``NotAllowed`` and ``QuotaExceeded``.
        """
        return Session(self._session_part, self._session_ask, self._new_nonce(), ttl)

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
        return self._lock((LOCK, name), None, ttl, timeout)

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
        return self._lock((ELECTION, name), value, ttl, timeout)

    async def elected(self, name: str) -> Elected | None:
        """Give who is elected, as far as this replica knows; ``None`` if none is.

        It may be over as soon as this is read.
        """
        return await elected(self._session_reader, prefix_of(ELECTION, name))

    def elections(self, name: str) -> Elections:
        """Follow who is elected: ``async for elected in store.elections("name")``."""
        return Elections(self._session_part, self._session_reader, name)

    def _lock(
        self, prefix: tuple[str, str], value: Value, ttl: float | timedelta, timeout: Seconds
    ) -> Lock:
        wanted = Wanted(self._session_reader, prefix_of(*prefix), value, timeout)
        return Lock(self._session_part, self._session_ask, self._new_nonce(), ttl, wanted)

    def _new_nonce(self) -> bytes:
        """Make a nonce that no other handle makes, nor this one a second time."""
        writer = self._session_part.core.requests.writer
        return sha256(b"%b%d" % (writer, next(self._nonces))).digest()[:NONCE_SIZE]
