"""The workers: whatever calls a module's methods, one after the other, in a thread or in a task.

Whatever a module raises is reported, and costs nobody else anything.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from peermesh.blocking.portal import Portal
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncModule, AsyncPort, Failure, Module, Port
from peermesh.brokers.modules.switchboard import Seat
from wire.logs import logger_of

logger = logger_of("peermesh.brokers.modules")

TAKE_COUNT: Final = 64
"""Messages that a worker takes in its hand at once: the cost of the lock, shared."""


class Employer(Protocol):
    """What a worker needs of its broker."""

    lock: threading.Lock
    report: Callable[[Failure], object]

    def work_as(self, seat: Seat) -> None:
        """Tell that this thread is a module's worker."""

    def finish(self, seat: Seat) -> None:
        """The worker has ended."""

    def publish_from(self, seat: Seat, message: Message) -> None:
        """Publish for a module."""

    async def publish_from_async(self, seat: Seat, message: Message) -> None:
        """The same, from the portal's loop."""

    def leave(self, seat: Seat) -> None:
        """Remove the module, without waiting."""


class Room:
    """Those who wait for room in one inbox, in threads or in tasks. All under the broker's lock."""

    def __init__(self, lock: threading.Lock) -> None:
        """Begin with nobody waiting."""
        self._threads = threading.Condition(lock)
        self._tasks: list[tuple[Portal, trio.Event]] = []
        self._waiting = 0

    def wait(self) -> None:
        """Wait in this thread, giving the lock back meanwhile."""
        self._waiting += 1
        try:
            self._threads.wait()
        finally:
            self._waiting -= 1

    def enlist(self, portal: Portal) -> trio.Event:
        """Give an event that will be set in the portal's loop."""
        event = trio.Event()
        self._tasks.append((portal, event))
        return event

    def notify_all(self) -> None:
        """Have everybody look again."""
        if self._waiting:
            self._threads.notify_all()
        tasks, self._tasks = self._tasks, []
        for portal, event in tasks:
            portal.soon(event.set)


class Worker:
    """What both kinds have in common: the messages in hand, and the end."""

    def __init__(self, broker: Employer, seat: Seat) -> None:
        """Work for the module that has this seat."""
        self.room = Room(broker.lock)
        self._broker = broker
        self._seat = seat
        self._hand: deque[Message] = deque()
        self._is_idle = False
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to work, soon; raises ``RuntimeError`` when the system has no thread left."""
        raise NotImplementedError

    def wake(self) -> None:
        """There is something in the inbox, or it is time to leave; under the broker's lock."""
        raise NotImplementedError

    def wait(self, timeout: float | None) -> bool:
        """Wait for the end; false if it takes longer."""
        return self._ended.wait(timeout)

    def is_here(self) -> bool:
        """Tell whether the caller is the worker itself."""
        raise NotImplementedError

    def drop(self) -> None:
        """Forget what is in hand and in the inbox; under the broker's lock."""
        self._seat.inbox.clear()
        self._hand.clear()

    def _take(self) -> None:
        """Take messages from the inbox in hand; under the broker's lock."""
        inbox = self._seat.inbox
        for _ in range(min(len(inbox), TAKE_COUNT)):
            self._hand.append(inbox.popleft())
        if self._seat.has_room:
            self.room.notify_all()

    def _next(self) -> Message | None:
        try:
            return self._hand.popleft()
        except IndexError:  # Nothing was in hand, or it was dropped in another thread just now.
            return None

    def _failed(self, method: str, error: BaseException, message: Message | None = None) -> bool:
        """Report what a module raised, and tell whether it goes on.

        After ``SystemExit`` and its like it does not: a module that wants the process to end gets
        its own end.
        """
        if message is not None:
            self._seat.failed += 1
        try:
            self._broker.report(Failure(self._seat.name, method, error, message))
        except BaseException:
            logger.exception("reporting that module %s raised has failed itself", self._seat.name)
        return isinstance(error, Exception)

    def _end(self) -> None:
        self._broker.finish(self._seat)
        self._ended.set()


