"""What handles of stores have in common: sessions, and the locks and elections over them."""

from __future__ import annotations

from hashlib import sha256
from itertools import count

from endpoint.barriers import Seconds
from endpoint.replicas.attaching import TTL_SECONDS
from endpoint.replicas.stores.locks import (
    ELECTION,
    LOCK,
    Elected,
    Elections,
    Lock,
    Wanted,
    elected,
    prefix_of,
)
from endpoint.replicas.stores.reading import Reader
from endpoint.replicas.stores.session import Ask, Session, SessionPart
from stores.table.codec import NONCE_SIZE
from wire.values import Value


class Coordinating:
    """A store with sessions, and what stands on them."""

    def __init__(self, part: SessionPart, reader: Reader, ask: Ask) -> None:
        """Hold sessions with the group of ``part``, in the name of one handle."""
        self._session_part = part
        self._session_reader = reader
        self._session_ask = ask
        self._nonces = count()

    def session(self, ttl: float = TTL_SECONDS) -> Session:
        """Have keys that die with this process: ``async with store.session(ttl=10) as session``.

        Without a renewal the leader ends it, with all that was put in it, after ``ttl`` seconds: 2
        to 3,600. Opening it raises ``NoQuorum``, ``NotAllowed`` and ``QuotaExceeded``.
        """
        return Session(self._session_part, self._session_ask, self._new_nonce(), ttl)

    def lock(self, name: str, *, ttl: float = TTL_SECONDS, timeout: Seconds = None) -> Lock:
        """Hold a name alone: ``async with store.lock("name") as lock``; first come, first served.

        Waits for ``timeout`` seconds, then raises ``RequestTimeout``. A holder that dies holds it
        for ``ttl`` seconds more. The block is cancelled, and raises ``SessionExpired``, before
        another one can hold it; but a process that is paused goes on for a moment when it wakes:
        see ``Lock.token`` and ``Lock.guard``.
        """
        return self._lock((LOCK, name), None, ttl, timeout)

    def elect(
        self,
        name: str,
        value: Value = None,
        *,
        ttl: float = TTL_SECONDS,
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

    def _lock(self, prefix: tuple[str, str], value: Value, ttl: float, timeout: Seconds) -> Lock:
        wanted = Wanted(self._session_reader, prefix_of(*prefix), value, timeout)
        return Lock(self._session_part, self._session_ask, self._new_nonce(), ttl, wanted)

    def _new_nonce(self) -> bytes:
        """Make a nonce that no other handle makes, nor this one a second time."""
        writer = self._session_part.core.requests.writer
        return sha256(b"%b%d" % (writer, next(self._nonces))).digest()[:NONCE_SIZE]
