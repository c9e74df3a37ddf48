"""The workers: each calls one module's methods, one after the other, in a thread or in a task.

Whatever a module raises, ``SystemExit`` included, is reported, and the module goes on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final, Protocol

import trio

from peermesh.brokers.modules.errors import BrokerError
from peermesh.brokers.modules.loop import ModuleLoop
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncModule, AsyncPort, Failure, Module, Port
from peermesh.brokers.modules.switchboard import Seat
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.modules")

TURN_COUNT: Final = 64
"""Messages after which an async module lets the others of its loop go on."""


class Employer(Protocol):
    """What a worker needs of its broker."""

    lock: threading.Lock
    report: Callable[[Failure], object]

    def work_as(self, seat: Seat) -> None:
        """Tell that this thread is a module's worker."""

    def make_room(self, seat: Seat) -> None:
        """Have those go on who wait for room in an inbox that is half empty."""

    def finish(self, seat: Seat) -> None:
        """End the module's links, as its worker ends."""

    def publish_from(self, seat: Seat, message: Message) -> None:
        """Publish for a module."""

    async def publish_from_async(self, seat: Seat, message: Message) -> None:
        """Publish for a module, from the loop of async modules."""

    def leave(self, seat: Seat) -> None:
        """Remove the module, without waiting."""


class ThreadInbox(queue.SimpleQueue["Message | None"]):
    """What waits for a thread: putting and getting are done in C, without a lock of ours."""

    def take(self) -> Message | None:
        """Take the oldest message; ``None`` if there is none."""
        try:
            return self.get_nowait()
        except queue.Empty:
            return None


class AsyncInbox:
    """What waits for a task: putting wakes it if it sleeps."""

    def __init__(self, loop: ModuleLoop) -> None:
        self._loop = loop
        self._queue = ThreadInbox()
        self._is_idle = False
        self._work = trio.Event()
        self.qsize = self._queue.qsize
        self.take = self._queue.take

    def put(self, message: Message | None) -> None:
        """Append a message, or the end."""
        self._queue.put(message)
        if self._is_idle:
            self._is_idle = False
            self._loop.soon(self._wake)

    def _wake(self) -> None:
        self._work.set()

    async def get(self) -> Message | None:
        """Wait for the oldest message, or the end."""
        while not self.qsize():
            self._work = trio.Event()
            self._is_idle = True
            if self.qsize():  # It came before it could see that the task sleeps.
                break
            await self._work.wait()
        self._is_idle = False
        return self._queue.get_nowait()


