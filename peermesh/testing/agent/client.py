"""The cluster's side of an agent: starts the process, and asks it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from endpoint.endpoint import Endpoint
from endpoint.flight import FlightRecorder
from endpoint.shielding import shielded
from handshake.private_files import open_private
from peermesh.testing import view
from peermesh.testing.agent import protocol
from peermesh.testing.agent.protocol import Call, Cancel, Failure, Inbox, Met, Noted, Reply
from peermesh.testing.disks import DiskFault, disturb
from peermesh.testing.handles import NodeDown
from peermesh.testing.nurseries import open_quiet_nursery
from peermesh.testing.processes import REAP_SECONDS
from peermesh.testing.time_limits import limit
from peermesh.testing.view import View
from wire import errors
from wire.errors import MeshError
from wire.escaping import escape
from wire.identifiers import EndpointId

RECEIVE_SIZE: Final = 65_536

START_SECONDS: Final = 60.0
"""How long an agent may take to start on an idle machine."""

END_SECONDS: Final = 10.0
"""How long an agent may take to end in order on an idle machine, before it is killed."""

CANCEL_SECONDS: Final = 1.0
"""How long telling an agent may take that nobody waits any more; it may be stopped."""

LAST_WORDS_SECONDS: Final = 2.0
"""How long an agent that has closed its socket may take on an idle machine to write down why."""

LAST_WORDS_SIZE: Final = 2_000
"""Characters of an agent's log that an error shows: a traceback."""

ROOT: Final = Path(__file__).resolve().parent.parent.parent.parent
"""Where this package was imported from: an agent has to import the same."""

_NOBODY: Final = EndpointId(bytes(16))

_PLAIN_ERRORS: Final[Mapping[str, type[Exception]]] = {
    each.__name__: each for each in (TimeoutError, ValueError, TypeError, KeyError, OSError)
}


class AgentFailed(MeshError):
    """An agent did not start, or raised what no endpoint raises; the text holds its words."""