class ThreadWorker(Worker):
    """A thread for a module with plain methods (``module_worker``)."""

    def __init__(self, broker: Employer, seat: Seat, module: Module) -> None:
        """Serve ``module``."""
        super().__init__(broker, seat)
        self._module = module
        self._work = threading.Condition(broker.lock)
        self._thread = threading.Thread(
            target=self._run, name=f"peermesh module {seat.name}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread if it sleeps."""
        if self._is_idle:
            self._is_idle = False
            self._work.notify()

    def wait(self, timeout: float | None) -> bool:
        """Wait for the end, and for the thread's, too."""
        if not super().wait(timeout):
            return False
        self._thread.join(timeout)
        return True

    def is_here(self) -> bool:
        """Tell whether this is the thread."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        self._broker.work_as(self._seat)
        try:
            if self._attach():
                while self._receive():
                    pass
                self._close()
        finally:
            self._end()

    def _attach(self) -> bool:
        attach = getattr(self._module, "attach", None)
        if attach is None:
            return True
        seat, broker = self._seat, self._broker
        try:
            attach(
                Port(
                    seat.number,
                    seat.name,
                    lambda message: broker.publish_from(seat, message),
                    lambda: broker.leave(seat),
                )
            )
        except BaseException as error:
            self._failed("attach", error)
            return False
        return True

    def _receive(self) -> bool:
        """Serve what is there, waiting for it; false when it is time to leave."""
        with self._broker.lock:
            while not self._seat.inbox:
                if self._seat.is_leaving:
                    return False
                self._is_idle = True
                self._work.wait()
            self._take()
        while (message := self._next()) is not None:
            self._seat.received += 1
            try:
                self._module.receive(message)
            except BaseException as error:
                if not self._failed("receive", error, message):
                    return False
        return True

    def _close(self) -> None:
        close = getattr(self._module, "close", None)
        if close is not None:
            try:
                close()
            except BaseException as error:
                self._failed("close", error)


class AsyncWorker(Worker):
    """A trio task, in the loop of all blocking endpoints, for a module with ``async`` methods."""

    def __init__(self, broker: Employer, seat: Seat, module: AsyncModule, portal: Portal) -> None:
        """Serve ``module`` in the portal's loop."""
        super().__init__(broker, seat)
        self._module = module
        self._portal = portal
        self._work = trio.Event()
        self._task: trio.lowlevel.Task | None = None

    def start(self) -> None:
        """Start the task, soon."""
        self._portal.start_soon(self._run)

    def wake(self) -> None:
        """Wake the task if it sleeps."""
        if self._is_idle:
            self._is_idle = False
            self._portal.soon(self._work.set)

    def is_here(self) -> bool:
        """Tell whether this is the task."""
        return trio.lowlevel.current_task() is self._task

    async def _run(self) -> None:
        self._task = trio.lowlevel.current_task()
        try:
            if await self._attach():
                while await self._receive():
                    pass
                await self._close()
        finally:
            self._end()

    async def _attach(self) -> bool:
        attach = getattr(self._module, "attach", None)
        if attach is None:
            return True
        seat, broker = self._seat, self._broker
        try:
            await attach(
                AsyncPort(
                    seat.number,
                    seat.name,
                    lambda message: broker.publish_from_async(seat, message),
                    lambda: broker.leave(seat),
                )
            )
        except BaseException as error:
            _let_cancel(error)
            self._failed("attach", error)
            return False
        return True

    async def _receive(self) -> bool:
        """Serve what is there, waiting for it; false when it is time to leave."""
        await trio.lowlevel.checkpoint()
        with self._broker.lock:
            if not self._seat.inbox:
                if self._seat.is_leaving:
                    return False
                self._is_idle = True
                work = self._work = trio.Event()
            else:
                work = None
                self._take()
        if work is not None:
            await work.wait()
            return True
        while (message := self._next()) is not None:
            self._seat.received += 1
            try:
                await self._module.receive(message)
            except BaseException as error:
                _let_cancel(error)
                if not self._failed("receive", error, message):
                    return False
        return True

    async def _close(self) -> None:
        close = getattr(self._module, "close", None)
        if close is not None:
            try:
                await close()
            except BaseException as error:
                _let_cancel(error)
                self._failed("close", error)


def _let_cancel(error: BaseException) -> None:
    """Raise what ends this task from outside, which is none of the module's mistakes."""
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup(trio.Cancelled) is not None:
            raise error
    elif isinstance(error, trio.Cancelled):
        raise error
