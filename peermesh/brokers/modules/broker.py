"""The broker: the locks around the switchboard, and a worker for each module.

Every call may come from any thread, the modules' own workers included. No lock is held while a
module's code runs.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast

import trio

from endpoint import arguments
from peermesh.brokers.modules.errors import BrokerError, InvalidArgument
from peermesh.brokers.modules.loop import ModuleLoop
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncModule, Failure, Module
from peermesh.brokers.modules.process import ProcessModule
from peermesh.brokers.modules.process_worker import ProcessWorker
from peermesh.brokers.modules.switchboard import (
    INBOX_SIZE,
    Inbox,
    Link,
    LinkPolicy,
    LinkStatistics,
    ModuleId,
    ModuleStatistics,
    Seat,
    Switchboard,
    Verdict,
)
from peermesh.brokers.modules.worker import (
    AsyncInbox,
    AsyncWorker,
    PlainWorker,
    ThreadInbox,
    Worker,
)
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.modules")

_NO_MESSAGE: Final = "{!r} is no Message: wrap it in one"


def log_failure(failure: Failure) -> None:
    """Report a failure to the log, as is done unless something else is asked for."""
    logger.error("module %s: %s() raised", failure.module, failure.method, exc_info=failure.error)


class ModuleBroker:
    """Carries messages between modules of this process (``Broker_Create``, SRS_BROKER_13_001).

    It begins with one reference, and ends when the last one is released: ``retain`` and ``release``
    are the seed's ``Broker_IncRef`` and ``Broker_DecRef``; a ``with`` block releases at its end.
    """

    def __init__(self, *, on_failure: Callable[[Failure], object] = log_failure) -> None:
        """Call ``on_failure``, in the module's worker, with what a module raises."""
        self.report = arguments.function("on_failure", on_failure)
        self._core = Switchboard()
        self._lock = self.lock = threading.Lock()
        self._workers: dict[ModuleId, Worker] = {}
        self._local = threading.local()
        self._references = 1
        self._loop: ModuleLoop | None = None
        self._loop_thread: int | None = None

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
            loop = self._loop
        if self._me() is None and not self._is_in_loop():
            _end(workers, loop)
        else:
            # The workers end only after the call that this one is in the middle of.
            threading.Thread(
                target=_end, args=(workers, loop), name="peermesh modules end", daemon=False
            ).start()

    destroy = release
    """The seed's ``Broker_Destroy``, which gives one reference back, too."""

    def _check_open(self) -> None:
        if not self._references:
            raise BrokerError("the broker is destroyed: make a new one")

    # Modules.

    def add_module(
        self,
        module: Module | AsyncModule | ProcessModule,
        name: str | None = None,
        *,
        inbox_size: int = INBOX_SIZE,
        start: bool = True,
    ) -> ModuleId:
        """Start a worker for a module, and give the module's id (``Broker_AddModule``).

        A module whose ``receive`` is ``async`` gets a trio task; any other a thread. Without
        ``start`` its worker waits for ``start()``, so that it can be linked before it attaches:
        what it publishes then goes along its links. Raises ``InvalidArgument`` for what is no
        module, name or size, and ``BrokerError`` when there are too many.
        """
        receive = getattr(module, "receive", None)
        if not callable(receive) and not isinstance(module, ProcessModule):
            raise InvalidArgument(f"{module!r} has no receive(message): it is no module")
        if name is not None and type(name) is not str:
            raise InvalidArgument(f"name={name!r}: the name of a module is a text")
        if type(inbox_size) is not int:
            raise InvalidArgument(f"inbox_size={inbox_size!r}: give a number of messages")
        with self._lock:
            self._check_open()
            if isinstance(module, ProcessModule):
                inbox = ThreadInbox()
                seat = self._seat(name, inbox_size, inbox)
                worker: Worker = ProcessWorker(self, seat, inbox, module)
            elif inspect.iscoroutinefunction(receive):
                loop = self._running_loop()
                waiting = AsyncInbox(loop)
                seat = self._seat(name, inbox_size, waiting)
                worker = AsyncWorker(self, seat, waiting, cast("AsyncModule", module), loop)
            else:
                inbox = ThreadInbox()
                seat = self._seat(name, inbox_size, inbox)
                worker = PlainWorker(self, seat, inbox, cast("Module", module))
            self._workers[seat.number] = worker
            if start:
                try:
                    self._start(seat, worker)
                except BrokerError:
                    self._core.remove_module(seat.number)
                    del self._workers[seat.number]
                    raise
        return seat.number

    def start(self) -> None:
        """Start all modules that were added without ``start``, in the order in which they came.

        Raises ``BrokerError`` when the system has no thread left; those that did not start wait
        for the next call.
        """
        with self._lock:
            self._check_open()
            for seat in self._core.seats():
                worker = self._workers[seat.number]
                if not worker.is_started:
                    self._start(seat, worker)

    def _seat(self, name: str | None, inbox_size: int, inbox: Inbox) -> Seat:
        return self._core.add_module(name, inbox_size, inbox, threading.Lock())

    @staticmethod
    def _start(seat: Seat, worker: Worker) -> None:
        try:
            worker.start()
        except RuntimeError as error:
            raise BrokerError(f"no worker for {seat.name!r}: {error}") from error

    def _running_loop(self) -> ModuleLoop:
        """Give the loop of the async modules; raises ``BrokerError`` when no thread is left."""
        if self._loop is None or not self._loop.is_alive:
            try:
                self._loop = ModuleLoop()
            except RuntimeError as error:
                raise BrokerError(f"no loop for async modules: {error}") from error
            self._loop_thread = self._loop.ident
        return self._loop

    def remove_module(
        self, module: ModuleId | str, *, drain: bool = True, timeout: float | None = None
    ) -> bool:
        """Remove a module and its links, and wait for its worker's end (``Broker_RemoveModule``).

        It first receives what was delivered before, unless ``drain`` is false. False if that takes
        more than ``timeout`` seconds; it ends later then. Called from inside of the module's own
        ``receive``, or of one that the module waits for, it does not wait, and is false.
        Raises ``BrokerError`` when the module is not there.
        """
        named = _named(module)
        limit = None if timeout is None else arguments.seconds("timeout", timeout)
        with self._lock:
            seat = self._core.remove_module(named)
            self._dismiss(seat, drain=drain)
        return self._join(seat, None if limit is None else min(limit, threading.TIMEOUT_MAX))

    def _dismiss(self, seat: Seat, *, drain: bool) -> None:
        """Have the worker of a removed module end; one that was not started, begin if it has to."""
        worker = self._workers[seat.number]
        if not drain:
            worker.drop()
        worker.room.notify_all()
        if not worker.is_started and not self._starts_late(seat, worker):
            self._finish(seat)
            worker.never_started()
        else:
            seat.inbox.put(None)

    def _starts_late(self, seat: Seat, worker: Worker) -> bool:
        """Start the worker of a removed module if messages wait for it, which it still receives."""
        waiting = seat.inbox.qsize()
        if waiting:
            try:
                self._start(seat, worker)
            except BrokerError as error:
                logger.error("%s; %d messages went with it", error, waiting)
        return worker.is_started

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
        begin, end = _named(source), _named(sink)
        try:
            chosen = LinkPolicy(policy)
        except ValueError:
            known = ", ".join(LinkPolicy)
            raise InvalidArgument(f"{policy!r} is no policy; there are {known}") from None
        with self._lock:
            self._core.add_link(begin, end, chosen)

    def remove_link(self, source: ModuleId | str, sink: ModuleId | str) -> None:
        """Deliver no more (``Broker_RemoveLink``); what was delivered is still received.

        Raises ``InvalidArgument`` for what names no module, ``RemoveLinkError`` if there is none.
        """
        begin, end = _named(source), _named(sink)
        with self._lock:
            seat = self._core.remove_link(begin, end)
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
        self.publish_from(self._core.seat(_named(source)), message)

    def publish_from(self, seat: Seat, message: Message) -> None:
        """Publish for a module that may be on its way out; for ports."""
        if type(message) is not Message:
            raise InvalidArgument(_NO_MESSAGE.format(message))
        if threading.get_ident() == self._loop_thread:
            raise InvalidArgument(
                "publish() would block the trio loop of all async modules: await the port's"
                " publish()"
            )
        with seat.lock:
            late = seat.deliver(message)
        if late:
            worker = self._me()
            with self._lock:
                for link in late:
                    while self._core.offer(link, message, worker) is Verdict.WAIT:
                        self._workers[link.sink.number].room.wait()

    async def publish_from_async(self, seat: Seat, message: Message) -> None:
        """Publish for a module whose methods are ``async``, from its loop; for ports."""
        if type(message) is not Message:
            raise InvalidArgument(_NO_MESSAGE.format(message))
        await trio.lowlevel.checkpoint_if_cancelled()
        with seat.lock:
            late = seat.deliver(message)
        for link in late:
            while (room := self._offer(link, message)) is not None:
                await self._wait(room, link.source)

    async def _wait(self, room: trio.Event, worker: Seat) -> None:
        try:
            await room.wait()
        finally:
            with self._lock:
                worker.awaited = None

    def _offer(self, link: Link, message: Message) -> trio.Event | None:
        """Offer a late message; give an event to wait for if there is no room."""
        with self._lock:
            source = self._workers.get(link.source.number)
            is_here = source is not None and source.is_here()
            verdict = self._core.offer(link, message, link.source if is_here else None)
            if verdict is Verdict.WAIT and self._loop is not None:
                return self._workers[link.sink.number].room.enlist(self._loop)
            return None

    def _is_in_loop(self) -> bool:
        return threading.get_ident() == self._loop_thread

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

    def make_room(self, seat: Seat) -> None:
        """Have those go on who wait for room in an inbox that is half empty."""
        with self._lock:
            if seat.reopen():
                self._workers[seat.number].room.notify_all()

    def finish(self, seat: Seat) -> None:
        """End the links of a module whose worker ends; it is taken out unless it was before."""
        with self._lock:
            if not seat.is_leaving:
                self._core.remove_module(seat.number)
            self._finish(seat)

    def _finish(self, seat: Seat) -> None:
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
                ModuleStatistics(seat.name, seat.inbox.qsize(), seat.received, seat.failed)
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
        """Release it, unless that was done before."""
        with self._lock:
            if not self._references:
                return
        self.release()


def _end(workers: list[Worker], loop: ModuleLoop | None) -> None:
    for worker in workers:
        worker.wait(None)
    if loop is not None:
        loop.end()


def _named(module: ModuleId | str) -> ModuleId | str:
    """Refuse what cannot name a module."""
    if isinstance(module, (str, int)) and not isinstance(module, bool):
        return module
    raise InvalidArgument(f"{module!r} names no module: give its id, or its name")
