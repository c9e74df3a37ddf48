"""The broker: the locks around the switchboard, and a worker for each module.

Every call may come from any thread, the modules' own workers included. No lock is held while a
module's code runs.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

import trio

from endpoint import arguments
from peermesh.brokers.modules.errors import BrokerError, InvalidArgument
from peermesh.brokers.modules.loop import ModuleLoop
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncModule, Failure, Module
from peermesh.brokers.modules.process import ProcessModule
from peermesh.brokers.modules.process_worker import ProcessWorker
from peermesh.brokers.modules.seat import Link, LinkPolicy, ModuleId, Seat
from peermesh.brokers.modules.switchboard import (
    INBOX_SIZE,
    LinkStatistics,
    ModuleStatistics,
    Switchboard,
    Verdict,
)
from peermesh.brokers.modules.worker import AsyncInbox, ThreadInbox, Worker
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
        self._lock = threading.Lock()
        self._workers: dict[ModuleId, Worker] = {}
        self._working: dict[object, Seat] = {}
        """The modules whose workers run, by the thread or the task that they are."""
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
        _check(module, inbox_size)
        if name is not None and type(name) is not str:
            raise InvalidArgument(f"name={name!r}: the name of a module is a text")
        with self._lock:
            self._check_open()
            inbox = self._inbox_for(module)
            seat = self._core.add_module(name, inbox_size, inbox, threading.Lock())
            worker = self._hire(seat, inbox, module)
            if start:
                try:
                    self._start(seat, worker)
                except BrokerError:
                    self._core.remove_module(seat.number)
                    del self._workers[seat.number]
                    raise
        return seat.number

    def replace_module(
        self,
        module: ModuleId | str,
        successor: Module | AsyncModule | ProcessModule,
        *,
        inbox_size: int = INBOX_SIZE,
        start: bool = True,
    ) -> ModuleId:
        """Put a new module in the place of another one, and give its id.

        It has the name and the links of the old one, and receives what is published from now on:
        no message is lost in between. The old one still receives what was delivered before, and
        ends. Then the new one begins. Without ``start`` it also waits for ``start()``. Raises
        ``InvalidArgument`` as ``add_module`` does, and ``BrokerError`` when the old one is not
        there.
        """
        named = _named(module)
        _check(successor, inbox_size)
        with self._lock:
            self._check_open()
            inbox = self._inbox_for(successor)
            old, seat = self._core.replace_module(named, inbox_size, inbox, threading.Lock())
            worker = self._hire(seat, inbox, successor)
            worker.is_wanted = start
            self._workers[old.number].follower = seat
            self._dismiss(old, drain=True)
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
                worker.is_wanted = True
                if not worker.is_started and seat.awaited is None:
                    self._start(seat, worker)

    def _inbox_for(self, module: object) -> ThreadInbox:
        if inspect.iscoroutinefunction(getattr(module, "receive", None)):
            return AsyncInbox(self._running_loop())
        return ThreadInbox()

    def _hire(self, seat: Seat, inbox: ThreadInbox, module: object) -> Worker:
        if isinstance(module, ProcessModule):
            worker: Worker = ProcessWorker(self, seat, inbox, module)
        else:
            worker = Worker(self, seat, inbox, module)
        self._workers[seat.number] = worker
        return worker

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
        worker.wake()
        seat.inbox.put(None)
        self._settle(seat, worker)

    def _settle(self, seat: Seat, worker: Worker) -> None:
        """Start or end a worker that has not begun, unless it waits for the one before it."""
        if worker.is_started or seat.awaited is not None:
            return
        waiting = seat.inbox.qsize() - seat.is_leaving  # with the end behind them
        if waiting if seat.is_leaving else worker.is_wanted:
            try:
                self._start(seat, worker)
            except BrokerError as error:
                what = "are dropped with it" if seat.is_leaving else "wait for it"
                logger.error("%s; %d messages %s", error, waiting, what)
        if seat.is_leaving and not worker.is_started:
            self._finish(seat)
            worker.never_started()

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
        begin, end, chosen = _named(source), _named(sink), _policy(policy)
        with self._lock:
            self._core.add_link(begin, end, chosen)

    def change_link(
        self, source: ModuleId | str, sink: ModuleId | str, policy: LinkPolicy | str
    ) -> None:
        """Give a link another policy, from the next message on.

        Raises ``InvalidArgument`` for what names no module or policy, and ``AddLinkError`` if there
        is no such link.
        """
        begin, end, chosen = _named(source), _named(sink), _policy(policy)
        with self._lock:
            self._workers[self._core.change_link(begin, end, chosen).number].wake()

    def remove_link(self, source: ModuleId | str, sink: ModuleId | str) -> None:
        """Deliver no more (``Broker_RemoveLink``); what was delivered is still received.

        Raises ``InvalidArgument`` for what names no module, ``RemoveLinkError`` if there is none.
        """
        begin, end = _named(source), _named(sink)
        with self._lock:
            self._workers[self._core.remove_link(begin, end).number].wake()

    # Messages.

    def publish(self, source: ModuleId | str, message: Message) -> None:
        """Deliver a message to all that ``source`` is linked to (``Broker_Publish``).

        Returns when it is in their inboxes, or was treated as a link's policy says. Raises
        ``InvalidArgument`` for what is no message, ``InboxFull``, and ``BrokerError`` when the
        module is not there.
        """
        named = source if type(source) is int else _named(source)  # A call less for each message.
        seat = self._core.seat(named)
        try:
            self.publish_from(seat, message)
        except BrokerError as error:
            if type(error) is not BrokerError or self._core.seat(named) is seat:
                raise
            self.publish(named, message)  # Another module of that name has taken the place.

    def publish_from(self, seat: Seat, message: Message) -> None:
        """Publish for a module that may be on its way out; for ports."""
        if type(message) is not Message:
            raise InvalidArgument(_NO_MESSAGE.format(message))
        if self._loop_thread is not None and self._is_in_loop():
            raise InvalidArgument(
                "publish() would block the trio loop of all async modules: await the port's"
                " publish()"
            )
        with seat.lock:
            late = seat.deliver(message)
        if late:
            room = threading.Semaphore(0)
            for _ in self._rounds(late, message, room.release):
                room.acquire()

    async def publish_from_async(self, seat: Seat, message: Message) -> None:
        """Publish for a module whose methods are ``async``, from its loop; for ports."""
        if type(message) is not Message:
            raise InvalidArgument(_NO_MESSAGE.format(message))
        await trio.lowlevel.checkpoint_if_cancelled()
        with seat.lock:
            late = seat.deliver(message)
        if late and self._loop is not None:
            room, soon = trio.Semaphore(0), self._loop.soon
            for _ in self._rounds(late, message, lambda: soon(room.release)):
                await room.acquire()

    def _rounds(
        self, late: Sequence[Link], message: Message, wake: Callable[[], object]
    ) -> Iterator[None]:
        """Deliver late messages, and yield whenever the caller has to wait until it is woken."""
        me = self._me()
        for link in late:
            while self._has_to_wait(link, message, me, wake):
                try:
                    yield
                finally:
                    with self._lock:
                        sink = self._workers.get(link.latest().sink.number)
                        if sink is not None:
                            sink.waiting.discard(wake)
                        if me is not None:
                            me.awaited = None

    def _has_to_wait(
        self, link: Link, message: Message, me: Seat | None, wake: Callable[[], object]
    ) -> bool:
        with self._lock:
            link = link.latest()
            if self._core.offer(link, message, me) is not Verdict.WAIT:
                return False
            self._workers[link.sink.number].waiting.add(wake)
            return True

    def _is_in_loop(self) -> bool:
        return threading.get_ident() == self._loop_thread

    # For the workers.

    def leave(self, seat: Seat) -> None:
        """Remove a module, without waiting, unless it is leaving already."""
        with self._lock:
            if not seat.is_leaving:
                self._core.remove_module(seat.number)
                self._dismiss(seat, drain=True)

    @contextmanager
    def work_as(self, seat: Seat) -> Iterator[None]:
        """Work for a module in this thread or task, which may not wait for what waits for it."""
        here = self._here()
        self._working[here] = seat
        try:
            yield
        finally:
            del self._working[here]

    def _here(self) -> object:
        return trio.lowlevel.current_task() if self._is_in_loop() else threading.get_ident()

    def _me(self) -> Seat | None:
        return self._working.get(self._here())

    def make_room(self, seat: Seat) -> None:
        """Have those go on who wait for room in an inbox that is half empty."""
        with self._lock:
            if seat.reopen():
                self._workers[seat.number].wake()

    def finish(self, seat: Seat) -> None:
        """End the links of a module whose worker ends; it is taken out unless it was before."""
        with self._lock:
            if not seat.is_leaving:
                self._core.remove_module(seat.number)
            self._finish(seat)

    def _finish(self, seat: Seat) -> None:
        sinks = self._core.finish(seat)
        ended = self._workers.pop(seat.number)
        ended.wake()
        for sink in sinks:
            if sink.number in self._workers:
                self._workers[sink.number].wake()
        if ended.follower is not None:
            ended.follower.awaited = None
            self._settle(ended.follower, self._workers[ended.follower.number])

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


def _check(module: object, inbox_size: int) -> None:
    """Refuse what is no module, and what is no size."""
    if not callable(getattr(module, "receive", None)) and not isinstance(module, ProcessModule):
        raise InvalidArgument(f"{module!r} has no receive(message): it is no module")
    if type(inbox_size) is not int:
        raise InvalidArgument(f"inbox_size={inbox_size!r}: give a number of messages")


def _policy(policy: LinkPolicy | str) -> LinkPolicy:
    try:
        return LinkPolicy(policy)
    except ValueError:
        known = ", ".join(LinkPolicy)
        raise InvalidArgument(f"{policy!r} is no policy; there are {known}") from None


def _named(module: ModuleId | str) -> ModuleId | str:
    """Refuse what cannot name a module."""
    if isinstance(module, (str, int)) and not isinstance(module, bool):
        return module
    raise InvalidArgument(f"{module!r} names no module: give its id, or its name")
