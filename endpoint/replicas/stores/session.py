"""Sessions with a group: what their holder puts in them is gone soon after the holder is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from types import TracebackType
from typing import Final, Self

import trio

from endpoint.bound import Bound
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.part import TablePart
from stores.actions import Step, StepKind
from stores.lives import life_of
from stores.mutations import Mutation, Unique
from stores.table.bodies import (
    EndSession,
    OpenSession,
    RenewSession,
    SessionGranted,
    SessionHeard,
)
from stores.table.codec import NONCE_SIZE
from stores.table.sessions import SECOND_NS, SESSIONS_MAX, TTL_NS_MAX, TTL_NS_MIN
from wire.encoding import encode
from wire.errors import InvalidData, NotAllowed, QuotaExceeded, SessionExpired, StoreError
from wire.public import public
from wire.values import Value

OPEN_SECONDS: Final = 10.0
"""How long opening a session waits for a majority."""

END_SECONDS: Final = 5.0
"""How long the end of a block waits for a majority. Without one the session ends by its time."""

RENEWALS: Final = 3
"""Renewals in a time to live: two may be lost."""

_CLOSED: Final = "it was closed"

Ask = Callable[[Mutation], Awaitable[Receipt]]
"""Has a handle ask for a mutation."""


def ttl_of(ttl: float | timedelta) -> float:
    """Check a time to live, in seconds; raises ``InvalidData``."""
    least, most = TTL_NS_MIN / SECOND_NS, TTL_NS_MAX / SECOND_NS
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not isinstance(seconds, int | float) or not least <= seconds <= most:
        raise InvalidData(f"ttl={ttl!r}: a session lives for {least:g} to {most:g} seconds")
    return seconds


@public
class Session(Bound):
    """Keys that die with their holder: ``async with store.session(ttl=10) as session``.

    A task of the endpoint renews it. The block is cancelled, and raises ``SessionExpired``, when no
    majority has acknowledged a renewal that was sent within the last ``ttl`` seconds: so the holder
    learns of it before the group ends the session. The end of the block ends the session.
    """

    def __init__(self, part: TablePart, ask: Ask, nonce: bytes, ttl: float | timedelta) -> None:
        """Use ``session`` of a store."""
        self._part = part
        self._ask = ask
        self._nonce = nonce
        self._ttl = ttl_of(ttl)
        self._number: int | None = None
        self._until = 0.0
        self._why = "it is not open"
        self._opening: trio.CancelScope | None = None
        """Of what opens it, while it does."""
        self._scope: trio.CancelScope | None = None
        self._keeping = trio.CancelScope()
        """Of what renews it."""
        self._lost = trio.Event()
        self._over = trio.Event()
        self._ended = trio.Event()

    def __repr__(self) -> str:
        """Show its store, and its number."""
        return f"<{type(self).__name__} {self._number} of {self._part.runner.name}>"

    # -- what is so ------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """What ``Entry.session`` of its keys is; raises ``SessionExpired`` before it is open."""
        if self._number is None:
            raise self._error()
        return self._number

    @property
    def ttl(self) -> float:
        """Its time to live, in seconds."""
        return self._ttl

    @property
    def is_alive(self) -> bool:
        """False once the group may have ended it. True may be outdated as soon as it is read."""
        is_open = self._number is not None and not self._over.is_set()
        # What is lost needs no clock: an endpoint that was shut down may have none any more.
        return is_open and not self._lost.is_set() and trio.current_time() < self._until

    def check(self) -> None:
        """Raise ``SessionExpired`` unless it is alive."""
        if not self.is_alive:
            raise self._error()

    async def wait_lost(self) -> None:
        """Wait until it is lost; it is not by its end."""
        await self._lost.wait()

    # -- keys ------------------------------------------------------------------------------------

    async def put(self, key: Value, value: Value) -> Receipt:
        """Set a key for as long as the session lives.

        The key goes with the session of its last put: one without a session keeps it. The receipt
        raises ``SessionExpired`` if the session had ended, ``QuotaExceeded`` if it has too many
        keys.
        """
        self.check()
        return await self._put(encode(key), encode(value))

    async def put_unique(self, key: Value, value: Value) -> bool:
        """Set a key if it is missing, and tell whether it was; see ``put``."""
        self.check()
        receipt = await self._ask(Unique(self._step(encode(key), encode(value))))
        await receipt.applied()
        return receipt.is_inserted()

    async def _put(self, key: bytes, value: bytes) -> Receipt:
        return await self._ask(self._step(key, value))

    def _step(self, key: bytes, value: bytes) -> Step:
        """Set a key for as long as the session lives."""
        return Step(StepKind.PUT, key, value, None, life_of(self.number))

    # -- from its opening to its end -------------------------------------------------------------

    async def open(self) -> None:
        """Open it, and have it renewed; of a lock, wait for it.

        Raises ``NoQuorum``, ``NotAllowed``, ``QuotaExceeded``, and ``SessionExpired`` if it is
        closed meanwhile; a lock ``RequestTimeout``, too. Interrupted, it leaves nothing behind.
        """
        if self._number is not None or self._opening is not None or self._over.is_set():
            raise InvalidData("a session is opened once: ask the store for another one")
        try:
            with trio.CancelScope() as self._opening:
                await self._begin()
        finally:
            self._opening = None
        if self._over.is_set() or self._lost.is_set():
            self.give_up()
            raise self._error()

    async def _begin(self) -> None:
        """Do what is to be done until it can be used."""
        await self._open(OPEN_SECONDS)

    async def _open(self, seconds: float) -> None:
        """Open it within so many seconds."""
        sent = trio.current_time()
        request = OpenSession(self._nonce, round(self._ttl * SECOND_NS))
        try:
            answer = await self._part.ask(request, seconds)
            if self._over.is_set():
                raise self._error()
        except NotAllowed:
            raise  # The group has opened nothing.
        except BaseException:
            if self._part.runner.error is None:
                self._part.runner.start_task(self._take_back, request)
            # To open it once more is to ask for a session that is not taken back meanwhile.
            self._nonce = sha256(self._nonce).digest()[:NONCE_SIZE]
            raise
        assert isinstance(answer, SessionGranted), answer
        if answer.session is None:
            raise QuotaExceeded(
                f"store {self._part.runner.name} has {SESSIONS_MAX} sessions, and no room for more"
            )
        self._number, self._until = answer.session, sent + self._ttl
        self._why = f"no renewal was acknowledged within {self._ttl:g} s"
        self._part.hold(self._store_closed)
        self._part.runner.start_task(self._keep)

    async def close(self) -> None:
        """End it, and all of its keys; once more does nothing.

        Waits until the group has ended it; for no answer if it is lost, as there may be none.
        """
        self.give_up()
        if self._is_ending and not self._lost.is_set():
            await self._ended.wait()

    def give_up(self) -> None:
        """Have a task of the endpoint end it, and wait for nothing; for a front end."""
        if self._over.is_set():
            return
        if self._number is None or self.is_alive:
            self._why = _CLOSED
        self._over.set()
        if self._opening is not None:
            self._opening.cancel()
        if self._is_ending:
            self._part.runner.start_task(self._end)

    def check_end(self) -> None:
        """Raise ``SessionExpired`` if it was lost; not if it was closed; for a front end."""
        if not self.is_alive and self._why != _CLOSED:
            raise self._error()

    def over_with(self, error: StoreError) -> SessionExpired:
        """Say that it ended with its store; for a front end."""
        return SessionExpired(f"{self._what} of store {self._part.runner.name} is over: {error}")

    async def __aenter__(self) -> Self:
        """Open it, for the block."""
        await self.open()
        self._scope = trio.CancelScope()
        self._scope.__enter__()
        if self._lost.is_set():
            self._scope.cancel()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it; raises ``SessionExpired`` if it was lost, unless there is another error."""
        scope = self._scope
        assert scope is not None, "the block was entered"
        try:
            is_over = scope.__exit__(kind, value, traceback) or value is None
            if is_over:
                self.check_end()
        finally:  # It may raise what is left of a group of errors.
            self.give_up()
        await self.close()

    # -- steps -----------------------------------------------------------------------------------

    @property
    def _what(self) -> str:
        return "a session" if self._number is None else f"session {self._number}"

    @property
    def _is_ending(self) -> bool:
        """False if there is nothing to end, or no way to."""
        has_ended = self._number is None or self._ended.is_set()
        return self._part.runner.error is None and not has_ended

    def _error(self) -> SessionExpired:
        return SessionExpired(
            f"{self._what} of store {self._part.runner.name} is over: {self._why}"
        )

    async def _end(self) -> None:
        try:
            with suppress(StoreError):
                await self._part.ask(EndSession(self.number), END_SECONDS)
        finally:
            self._ended.set()

    async def _take_back(self, request: OpenSession) -> None:
        """End what the group may have opened, or open yet, for one that waits no longer."""
        with suppress(StoreError):
            answer = await self._part.ask(request, END_SECONDS)
            if isinstance(answer, SessionGranted) and answer.session is not None:
                await self._part.ask(EndSession(answer.session), END_SECONDS)

    async def _keep(self) -> None:
        """Renew it until it is over, or lost."""
        try:
            with self._keeping:
                while not self._over.is_set() and not self._lost.is_set():
                    now = trio.current_time()
                    with trio.move_on_after(min(self._ttl / RENEWALS, max(0.0, self._until - now))):
                        await self._over.wait()
                        return
                    await self._renew()
        finally:
            self._part.let_go(self._store_closed)

    def _store_closed(self) -> None:
        """Lose it at once, and not with its next renewal, which may be minutes away."""
        self._lose(f"{self._part.runner.error}")
        self._keeping.cancel()

    async def _renew(self) -> None:
        """Renew it once; what is acknowledged counts from its sending."""
        sent = trio.current_time()
        answer: object = None
        if sent < self._until:
            with suppress(StoreError):
                answer = await self._part.ask(RenewSession(self.number), self._until - sent)
        if self._part.runner.error is not None:
            self._lose(f"{self._part.runner.error}")
        elif answer == SessionHeard(is_alive=False):
            self._ended.set()
            self._lose("the group has ended it")
        elif trio.current_time() >= self._until:
            self._lose(self._why)
        elif (objection := self._objection()) is not None:
            self._lose(objection)
        elif answer is not None:
            self._until = sent + self._ttl

    def _objection(self) -> str | None:
        """Say why it is of no use any more, if something else is in the way."""
        return None

    def _lose(self, why: str) -> None:
        """Let its holder know."""
        if self._over.is_set() or self._lost.is_set():
            return
        self._why, self._until = why, 0.0
        self._lost.set()
        for scope in (self._opening, self._scope):
            if scope is not None:
                scope.cancel()
