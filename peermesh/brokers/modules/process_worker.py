"""The worker of a module in a process: one thread hands messages over, another hears the process.

Messages go over in writes of many, and more of them are under way, so that the process is never
idle for want of the next one. When it dies, the shared memory says which message was in its hand:
that one is reported, and those behind it are given to the next process.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from peermesh.brokers.modules.errors import BrokerError
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import Port
from peermesh.brokers.modules.process import DROPPED, Child, ProcessModule
from peermesh.brokers.modules.seat import Seat
from peermesh.brokers.modules.worker import ThreadInbox, Worker
from wire.encoding import encode
from wire.errors import DecodeError, EncodeError
from wire.limits import MIB
from wire.logs import logger_of
from wire.values import Value

if TYPE_CHECKING:
    from peermesh.brokers.modules.broker import ModuleBroker

logger = logger_of("peermesh.brokers.modules")

WRITE_COUNT: Final = 64
"""Messages in one write to a process: the cost of a system call and a wake-up, shared."""

FLIGHT_COUNT: Final = 256
"""Messages that a process has and has not done with: four writes, so that it does not run dry while
the answer to one is on its way."""

FLIGHT_SIZE: Final = 4 * MIB
"""Bytes of them, beyond which none is added: all of them are kept for the next process."""

DEATHS_MAX: Final = 5
"""Processes that may die in a row without having received a message: the next one would, too."""

RESTART_SECONDS: Final = 0.1
"""The pause before a process is started again, so that a failure does not eat the machine."""

_TELL: Final = encode(("tell",))


class _Sent(NamedTuple):
    """A message, and the bytes in which it goes over."""

    message: Message
    encoded: bytes


class ProcessWorker(Worker):
    """Hands a process what comes into the inbox of its module."""

    def __init__(
        self, broker: ModuleBroker, seat: Seat, inbox: ThreadInbox, module: ProcessModule
    ) -> None:
        """Serve the process of ``module`` with what comes into ``inbox``."""
        super().__init__(broker, seat, inbox, module)
        self._described = module
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        """Held from taking what is pending to its end in the pipe, so that the order stays."""
        self._pending: deque[_Sent] = deque()
        """What is to be handed over next."""
        self._flight: deque[_Sent] = deque()
        """What the process has, and has not done with."""
        self._has_landed = False
        """Whether the process before left something for the next one."""
        self._flight_size = 0
        self._ready: Child | None = None
        """The process, while it takes messages."""
        self._deaths = 0
        self._given_up: str | None = None
        """Why no process is started any more."""
        self._is_ending = False
        self._is_dropped = False
        self._supervisor = threading.Thread(
            target=self._supervise, name=f"peermesh process {seat.name}", daemon=True
        )

    # In the module's own thread.

    def drop(self) -> None:
        """Forget what waits, here and in the process."""
        super().drop()
        with self._changed:
            self._is_dropped = True
            self._pending.clear()
            self._changed.notify_all()
            if self._described.child is not None:
                self._described.child.shared[DROPPED] = 1

    def _kept(self) -> int:
        return len(self._pending) + len(self._flight)

    async def _attach(self) -> bool:
        try:
            self._supervisor.start()
        except RuntimeError as error:
            self._failed("attach", error)
            return False
        return True

    async def _receive(self) -> None:
        seat, half = self._seat, self._seat.size // 2
        is_end = False
        while not is_end:
            is_end = self._take()
            if not seat.limit and self._inbox.qsize() <= half:
                self._broker.make_room(seat)
            self._hand_over(is_end=is_end)

    def _take(self) -> bool:
        """Wait for messages, and take some; true if the end was behind them."""
        taken: list[_Sent] = []
        size = 0
        message = self._inbox.get()
        while message is not None:
            try:
                encoded = encode(("receive", message.as_value()))
            except EncodeError as error:
                self._fail(error, message)
            else:
                taken.append(_Sent(message, encoded))
                size += len(encoded)
            if len(taken) >= WRITE_COUNT or size > FLIGHT_SIZE or not self._inbox.qsize():
                break
            message = self._inbox.get()
        with self._changed:
            if not self._is_dropped:
                self._pending += taken
        return message is None

    def _hand_over(self, *, is_end: bool = False) -> None:
        """Write what is pending as the process has room; at the end, until nothing is under way."""
        with self._writing:
            while self._write(is_end=is_end):
                pass

    def _write(self, *, is_end: bool) -> bool:
        """Wait for room, and write once; false when there is nothing to wait for."""
        with self._changed:
            while self._given_up is None and not (self._ready and self._has_room()):
                if not self._pending and not (is_end and self._flight):
                    return False
                self._changed.wait()
            child, text = self._ready, self._given_up
            batch = self._next_batch() if text is None else list(self._pending)
            if text is not None:
                self._pending.clear()
        if text is not None:
            for sent in batch:
                self._fail(BrokerError(text), sent.message)
            return False
        assert child is not None
        child.send([*(sent.encoded for sent in batch), _TELL])
        return True

    def _has_room(self) -> bool:
        """Whether something is to be sent, and the process may have more."""
        return bool(self._pending) and (
            len(self._flight) < FLIGHT_COUNT and self._flight_size < FLIGHT_SIZE
        )

    def _next_batch(self) -> list[_Sent]:
        batch: list[_Sent] = []
        while self._has_room() and len(batch) < WRITE_COUNT:
            sent = self._pending.popleft()
            batch.append(sent)
            self._flight.append(sent)
            self._flight_size += len(sent.encoded)
        return batch

    async def _close(self) -> None:
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            child = self._described.child
        if child is not None:
            child.end()
        self._supervisor.join()  # What the process published last still goes along the links.

    def _fail(self, error: BaseException, message: Message) -> None:
        with self._changed:
            self._seat.received += 1
            self._seat.failed += 1
        self._failed("receive", error, message)

    # In the supervisor's thread.

    def _supervise(self) -> None:
        path, port = self._described.path, self._port()
        try:
            # What the process publishes, it publishes: it may not wait for what waits for it.
            with self._broker.work_as(self._seat):
                self._keep_running(port)
        except Exception as error:
            # Its messages fail from now on, rather than wait for ever.
            logger.exception("the process of %s is looked after no longer", path)
            self._give_up(f"{path} cannot be run: {error}")
        else:
            self._give_up(f"{path} died {DEATHS_MAX} times in a row: see the log")

    def _keep_running(self, port: Port) -> None:
        while not self._is_ending and self._deaths < DEATHS_MAX:
            child = Child(self._described, port.name, int(port.module))
            with self._changed:
                self._described.child = child
                if self._is_dropped:
                    child.shared[DROPPED] = 1
                is_ending = self._is_ending
            if is_ending:
                child.end()
            self._hear(child, port)
            self._died(child, child.reap())

    def _give_up(self, text: str) -> None:
        with self._changed:
            self._land()
            self._given_up = text
            self._changed.notify_all()
        self._hand_over()  # Which fails what the last process left.

    def _hear(self, child: Child, port: Port) -> None:
        while (value := self._read(child)) is not None:
            match value:
                case ("publish", message):
                    self._publish(port, message)
                case ("done", int(count)):
                    self._settle(child, count)
                case ("failed", int(count), str(text), str(trace)):
                    self._settle(child, count - 1)
                    error = BrokerError(text)
                    error.add_note(trace)
                    for failed in self._settle(child, count, has_failed=True):
                        self._fail(error, failed)
                case ("ready",):
                    self._begin(child)
                case ("leave",):
                    port.leave()
                case _:
                    logger.error("the process of %s said what means nothing", self._described.path)

    def _begin(self, child: Child) -> None:
        with self._changed:
            self._ready = child
            self._changed.notify_all()
            has_landed, self._has_landed = self._has_landed, False
        if has_landed:
            # The module's thread may wait for its inbox, and this one has to hear meanwhile.
            threading.Thread(
                target=self._hand_over, name="peermesh process goes on", daemon=True
            ).start()

    def _read(self, child: Child) -> Value | None:
        try:
            return child.pipe.receive()
        except DecodeError as error:
            logger.error("process of %s: %s", self._described.path, error)
            return None

    def _publish(self, port: Port, message: Value) -> None:
        try:
            port.publish(Message.of_value(message))
        except (BrokerError, DecodeError) as error:
            logger.error("process of %s could not publish: %s", self._described.path, error)

    def _settle(self, child: Child, count: int, *, has_failed: bool = False) -> list[Message]:
        """Note that the process has done with its first ``count`` messages; give the newest."""
        settled: list[Message] = []
        with self._changed:
            while child.settled < count and self._flight:
                sent = self._flight.popleft()
                self._flight_size -= len(sent.encoded)
                child.settled += 1
                settled.append(sent.message)
            if not has_failed:
                self._seat.received += len(settled)
                self._deaths = 0 if settled else self._deaths
            self._changed.notify_all()
        return settled

    def _died(self, child: Child, code: int) -> None:
        with self._changed:
            self._ready = None
            if self._is_ending:
                return
        begun, ended, _ = child.shared
        self._settle(child, ended)
        with self._changed:
            self._deaths += 1
            deaths = self._deaths
        text = f"the process of {self._described.path} died with code {code}"
        logger.error("%s, %d in a row", text, deaths)
        for message in self._settle(child, begun, has_failed=True):
            self._fail(BrokerError(text), message)
        with self._changed:
            self._land()
            self._changed.wait_for(lambda: self._is_ending, RESTART_SECONDS)

    def _land(self) -> None:
        """Have the next process get what this one did not begin."""
        self._ready = None
        self._has_landed |= bool(self._flight)
        if not self._is_dropped:
            self._pending.extendleft(reversed(self._flight))
        self._flight.clear()
        self._flight_size = 0
        self._changed.notify_all()
