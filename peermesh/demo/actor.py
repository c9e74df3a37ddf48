"""The supervisor's side of one role: starts it, hears it, and starts it again whenever it dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

import trio

import peermesh
from endpoint.shielding import shielded
from handshake.private_files import open_private
from peermesh.demo.errors import DemoError
from peermesh.demo.link import END_SECONDS_MAX, Assignment, Message
from peermesh.demo.sessions import end_session

KILLS_MAX: Final = 20
"""How often a role may be killed: somebody tries that, but not for ever."""

FAILURES_MAX: Final = 3
"""How often a role may fail by itself: the next time would be the same."""

RESTART_SECONDS: Final = 0.1
"""The pause before a role is started again, so that a failure does not eat the machine."""

REPORT_SIZE: Final = 64 * 1024
"""Bytes read at a time: a pipe holds no more."""


class Actor:
    """One role, over all its lives."""

    def __init__(
        self,
        name: str,
        assign: Callable[[int], Assignment],
        hear: Callable[[Message], None],
        *,
        module: str | None = None,
        output: int | None = None,
    ) -> None:
        """Play ``peermesh.demo.<module>`` as ``assign`` says for a descriptor of reports.

        ``hear`` gets its reports, with ``started`` and ``died`` of our own. Its output goes to its
        log in the demo's directory, or stdout where ``output`` says.
        """
        self.name = name
        self._module = f"peermesh.demo.{module or name}"
        self.pid: int | None = None
        """The process, while there is one."""
        self.lives = 0
        self.log = Path()
        """What it writes to stderr, and to stdout unless that goes elsewhere, in all its lives."""
        self._assign = assign
        self._hear = hear
        self._output = output
        self._kills = self._failures = 0
        self._process: trio.Process | None = None
        self._standing: list[Message] = []
        self._pending: deque[Message] = deque()
        self._ordered = trio.Event()

    def order(self, order: str, *, stands: bool = False, **details: object) -> None:
        """Give an order; one that stands is given to every later life too."""
        message: Message = {"order": order, **details}
        if stands:
            self._standing.append(message)
        self._pending.append(message)
        self._ordered.set()

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()

    async def play(self) -> None:
        """Live, and live again, until it ends by itself in good order; raises ``DemoError``."""
        while True:
            code = await self._live()
            if code == 0:
                return
            reason = {"reason": _last_line(self.log)} if code > 0 else {}
            self._hear({"event": "died", "code": code, **reason})
            self._judge(code)
            self._pending.extendleft(reversed(self._standing))
            await trio.sleep(RESTART_SECONDS)

    def _judge(self, code: int) -> None:
        self._kills += code < 0
        self._failures += code > 0
        if self._kills < KILLS_MAX and self._failures < FAILURES_MAX:
            return
        raise DemoError(
            f"the {self.name} does not stay alive ({_last_line(self.log)}): see {self.log}"
        )

    async def _live(self) -> int:
        reading, writing = os.pipe()
        assignment = self._assign(writing)
        self.log = assignment.path(f"{self.name}.log")
        stream = trio.lowlevel.FdStream(reading)
        try:
            with open_private(self.log, "ab") as log:
                process = await self._start(assignment, log)
        finally:
            os.close(writing)
        async with stream:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._relay_orders, process)
                    await self._relay_reports(stream)
                    nursery.cancel_scope.cancel()
            finally:
                await self._end(process)
        assert process.returncode is not None
        return process.returncode

    async def _start(self, assignment: Assignment, log: IO[bytes]) -> trio.Process:
        path = [str(Path(peermesh.__file__).parent.parent), os.environ.get("PYTHONPATH")]
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", self._module, assignment.text()],
            stdin=subprocess.PIPE,
            stdout=log if self._output is None else self._output,
            stderr=log,
            pass_fds=[assignment.reports],
            # Its own session: Ctrl-C is for us alone to hear, and what it leaves can be found.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        )
        self.lives += 1
        self._process, self.pid = process, process.pid
        self._hear({"event": "started", "pid": process.pid})
        return process

    async def _relay_reports(self, stream: trio.lowlevel.FdStream) -> None:
        buffer = b""
        while data := await stream.receive_some(REPORT_SIZE):
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))

    async def _relay_orders(self, process: trio.Process) -> None:
        assert process.stdin is not None
        while True:
            while self._pending:
                line = json.dumps(self._pending.popleft()).encode() + b"\n"
                try:
                    await process.stdin.send_all(line)
                except trio.BrokenResourceError:
                    return
            self._ordered = trio.Event()
            await self._ordered.wait()

    async def _end(self, process: trio.Process) -> None:
        """Ask it to end, by ending its orders; then see that it has."""
        assert process.stdin is not None
        with shielded("a process of the demo to end", 2 * END_SECONDS_MAX):
            await process.stdin.aclose()
            with trio.move_on_after(END_SECONDS_MAX):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.wait()
            await end_session(process.pid)
        self._process = self.pid = None


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")
