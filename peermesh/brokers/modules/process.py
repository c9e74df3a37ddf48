"""A module in a process of its own: what it does cannot hold up, or bring down, the others.

A thread starts the process, hears it, and starts it again when it dies; the module's own worker
hands it one message after the other, and waits until each is done.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
import threading
from typing import Final

from endpoint import arguments as checks
from peermesh.brokers.modules.errors import BrokerError
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.module import Port
from peermesh.brokers.modules.pipe import Pipe
from wire.encoding import encode
from wire.errors import DecodeError
from wire.logs import logger_of
from wire.values import Value

logger = logger_of("peermesh.brokers.modules")

DEATHS_MAX: Final = 5
"""Processes that may die in a row without having received a message: the next one would, too."""

RESTART_SECONDS: Final = 0.1
"""The pause before a process is started again, so that a failure does not eat the machine."""

END_SECONDS: Final = 5.0
"""How long a process may take to end when it is told to; then it is killed."""


class ProcessModule:
    """Runs ``package.module:Class`` in another process; that one is a module with plain methods."""

    def __init__(self, path: str, **arguments: Value) -> None:
        """Call the class over there with these arguments, which have to be values of the mesh.

        Raises ``EncodeError`` for others.
        """
        self._path = checks.text("path", path)
        encode(arguments)  # A mistake is told here, not by the thread that starts the process.
        self._arguments = arguments
        self._results: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pipe: Pipe | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._is_handed = False
        """Whether the process has a message of which nobody knows yet what became of it."""
        self._is_ending = False

    @property
    def pid(self) -> int | None:
        """The process now, if there is one."""
        return self._process.pid if self._process is not None else None

    # In the module's worker.

    def attach(self, port: Port) -> None:
        """Start the process."""
        threading.Thread(
            target=self._supervise, args=(port,), name=f"peermesh process {port.name}", daemon=True
        ).start()

    def receive(self, message: Message) -> None:
        """Hand a message over, and wait until it is done; raises ``BrokerError`` if it failed."""
        pipe = self._hand_over()
        with contextlib.suppress(OSError):  # The process is dying, and its supervisor says so.
            pipe.send(("receive", (message.properties, message.content)))
        kind, text = self._results.get()
        if kind != "done":
            raise BrokerError(text)
        self._deaths = 0

    def close(self) -> None:
        """End the process, and kill it when it does not."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
            pipe, process = self._pipe, self._process
        if pipe is not None:
            with contextlib.suppress(OSError):  # It has died already.
                pipe.send(("close",))
        if process is not None:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _hand_over(self) -> Pipe:
        with self._changed:
            while self._pipe is None:
                if self._deaths >= DEATHS_MAX:
                    raise BrokerError(f"{self._path} died {DEATHS_MAX} times in a row: see the log")
                self._changed.wait()
            self._is_handed = True
            return self._pipe

    # In the supervisor's thread.

    def _supervise(self, port: Port) -> None:
        try:
            while not self._is_ending and self._deaths < DEATHS_MAX:
                pipe = self._start(port)
                self._hear(pipe, port)
                pipe.close()
                self._bury()
        except Exception as error:
            # Its messages fail from now on, rather than wait for ever.
            logger.exception("the process of %s is looked after no longer", self._path)
            with self._changed:
                self._pipe, self._deaths = None, DEATHS_MAX
                self._changed.notify_all()
            self._settle("died", f"{self._path} cannot be run: {error}")

    def _start(self, port: Port) -> Pipe:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "peermesh.brokers.modules.child",
                    str(theirs.fileno()),
                    self._path,
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        pipe = Pipe(ours)
        # Not as arguments of the command: every user of the machine can read those.
        described: Value = {
            "arguments": self._arguments,
            "name": port.name,
            "number": int(port.module),
        }
        with contextlib.suppress(OSError):  # It has died already.
            pipe.send(described)
        return pipe

    def _hear(self, pipe: Pipe, port: Port) -> None:
        while (value := self._read(pipe)) is not None:
            match value:
                case ("ready",):
                    with self._changed:
                        self._pipe = pipe
                        self._changed.notify_all()
                case ("publish", message):
                    self._publish(port, message)
                case ("leave",):
                    port.leave()
                case ("done",):
                    self._settle("done", "")
                case ("failed", str(text)):
                    self._settle("failed", text)
                case _:
                    logger.error("the process of %s said what means nothing", self._path)

    def _read(self, pipe: Pipe) -> Value | None:
        try:
            return pipe.receive()
        except DecodeError as error:
            logger.error("process of %s: %s", self._path, error)
            return None

    def _publish(self, port: Port, message: Value) -> None:
        try:
            port.publish(Message.of_value(message))
        except (BrokerError, DecodeError) as error:
            logger.error("process of %s could not publish: %s", self._path, error)

    def _settle(self, kind: str, text: str) -> None:
        with self._changed:
            if self._is_handed:
                self._is_handed = False
                self._results.put((kind, text))

    def _bury(self) -> None:
        assert self._process is not None
        code = self._process.wait()
        with self._changed:
            self._pipe = None
            if self._is_ending:
                return
            self._deaths += 1
            self._changed.notify_all()
        text = f"the process of {self._path} died with code {code}"
        logger.error("%s, %d in a row", text, self._deaths)
        self._settle("died", text)
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending, RESTART_SECONDS)