class AgentHost:
    """One life of a node in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, log: Path) -> None:
        """Made by ``spawn``, and started by ``live``; ``log`` is where its last words are."""
        self.node_id = _NOBODY
        self.flight = FlightRecorder(_NOBODY)
        self.clock_offset = 0.0
        self.endpoint: Endpoint | None = None
        self.process = process
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._log = log
        self._numbers = 0
        self._waiting: dict[int, tuple[trio.Event, list[Reply | Failure]]] = {}
        self._sending = trio.Lock()
        self._is_over = False
        self._ended = trio.Event()
        self._nursery: trio.Nursery
        self._disturbance: tuple[trio.Event, trio.Event] | None = None
        """What ends the fault of its disk, and what tells that it has ended."""

    async def live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hear what the agent says until it ends; raises ``AgentFailed`` if it does not start."""
        async with open_quiet_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._listen)
            await self._introduce()
            task_status.started()

    async def _introduce(self) -> None:
        with trio.move_on_after(seconds := limit(START_SECONDS)) as scope:
            try:
                node_id, _ = await self.call("node_id", (), ())
                (own, shared), _ = await self.call("clock", (), ())
            except NodeDown as error:
                raise AgentFailed(f"an agent did not start: {error}") from None
            self.node_id = EndpointId(node_id)
            # In the seconds of this process's own loop, which begin anywhere.
            self.clock_offset = shared - own + trio.current_time() - time.monotonic()
        if scope.cancelled_caught:
            raise AgentFailed(f"an agent did not start within {seconds:.3g} s")

    async def _listen(self) -> None:
        """Read what the agent says, and bury it."""
        try:
            await self._read()
        finally:
            self._is_over = True
            with shielded("an agent to be gone", LAST_WORDS_SECONDS + REAP_SECONDS):
                await self._bury()
                await self.heal_disk()
            self._ended.set()
            for event, _ in self._waiting.values():
                event.set()

    async def _read(self) -> None:
        inbox = Inbox()
        while True:
            try:
                chunk = await self._stream.receive_some(RECEIVE_SIZE)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not chunk:
                return
            for message in inbox.feed(bytes(chunk)):
                self._take(message)

    def _take(self, message: protocol.Message) -> None:
        match message:
            case Noted(record):
                if self.flight.node != record.node:
                    self.flight = FlightRecorder(record.node)
                self.flight.add(record)
            case Reply(number) | Failure(number):
                event, answers = self._waiting.get(number, (None, []))
                if event is not None:
                    answers.append(message)
                    event.set()
            case _:
                raise AgentFailed(f"an agent does not say {message}")

    async def _bury(self) -> None:
        """See that the process is gone: one that failed may say why, the others are killed."""
        with suppress(subprocess.TimeoutExpired):
            await trio.to_thread.run_sync(self.process.wait, limit(LAST_WORDS_SECONDS))
        self.process.kill()
        await trio.to_thread.run_sync(self.process.wait, abandon_on_cancel=True)
        await trio.aclose_forcefully(self._stream)

    # The host's side.

    async def call(self, method: str, arguments: tuple[Any, ...], met: Met) -> tuple[Any, Met]:
        """Have the agent do something; raises what it raised there, and ``NodeDown``."""
        self._numbers += 1
        number = self._numbers
        event, answers = self._waiting[number] = (trio.Event(), list[Reply | Failure]())
        try:
            if not self._is_over:
                await self._send(Call(number, method, arguments, met))
                await event.wait()
        except trio.Cancelled:
            with shielded("an agent to take word of a cancelled call", limit(CANCEL_SECONDS)):
                await self._send(Cancel(number))
            raise
        finally:
            del self._waiting[number]
        if not answers:
            raise NodeDown(f"the node's process has ended{self._last_words()}")
        answer = answers[0]
        if isinstance(answer, Failure):
            raise error_of(answer)
        return answer.value, answer.met

    def _last_words(self) -> str:
        text = self._log.read_text("utf-8", "replace").strip() if self._log.exists() else ""
        words = escape(text[-LAST_WORDS_SIZE:], kept="\n")
        return f"; its last words: {words}" if text else ""

    async def _send(self, message: protocol.Message) -> None:
        frame = protocol.to_bytes(message)
        async with self._sending:
            try:
                await self._stream.send_all(frame)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await self._ended.wait()

    async def view(self) -> View:
        """Give what the endpoint sees."""
        value, _ = await self.call("view", (), ())
        return view.from_value(value)

    def see(self) -> View | None:
        """Give nothing: an agent has to be asked."""
        return None

    async def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        self.process.kill()
        await self._ended.wait()

    async def pause(self) -> None:
        """Send SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    async def resume(self) -> None:
        """Send SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    async def skew_clock(self, seconds: float) -> None:
        """Have the process see another time of day."""
        await self.call("skew_clock", (seconds,), ())

    async def disturb_disk(self, fault: DiskFault) -> None:
        """Catch the process's calls."""
        await self.heal_disk()
        await self._nursery.start(self._disturb, fault, name=f"disk: {fault}")

    async def _disturb(self, fault: DiskFault, *, task_status: trio.TaskStatus[None]) -> None:
        healing, healed = trio.Event(), trio.Event()
        try:
            async with disturb(self.process.pid, fault):
                self._disturbance = healing, healed
                task_status.started()
                await healing.wait()
        finally:
            healed.set()

    async def heal_disk(self) -> None:
        """Let its calls through."""
        if self._disturbance is not None:
            (healing, healed), self._disturbance = self._disturbance, None
            healing.set()
            await healed.wait()

    async def close(self) -> None:
        """Have the endpoint shut down, and then end the process."""
        with trio.move_on_after(limit(END_SECONDS)):
            with suppress(MeshError):  # if it has ended already
                await self.call("shutdown", (), ())
        await self.kill()


def spawn(
    directory: Path,
    settings: Mapping[str, object],
    wrap: Callable[..., Sequence[str]] = lambda *command: command,
) -> AgentHost:
    """Start an agent with its files in ``directory``; ``wrap`` has the command run elsewhere.

    In this thread, on purpose: the system ends an agent with the thread that started it.
    """
    ours, theirs = socket.socketpair()
    log = directory / "agent.log"
    variables = {f"PEERMESH_{name.upper()}": str(value) for name, value in settings.items()}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "peermesh.testing.agent"]
    with theirs, open_private(log, "ab") as words:
        process = subprocess.Popen(
            wrap(*command, str(theirs.fileno()), str(os.getpid()), str(directory)),
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
        )
    return AgentHost(process, ours, log)


def error_of(failure: Failure) -> Exception:
    """Make the error again that an agent told of."""
    kind = getattr(errors, failure.error, None) or _PLAIN_ERRORS.get(failure.error)
    if kind is None:
        return AgentFailed(f"{failure.error}: {failure.text}")
    error: Exception = kind(failure.text)
    return error
