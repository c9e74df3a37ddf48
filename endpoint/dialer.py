"""Keeps one peering that this endpoint asked for: dials, and dials again with back-off."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from endpoint.link.greeting import Greeting
from endpoint.loop import EndpointLoop
from endpoint.mesh.status import StatusCode, StatusEvent
from endpoint.outcome import Outcome
from endpoint.statistics import DialInfo
from handshake.directory import Standing
from handshake.effects import Established, Failed, Redundant
from net.network import NO_FILES, is_out_of_files
from net.transport import Transport
from wire.addresses import join_address
from wire.errors import (
    ErrorCode,
    MeshError,
    PeerIncompatible,
    PeerNotTrusted,
    PeerUnavailable,
)
from wire.identifiers import EndpointId

CONNECT_TIMEOUT_SECONDS: Final = 10.0
"""From the first packet to a TCP connection: three of its repetitions."""

BACKOFF_FIRST_SECONDS: Final = 0.1
"""The first pause between two attempts: a peer that restarts is back soon."""

STOOD_SECONDS: Final = 1.0
"""A peering that ends sooner counts as another failed attempt: who is thrown out does not storm."""

Chance = Callable[[], float]
"""Gives numbers from 0 to 1, for jitter."""

_UNAVAILABLE: Final = (
    OSError,
    trio.TooSlowError,
    trio.BrokenResourceError,
    # Of names and ports that cannot be.
    ValueError,
    OverflowError,
)

_INCOMPATIBLE: Final = (ErrorCode.PEER_INCOMPATIBLE, ErrorCode.WRONG_MAGIC_NUMBER)


def causes(error: BaseException) -> str:
    """Say what the system said; an attempt at several addresses has a cause for each of them."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return ", ".join(dict.fromkeys(map(causes, cause.exceptions)))
    if isinstance(cause, OSError):
        error = cause
    number = error.errno if isinstance(error, OSError) else None
    # trio puts the address into the text, as a tuple; the numbers of gaierror are no system's.
    text = os.strerror(number) if number is not None and number > 0 else str(error)
    return text[:1].lower() + text[1:]


