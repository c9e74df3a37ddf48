"""Drives one session: feeds it a connection's lines, and carries out its steps."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.foreign import is_tls
from peermesh.brokers.qos2.limits import LINES_AT_ONCE, RECEIVE_SIZE, UNFINISHED
from peermesh.brokers.qos2.lines import LineDecoder
from peermesh.brokers.qos2.steps import (
    Bury,
    Close,
    Commit,
    Enter,
    Fetch,
    Open,
    Send,
    Steps,
    Store,
    Wait,
)
from peermesh.brokers.unfinished import Unfinished

Work = Store | Enter | Open | Fetch | Commit | Bury
"""Steps that take time; each ends with what the session is told."""


class Session(Protocol):
    """What both kinds of sessions have in common."""

    @property
    def is_busy(self) -> bool: ...

    @property
    def body_size(self) -> int | None: ...

    @property
    def held_size(self) -> int: ...

    def abandon(self) -> None: ...

    def start(self) -> Steps: ...

    def receive(self, data: bytes, /) -> Steps: ...

    def timer_elapsed(self) -> Steps: ...


class Conversation:
    """One connection. Decides nothing."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        session: Session,
        perform: Callable[[Work], Awaitable[Callable[[], Steps]]],
        send_seconds: float,
        unfinished: Unfinished[Conversation],
    ) -> None:
        """Prepare; ``perform`` does a step and gives what to tell the session.

        What has come and is not finished counts as ``unfinished``, together with that of others.
        """
        self._stream = stream
        self._session = session
        self._perform = perform
        self._send_seconds = send_seconds
        self._unfinished = unfinished
        self._decoder = LineDecoder()
        self._is_new = True
        self._outbox = bytearray()
        self._changed = trio.lowlevel.ParkingLot()
        self._alarm = trio.CancelScope()
        self._deadline = math.inf
        self._fetching: trio.CancelScope | None = None
        self._nursery: trio.Nursery | None = None
        self.closed_because: str | None = None
        """Why the broker ended it; ``None`` if the client did."""

    async def run(self) -> None:
        """Talk until one of both ends it."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._write)
                nursery.start_soon(self._keep_time)
                self._carry_out(self._session.start())
                nursery.start_soon(self._read)
        finally:
            self._unfinished.forget(self)

    def end(self, reason: str) -> None:
        """End it from outside, telling the client."""
        self._carry_out([Send(f"ERROR {reason}\n".encode()), Close(reason)])
        # The client may take long to hear of it, and holds no memory meanwhile.
        self._decoder = LineDecoder()
        self._session.abandon()

    async def _read(self) -> None:
        count = 0
        while self.closed_because is None:
            if self._session.is_busy or self._outbox:
                self._weigh()
                await self._changed.park()
                continue
            try:
                data = self._decoder.take(self._session.body_size)
            except DialogueError as error:
                self.end(str(error))
                return
            if data is not None:
                self._carry_out(self._session.receive(data))
                count += 1
                if not count % LINES_AT_ONCE:
                    await trio.lowlevel.checkpoint()
            elif not await self._receive():
                assert self._nursery is not None
                self._nursery.cancel_scope.cancel()
                return

    async def _receive(self) -> bool:
        self._weigh()
        try:
            data = await self._stream.receive_some(RECEIVE_SIZE)
        except trio.BrokenResourceError:
            return False
        if self._is_new and is_tls(bytes(data[:1])):
            self._carry_out([Close("it spoke TLS, and this port is plain")])
            return True
        self._is_new = False
        self._decoder.feed(bytes(data))
        self._weigh()
        return bool(data)

    def _weigh(self) -> None:
        """Count what is unfinished here; cut the connection that holds most, if it is too much."""
        size = len(self._decoder) + self._session.held_size
        largest = self._unfinished.note(self, size)
        if largest is not None:
            largest.end(UNFINISHED)

    async def _write(self) -> None:
        assert self._nursery is not None
        try:
            while self._outbox or self.closed_because is None:
                if not self._outbox:
                    await self._changed.park()
                    continue
                data = bytes(self._outbox)
                with trio.fail_after(self._send_seconds):
                    await self._stream.send_all(data)
                del self._outbox[: len(data)]
                self._changed.unpark_all()
        except trio.TooSlowError:
            self.closed_because = "it did not take what was sent"
        except trio.BrokenResourceError:
            pass
        self._nursery.cancel_scope.cancel()

    async def _keep_time(self) -> None:
        while True:
            self._alarm = trio.CancelScope(deadline=self._deadline)
            with self._alarm:
                await trio.sleep_forever()
            if trio.current_time() >= self._deadline:
                self._set_timer(None)
                self._carry_out(self._session.timer_elapsed())

    def _set_timer(self, seconds: float | None) -> None:
        self._deadline = math.inf if seconds is None else trio.current_time() + seconds
        self._alarm.deadline = self._deadline

    # Without await: nothing comes between a decision and its steps.
    def _carry_out(self, steps: Steps) -> None:
        for step in steps:
            if self.closed_because is not None:
                break
            match step:
                case Send(data):
                    self._outbox += data
                case Wait(seconds):
                    self._set_timer(seconds)
                case Close(reason):
                    self.closed_because = reason
                case Fetch():
                    self._fetch(step)
                case _:
                    self._start(step, trio.CancelScope())
        self._changed.unpark_all()

    def _fetch(self, step: Fetch) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
        self._fetching = trio.CancelScope() if step.topics else None
        if self._fetching is not None:
            self._start(step, self._fetching)

    def _start(self, step: Work, scope: trio.CancelScope) -> None:
        async def work() -> None:
            with scope:
                tell = await self._perform(step)
                self._carry_out(tell())

        assert self._nursery is not None
        self._nursery.start_soon(work)
