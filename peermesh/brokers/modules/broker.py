"""The broker: a lock around the switchboard, and a worker for each module.

Every call may come from any thread, the modules' own workers included. The lock is held for
decisions only, never while a module's code runs.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

import trio

from endpoint import arguments
from peermesh.blocking.portal import Portal
from peermesh.brokers.modules.errors import BrokerError, InvalidArgument
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncModule, Failure, Module
from peermesh.brokers.modules.switchboard import (
    INBOX_SIZE,
    Link,
    LinkPolicy,
    LinkStatistics,
    ModuleId,
    ModuleStatistics,
    Seat,
    Switchboard,
    Verdict,
)
from peermesh.brokers.modules.worker import AsyncWorker, ThreadWorker, Worker
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.modules")

_SOURCE_GONE: Final = "the module {!r} was removed: it can publish no more"


def log_failure(failure: Failure) -> None:
    """Report a failure to the log, as is done unless something else is asked for."""
    logger.error("module %s: %s() raised", failure.module, failure.method, exc_info=failure.error)


class ModuleBroker:
    """Carries messages between modules of this process (``Broker_Create``, SRS_BROKER_13_001).

    It begins with one reference, and ends when the last one is released: ``retain`` and ``release``
    are the seed's ``Broker_IncRef`` and ``Broker_DecRef``; a ``with`` block releases at its end.
    """

    def __init__(self, *, on_failure: Callable[[Failure], object] = log_failure) -> None:
        """Begin without modules; ``on_failure`` hears, in the module's worker, what one raises."""
        self.report = arguments.function("on_failure", on_failure)
        self._core = Switchboard()
        self._lock = self.lock = threading.Lock()
        self._workers: dict[ModuleId, Worker] = {}
        self._local = threading.local()
        self._references = 1
        self._portal: Portal | None = None

    # Life.

    def retain(self) -> Self:
        """Hold one more reference (``Broker_IncRef``, SRS_BROKER_13_109)."""
        with self._lock:
            self._check_open()
            self._references += 1
        return self

    def release(self) -> None:
        """Give a reference back (``Broker_DecRef``); with the last one the broker ends.

        Then all modules are removed as by ``remove_module``. Raises ``BrokerError`` when there is
        nothing to give back. SRS_BROKER_13_111 to 13_113.
        """
        with self._lock:
            self._check_open()
            self._references -= 1
            if self._references:
                return
            seats = self._core.seats()
            for seat in seats:
                self._core.remove_module(seat.number)
                self._dismiss(seat, drain=True)
            workers = list(self._workers.values())
        if self._me() is None and not self._is_in_loop():
            self._end(workers)
        else:
            # The workers end only after the call that this one is in the middle of.
            threading.Thread(
                target=self._end, args=(workers,), name="peermesh modules end", daemon=False
            ).start()

    def _end(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.wait(None)
        if self._portal is not None:
            self._portal.release()

    destroy = release
    """The seed's ``Broker_Destroy``, which gives one reference back, too."""

    def _check_open(self) -> None:
        if not self._references:
            raise BrokerError("the broker is destroyed: make a new one")

    # Modules.

    def add_module(
        self, module: Module | AsyncModule, name: str | None = None, *, inbox_size: int = INBOX_SIZE
    ) -> ModuleId:
        """Start a worker for a module, and give the module's id (``Broker_AddModule``).

        A module whose ``receive`` is ``async`` gets a trio task; any other a thread. Raises
        ``InvalidArgument`` for what is no module, and ``BrokerError`` when there are too many.
        """
        receive = getattr(module, "receive", None)
        if not callable(receive):
            raise InvalidArgument(f"{module!r} has no receive(message): it is no module")
        if name is not None:
            arguments.text("name", name)
        arguments.count("inbox_size", inbox_size, least=0)
        with self._lock:
            self._check_open()
            seat = self._core.add_module(name, inbox_size)
            if inspect.iscoroutinefunction(receive):
                worker: Worker = AsyncWorker(self, seat, cast("AsyncModule", module), self._loop())
            else:
                worker = ThreadWorker(self, seat, cast("Module", module))
            self._workers[seat.number] = worker
            try:
                worker.start()
            except RuntimeError as error:
                self._core.remove_module(seat.number)
                del self._workers[seat.number]
                raise BrokerError(f"no worker for {seat.name!r}: {error}") from error
        return seat.number

    def _loop(self) -> Portal:
        if self._portal is None:
            self._portal = Portal.acquire()
        return self._portal

    def remove_module(
        self, module: ModuleId | str, *, drain: bool = True, timeout: float | None = None
    ) -> bool:
        """Remove a module and its links, and wait for its worker's end (``Broker_RemoveModule``).

        It first receives what was delivered before, unless ``drain`` is false. False if that takes
        more than ``timeout`` seconds; it ends later then. Called from inside of the module's own
        ``receive``, or of one that the module waits for, it does not wait, and is false.
        Raises ``BrokerError`` when the module is not there.
        """
        limit = None if timeout is None else arguments.seconds("timeout", timeout)
        with self._lock:
            seat = self._core.remove_module(_named(module))
            self._dismiss(seat, drain=drain)
        return self._join(seat, None if limit is None else min(limit, threading.TIMEOUT_MAX))

    def _dismiss(self, seat: Seat, *, drain: bool) -> None:
        worker = self._workers[seat.number]
        if not drain:
            worker.drop()
        worker.wake()
        worker.room.notify_all()

    def _join(self, seat: Seat, timeout: float | None) -> bool:
        me = self._me()
        with self._lock:
            worker = self._workers.get(seat.number)
            if worker is None:
                return True
            if self._is_in_loop():
                return False
            if me is not None:
                if not self._core.may_await(me, seat):
                    return False
                me.awaited = seat
        try:
            return worker.wait(timeout)
        finally:
            if me is not None:
                with self._lock:
                    me.awaited = None

    # Links.

    def add_link(
        self,
        source: ModuleId | str,
        sink: ModuleId | str,
        policy: LinkPolicy | str = LinkPolicy.WAIT,
    ) -> None:
        """Deliver what ``source`` publishes to ``sink`` from now on (``Broker_AddLink``).

        Raises ``InvalidArgument`` for what names no module, ``AddLinkError`` when the link is there
        already or a module is not.
        """
        try:
            chosen = LinkPolicy(policy)
        except ValueError:
            known = ", ".join(LinkPolicy)
            raise InvalidArgument(f"{policy!r} is no policy; there are {known}") from None
        with self._lock:
            self._core.add_link(_named(source), _named(sink), chosen)

    def remove_link(self, source: ModuleId | str, sink: ModuleId | str) -> None:
        """Deliver no more (``Broker_RemoveLink``); what was delivered is still received.

        Raises ``InvalidArgument`` for what names no module, ``RemoveLinkError`` if there is none.
        """
        with self._lock:
            seat = self._core.remove_link(_named(source), _named(sink))
            worker = self._workers.get(seat.number)
            if worker is not None:
                worker.room.notify_all()

    # Messages.

    def publish(self, source: ModuleId | str, message: Message) -> None:
        """Deliver a message to all that ``source`` is linked to (``Broker_Publish``).

        Returns when it is in their inboxes, or was treated as a link's policy says. Raises
        ``InvalidArgument`` for what is no message, ``InboxFull``, and ``BrokerError`` when the
        module is not there.
        """
        with self._lock:
            seat = self._core.seat(_named(source))
        self.publish_from(seat, message)

    def publish_from(self, seat: Seat, message: Message) -> None:
        """Publish for a module that may be on its way out; for ports."""
        if type(message) is not Message:
            raise InvalidArgument(f"{message!r} is no Message: wrap it in one")
        if self._is_in_loop():
            raise InvalidArgument(
                "publish() would block the trio loop of all modules: await the port's publish()"
            )
        worker = self._me()
        with self._lock:
            for link in self._begin(seat):
                while (verdict := self._core.offer(link, message, worker)) is Verdict.WAIT:
                    self._workers[link.sink.number].room.wait()
                if verdict is Verdict.DELIVERED:
                    self._workers[link.sink.number].wake()

    async def publish_from_async(self, seat: Seat, message: Message) -> None:
        """Publish for a module whose methods are ``async``, from the portal's loop; for ports."""
        if type(message) is not Message:
            raise InvalidArgument(f"{message!r} is no Message: wrap it in one")
        await trio.lowlevel.checkpoint_if_cancelled()
        with self._lock:
            links = self._begin(seat)
            worker = seat if self._workers[seat.number].is_here() else None
        for link in links:
            while (room := self._offer(link, message, worker)) is not None:
                await self._wait(room, worker)

    async def _wait(self, room: trio.Event, worker: Seat | None) -> None:
        try:
            await room.wait()
        finally:
            if worker is not None:
                with self._lock:
                    worker.awaited = None

    def _offer(self, link: Link, message: Message, worker: Seat | None) -> trio.Event | None:
        """Offer a message; give an event to wait for if there is no room."""
        with self._lock:
            verdict = self._core.offer(link, message, worker)
            if verdict is Verdict.WAIT:
                return self._workers[link.sink.number].room.enlist(self._loop())
            if verdict is Verdict.DELIVERED:
                self._workers[link.sink.number].wake()
            return None

    def _is_in_loop(self) -> bool:
        return self._portal is not None and self._portal.is_here()

    def _begin(self, seat: Seat) -> list[Link]:
        if seat.is_leaving and seat.number not in self._workers:
            raise BrokerError(_SOURCE_GONE.format(seat.name))
        return self._core.begin(seat)

    # For the workers.

    def leave(self, seat: Seat) -> None:
        """Remove a module, without waiting, unless it is leaving already."""
        with self._lock:
            if not seat.is_leaving:
                self._core.remove_module(seat.number)
                self._dismiss(seat, drain=True)

    def work_as(self, seat: Seat) -> None:
        """Tell that this thread is a module's worker: it may not wait for whoever waits for it."""
        self._local.seat = seat

    def _me(self) -> Seat | None:
        return getattr(self._local, "seat", None)

    def finish(self, seat: Seat) -> None:
        """A worker has ended."""
        with self._lock:
            if not seat.is_leaving:
                self._core.remove_module(seat.number)
            sinks = self._core.finish(seat)
            self._workers.pop(seat.number).room.notify_all()
            for sink in sinks:
                if sink.number in self._workers:
                    self._workers[sink.number].room.notify_all()

    # Numbers.

    def modules(self) -> list[ModuleStatistics]:
        """List the modules, in the order in which they were added, in numbers."""
        with self._lock:
            return [
                ModuleStatistics(seat.name, len(seat.inbox), seat.received, seat.failed)
                for seat in self._core.seats()
            ]

    def links(self) -> list[LinkStatistics]:
        """List the links in numbers."""
        with self._lock:
            return [
                LinkStatistics(
                    link.source.name, link.sink.name, link.policy, link.delivered, link.dropped
                )
                for link in self._core.links()
            ]

    def __enter__(self) -> Self:
        """Use it within the block, which gives its reference back at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release it, unless somebody has done so."""
        with self._lock:
            if not self._references:
                return
        self.release()


def _named(module: ModuleId | str) -> ModuleId | str:
    """Refuse what cannot name a module."""
    if isinstance(module, (str, int)) and not isinstance(module, bool):
        return module
    raise InvalidArgument(f"{module!r} names no module: give its id, or its name")