class Room:
    """The threads and tasks that wait for room in one inbox. All under the broker's lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self._threads = threading.Condition(lock)
        self._tasks: list[tuple[ModuleLoop, trio.Event]] = []

    def wait(self) -> None:
        """Wait in this thread, giving the lock back meanwhile."""
        self._threads.wait()

    def enlist(self, loop: ModuleLoop) -> trio.Event:
        """Give an event that will be set in the loop."""
        event = trio.Event()
        self._tasks.append((loop, event))
        return event

    def notify_all(self) -> None:
        """Have all of them look again."""
        self._threads.notify_all()
        tasks, self._tasks = self._tasks, []
        for loop, event in tasks:
            loop.soon(event.set)


class Worker:
    """What all kinds have in common: reports, and the end."""

    def __init__(self, broker: Employer, seat: Seat) -> None:
        """Work for the module that has this seat."""
        self.room = Room(broker.lock)
        self.is_started = False
        self._broker = broker
        self._seat = seat
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the thread or the task; raises ``RuntimeError`` when the system has none left."""
        raise NotImplementedError

    def wait(self, timeout: float | None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; false if it takes longer."""
        return self._ended.wait(timeout)

    def is_here(self) -> bool:
        """Tell whether the caller is the worker itself."""
        raise NotImplementedError

    def drop(self) -> None:
        """Forget what waits in the inbox, which nothing is put into any more."""
        while self._seat.inbox.take() is not None:
            pass

    def never_started(self) -> None:
        """End a worker that did not start."""
        self._ended.set()

    def _failed(self, method: str, error: BaseException, message: Message | None = None) -> None:
        """Report what a module raised."""
        try:
            self._broker.report(Failure(self._seat.name, method, error, message))
        except BaseException:
            logger.exception("reporting that module %s raised has failed itself", self._seat.name)

    def _lost(self, cause: BaseException | None = None) -> None:
        """Take the module out, as its worker ends, and report how many messages go with it."""
        self._broker.leave(self._seat)
        count = self._kept()
        while self._seat.inbox.take() is not None:
            count += 1
        if cause is None and not count:
            return
        error = BrokerError(
            f"the worker of module {self._seat.name!r} ended: {count} messages went with it"
        )
        error.__cause__ = cause
        self._failed("worker", error)

    def _kept(self) -> int:
        """Count the messages that were taken from the inbox, and not yet received."""
        return 0

    def _end(self) -> None:
        self._broker.finish(self._seat)
        self._ended.set()


class ThreadWorker(Worker):
    """A thread for a module (``module_worker``, SRS_BROKER_13_102)."""

    def __init__(self, broker: Employer, seat: Seat) -> None:
        """Work for the module that has this seat."""
        super().__init__(broker, seat)
        self._thread = threading.Thread(
            target=self._run, name=f"peermesh module {seat.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()
        self.is_started = True

    def wait(self, timeout: float | None) -> bool:
        """Wait for the end, and for the thread's, too."""
        if not super().wait(timeout):
            return False
        if self.is_started:
            self._thread.join(timeout)
        return True

    def is_here(self) -> bool:
        """Tell whether this is the thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        self._broker.work_as(self._seat)
        try:
            if self._attach():
                self._receive()
                self._close()
            else:
                self._lost()
        except BaseException as error:
            self._lost(error)
        finally:
            self._end()

    def _port(self) -> Port:
        seat, broker = self._seat, self._broker
        return Port(
            seat.number,
            seat.name,
            lambda message: broker.publish_from(seat, message),
            lambda: broker.leave(seat),
        )

    def _attach(self) -> bool:
        """Give the module its port; false if it raised."""
        raise NotImplementedError

    def _receive(self) -> None:
        """Serve what comes, until the end comes. SRS_BROKER_13_068."""
        raise NotImplementedError

    def _close(self) -> None:
        """Have the module end."""
        raise NotImplementedError


class PlainWorker(ThreadWorker):
    """Calls the plain methods of a module."""

    def __init__(self, broker: Employer, seat: Seat, inbox: ThreadInbox, module: Module) -> None:
        """Serve ``module`` with what comes into ``inbox``."""
        super().__init__(broker, seat)
        self._inbox = inbox
        self._module = module

    def _attach(self) -> bool:
        return self._call("attach", self._port())

    def _close(self) -> None:
        self._call("close")

    def _call(self, name: str, *arguments: object) -> bool:
        """Call a method that a module may have; false if it raised."""
        method = getattr(self._module, name, None)
        if method is not None:
            try:
                method(*arguments)
            except BaseException as error:
                self._failed(name, error)
                return False
        return True

    def _receive(self) -> None:
        seat, receive = self._seat, self._module.receive
        get, qsize, half = self._inbox.get, self._inbox.qsize, seat.size // 2
        while (message := get()) is not None:
            if not seat.limit and qsize() <= half:
                self._broker.make_room(seat)
            seat.received += 1
            try:
                receive(message)
            except BaseException as error:
                seat.failed += 1
                self._failed("receive", error, message)
            message = None  # Nothing of it stays here while the next one is waited for.


class AsyncWorker(Worker):
    """A trio task in the loop of its broker, for a module with ``async`` methods."""

    def __init__(
        self, broker: Employer, seat: Seat, inbox: AsyncInbox, module: AsyncModule, loop: ModuleLoop
    ) -> None:
        """Serve ``module`` in ``loop`` with what comes into ``inbox``."""
        super().__init__(broker, seat)
        self._inbox = inbox
        self._module = module
        self._loop = loop
        self._task: trio.lowlevel.Task | None = None

    def start(self) -> None:
        """Start the task, soon."""
        self._loop.start(self._run)
        self.is_started = True

    def is_here(self) -> bool:
        """Tell whether this is the task."""
        return trio.lowlevel.current_task() is self._task

    async def _run(self) -> None:
        self._task = trio.lowlevel.current_task()
        try:
            if await self._attach():
                await self._receive()
                await self._call("close")
            else:
                self._lost()
        except BaseException as error:
            self._lost(error)
            _let_cancel(error)
        finally:
            self._end()

    async def _attach(self) -> bool:
        seat, broker = self._seat, self._broker
        return await self._call(
            "attach",
            AsyncPort(
                seat.number,
                seat.name,
                lambda message: broker.publish_from_async(seat, message),
                lambda: broker.leave(seat),
            ),
        )

    async def _call(self, name: str, *arguments: object) -> bool:
        """Await a method that a module may have; false if it raised."""
        method = getattr(self._module, name, None)
        if method is not None:
            try:
                await method(*arguments)
            except BaseException as error:
                _let_cancel(error)
                self._failed(name, error)
                return False
        return True

    async def _receive(self) -> None:
        """Serve what comes, until the end comes."""
        seat, inbox, half = self._seat, self._inbox, self._seat.size // 2
        while (message := await inbox.get()) is not None:
            if not seat.limit and inbox.qsize() <= half:
                self._broker.make_room(seat)
            seat.received += 1
            try:
                await self._module.receive(message)
            except BaseException as error:
                _let_cancel(error)
                seat.failed += 1
                self._failed("receive", error, message)
            message = None
            if seat.received % TURN_COUNT == 0:
                await trio.lowlevel.checkpoint()


def _let_cancel(error: BaseException) -> None:
    """Raise what ends this task from outside, which is none of the module's mistakes."""
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup(trio.Cancelled) is not None:
            raise error
    elif isinstance(error, trio.Cancelled):
        raise error