class Dialer:
    """One address that the user wants to be peered with."""

    def __init__(
        self,
        loop: EndpointLoop,
        connect: Callable[[], Awaitable[Transport]],
        address: tuple[str, int],
        *,
        retry: float,
        chance: Chance,
    ) -> None:
        """``retry`` is the longest pause between two attempts in seconds; 0 is one attempt."""
        self.address = address
        self.peer: EndpointId | None = None
        self.first: Outcome | None = None
        self._last: Outcome | None = None
        self.settled = trio.Event()
        """Set when ``first``, the answer of ``peer()``, is known."""
        self._loop = loop
        self._connect = connect
        self.retry = retry
        self._chance = chance
        self._scope = trio.CancelScope()

    async def run(self, start: Callable[[Greeting], None]) -> None:
        """Dial until the peering is no longer wanted; ``start`` runs connections elsewhere."""
        pause = BACKOFF_FIRST_SECONDS
        with self._scope:
            while True:
                outcome = await self._attempt(start)
                if outcome.error is not None and outcome.error.code is ErrorCode.SELF_PEERING:
                    self.retry = 0.0  # It would be the same for ever.
                if outcome or not self.retry:
                    self._settle(outcome)
                if outcome:
                    began = trio.current_time()
                    await self._until_lost()
                    if trio.current_time() - began > STOOD_SECONDS:
                        pause = BACKOFF_FIRST_SECONDS
                if not self.retry:
                    return
                await trio.sleep(min(pause, self.retry) * (0.5 + self._chance() / 2))
                pause *= 2

    def info(self) -> DialInfo:
        """Say what is tried, and what became of the last attempt."""
        reason = None if self._last is None else str(self._last)
        return DialInfo(self.address, self.retry, self.peer is not None, reason)

    def give_up(self, timeout: float) -> Outcome:
        """Say that ``timeout`` seconds were not enough, and what became of the last attempt."""
        where = join_address(*self.address)
        why = "no attempt has ended yet" if self._last is None else str(self._last)
        error = None if self._last is None else self._last.error
        reason = f"no peering with {where} within {timeout:g} s; attempts go on: {why}"
        return Outcome(reached=False, reason=reason, error=error)

    def stop(self) -> None:
        """The peering is no longer wanted."""
        self._settle(Outcome(reached=False, reason="the peering is no longer wanted"))
        self._scope.cancel()

    def _settle(self, outcome: Outcome) -> None:
        if self.first is None:
            self.first = outcome
            self.settled.set()

    async def _attempt(self, start: Callable[[Greeting], None]) -> Outcome:
        try:
            with trio.fail_after(CONNECT_TIMEOUT_SECONDS):
                transport = await self._connect()
        except MeshError as error:
            return self._fail(error)
        except _UNAVAILABLE as error:
            return self._fail(self._unavailable(error))
        greeting = self._loop.prepare(transport, self.address, dialled=True)
        start(greeting)
        try:
            await greeting.decided.wait()
        except trio.Cancelled:
            if greeting.verdict is None:
                greeting.connection.end()
            raise
        match greeting.verdict:
            case Established(peer):
                return await self._confirm(peer)
            case Redundant(peer):
                return await self._join(peer, "another connection to it was lost at once")
            case Failed(code, reason, peer):
                if peer is not None:
                    return await self._join(peer, reason)
                return self._fail(self._refusal(code, reason))
            case None:
                raise AssertionError("a decided handshake has a verdict")

    async def _confirm(self, peer: EndpointId) -> Outcome:
        """Wait for a first answer: then the other side has the peering too, and can publish."""
        peering = self._loop.peerings.get(peer)
        if peering is not None:
            with trio.move_on_after(CONNECT_TIMEOUT_SECONDS):
                await self._loop.confirm(peering)
        if peer in self._loop.peerings:
            return self._succeed(peer)
        return self._fail(self._refusal(ErrorCode.PEER_UNAVAILABLE, "it was lost at once"), peer)

    async def _join(self, peer: EndpointId, reason: str) -> Outcome:
        """Another connection to the same peer is the peering, or may become it."""
        directory = self._loop.greeter.directory
        while directory.standing(peer) is Standing.DECIDING:
            await self._loop.greeter.changed.park()
        if directory.standing(peer) is Standing.PEERED:
            return await self._confirm(peer)
        return self._fail(self._refusal(ErrorCode.PEER_UNAVAILABLE, reason), peer)

    def _succeed(self, peer: EndpointId) -> Outcome:
        self.peer = peer
        self._last = None  # A loss is news again.
        return Outcome(reached=True, reason=f"peered with {peer}")

    def _fail(self, error: MeshError, peer: EndpointId | None = None) -> Outcome:
        event = StatusEvent(StatusCode.PEER_UNAVAILABLE, peer, self.address, error.code, str(error))
        # The first failure is for everybody who runs the program; the others repeat it.
        self._loop.emit(event, logging.WARNING if self._last is None else logging.INFO)
        self._last = Outcome(reached=False, reason=str(error), error=error)
        return self._last

    def _unavailable(self, error: BaseException) -> PeerUnavailable:
        detail = causes(error) or f"no answer within {CONNECT_TIMEOUT_SECONDS:g} s"
        where = join_address(*self.address)
        if is_out_of_files(error):
            return PeerUnavailable(f"cannot dial {where} ({detail}): {NO_FILES}")
        return PeerUnavailable(
            f"nobody answers at {where} ({detail}): check the address, and that the other endpoint"
            " listens"
        )

    def _refusal(self, code: ErrorCode, reason: str) -> MeshError:
        where = join_address(*self.address)
        if code in _INCOMPATIBLE:
            return PeerIncompatible(f"{where}: {reason}")
        if code is ErrorCode.NOT_AUTHORIZED:
            return PeerNotTrusted(f"{where}: {reason}")
        error = PeerUnavailable(f"no peering with {where}: {reason}")
        error.code = code
        return error

    async def _until_lost(self) -> None:
        assert self.peer is not None
        while (peering := self._loop.peerings.get(self.peer)) is not None:
            await peering.connection.ended.wait()
            await trio.lowlevel.checkpoint()
