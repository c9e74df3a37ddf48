"""The workers: each calls one module's methods, one after the other, in a thread or in a task.

Whatever a module raises, ``SystemExit`` included, is reported, and the module goes on.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from peermesh.brokers.modules.errors import BrokerError
from peermesh.brokers.modules.loop import ModuleLoop
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import AsyncPort, Failure, Port
from peermesh.brokers.modules.seat import Seat
from wire.logs import logger_of

if TYPE_CHECKING:
    from peermesh.brokers.modules.broker import ModuleBroker

logger = logger_of("peermesh.brokers.modules")

TURN_COUNT: Final = 64
"""Messages after which an async module lets the others of its loop go on."""


class ThreadInbox(queue.SimpleQueue["Message | None"]):
    """What waits for a thread: putting and getting are done in C, without a lock of ours."""

    def take(self) -> Message | None:
        """Take the oldest message; ``None`` if there is none."""
        try:
            return self.get_nowait()
        except queue.Empty:
            return None


class AsyncInbox(ThreadInbox):
    """What waits for a task: putting wakes it if it sleeps."""

    def __init__(self, loop: ModuleLoop) -> None:
        self.loop = loop
        self._is_idle = False
        self._work = trio.Event()

    def put(self, item: Message | None, *_: object, **__: object) -> None:
        """Append a message, or the end."""
        super().put(item)
        if self._is_idle:
            self._is_idle = False
            self.loop.soon(self._wake)

    def _wake(self) -> None:
        self._work.set()

    async def next(self) -> Message | None:
        """Wait for the oldest message, or the end."""
        while True:
            with suppress(queue.Empty):  # Also where another thread drops it at this moment.
                return self.get_nowait()
            self._work = trio.Event()
            self._is_idle = True
            if not self.qsize():  # Otherwise it came before it could see that the task sleeps.
                await self._work.wait()
            self._is_idle = False


class Worker:
    """Calls one module's methods: in a thread, or in a task if the inbox is one for tasks.

    Its body is written once, as a coroutine. In a thread nothing in it waits for a loop, so that
    it runs to its end in one step.
    """

    def __init__(
        self, broker: ModuleBroker, seat: Seat, inbox: ThreadInbox, module: object
    ) -> None:
        """Serve the module that has this seat with what comes into its inbox."""
        self.is_wanted = False
        """Whether it begins as soon as it may."""
        self.is_started = False
        self.follower: Seat | None = None
        """The module that takes this one's place when this one has ended."""
        self.waiting: set[Callable[[], object]] = set()
        """How those are woken that wait for room in the inbox; under the broker's lock."""
        self._broker = broker
        self._seat = seat
        self._inbox = inbox
        self._tasks = inbox if isinstance(inbox, AsyncInbox) else None
        self._module = module
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the thread or the task; raises ``RuntimeError`` when the system has none left."""
        if self._tasks is not None:
            self._tasks.loop.start(self._run)
        else:
            name = f"peermesh module {self._seat.name}"
            thread = threading.Thread(target=self._run_here, name=name, daemon=True)
            thread.start()
            self._thread = thread
        self.is_started = True

    def wait(self, timeout: float | None) -> bool:
        """Wait for the end, at most ``timeout`` seconds; false if it takes longer."""
        if not self._ended.wait(timeout):
            return False
        if self._thread is not None:
            self._thread.join(timeout)
        return True

    def drop(self) -> None:
        """Forget what waits in the inbox, which nothing is put into any more."""
        while self._inbox.take() is not None:
            pass

    def wake(self) -> None:
        """Have those look again who wait for room; the caller holds the broker's lock."""
        waiting, self.waiting = self.waiting, set()
        for each in waiting:
            each()

    def never_started(self) -> None:
        """End a worker that did not start."""
        self._ended.set()

    def _run_here(self) -> None:
        with suppress(StopIteration):
            self._run().send(None)

    async def _run(self) -> None:
        with self._broker.work_as(self._seat):
            try:
                if await self._attach():
                    await self._receive()
                    await self._close()
                else:
                    self._lost()
            except BaseException as error:
                self._lost(error)
                _let_cancel(error)
            finally:
                self._broker.finish(self._seat)
                self._ended.set()

    def _port(self) -> Port:
        seat, broker = self._seat, self._broker
        return Port(
            seat.number,
            seat.name,
            lambda message: broker.publish_from(seat, message),
            lambda: broker.leave(seat),
        )

    def _async_port(self) -> AsyncPort:
        seat, broker = self._seat, self._broker
        return AsyncPort(
            seat.number,
            seat.name,
            lambda message: broker.publish_from_async(seat, message),
            lambda: broker.leave(seat),
        )

    async def _attach(self) -> bool:
        """Give the module its port; false if it raised."""
        return await self._call("attach", self._async_port() if self._tasks else self._port())

    async def _close(self) -> None:
        """Have the module end."""
        await self._call("close")

    async def _call(self, name: str, *arguments: object) -> bool:
        """Call a method that a module may have; false if it raised."""
        method = getattr(self._module, name, None)
        if method is not None:
            try:
                result = method(*arguments)
                if self._tasks is not None:
                    await result
            except BaseException as error:
                _let_cancel(error)
                self._failed(name, error)
                return False
        return True

    async def _receive(self) -> None:
        """Serve what comes, until the end comes. SRS_BROKER_13_068."""
        seat, tasks, half = self._seat, self._tasks, self._seat.size // 2
        receive = getattr(self._module, "receive")  # noqa: B009 - it may be async, and may not
        get, qsize = self._inbox.get, self._inbox.qsize
        while (message := get() if tasks is None else await tasks.next()) is not None:
            if not seat.limit and qsize() <= half:
                self._broker.make_room(seat)
            seat.received += 1
            try:
                result = receive(message)
                if tasks is not None:
                    await result
            except BaseException as error:
                _let_cancel(error)
                seat.failed += 1
                self._failed("receive", error, message)
            message = result = None  # Nothing of it stays here while the next one is waited for.
            if tasks is not None and seat.received % TURN_COUNT == 0:
                await trio.lowlevel.checkpoint()

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
        while self._inbox.take() is not None:
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


def _let_cancel(error: BaseException) -> None:
    """Raise what ends this task from outside, which is none of the module's mistakes."""
    if isinstance(error, BaseExceptionGroup):
        if error.subgroup(trio.Cancelled) is not None:
            raise error
    elif isinstance(error, trio.Cancelled):
        raise error
