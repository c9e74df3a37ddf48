"""A program under test: killed, stopped, continued and started again; spoken to line by line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from endpoint.shielding import shielded

LINE_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a line that a program says. More is no line, but somebody who has lost his way."""

RECEIVE_SIZE: Final = 64 * 1024

REAP_SECONDS: Final = 10.0
"""How long the system may take to end what was killed, which it does after the disk has answered.
"""


class ProgramEnded(Exception):
    """A program has ended, or its output has; the text names it and its exit code."""


class Program:
    """One program, over as many lives as a test gives it. ``open_program`` makes these.

    Its errors go where those of this process go. It should end when its stdin does: so it does not
    outlive a test that is killed.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None) -> None:
        """Remember the command, and start nothing yet."""
        self.command = tuple(command)
        self._environment = environment
        self._process: trio.Process | None = None
        self._heard = bytearray()
        self._saying = trio.Lock()
        self.lives = 0
        """How often it was started."""

    @property
    def pid(self) -> int:
        """Its process id; raises ``ProgramEnded`` if it does not run."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether it runs, or is stopped."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it, once more if it has ended."""
        assert not self.is_running, "it runs already: kill it first, or restart it"
        await self._let_go()
        self._heard.clear()
        self._process = await trio.lowlevel.open_process(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
        )
        self.lives += 1

    async def kill(self) -> int:
        """Send SIGKILL, wait for the end, and give the exit code; it may have ended already."""
        process = self._process
        if process is None:
            raise ProgramEnded(f"{self.command[0]} was not started")
        process.kill()
        with shielded(f"{self.command[0]} to be gone", REAP_SECONDS):
            return await process.wait()
        raise ProgramEnded(f"{self.command[0]} was killed, and is not gone")

    async def restart(self) -> None:
        """Kill it, and start it again."""
        await self.kill()
        await self.start()

    async def pause(self) -> None:
        """Send SIGSTOP, and wait until it has stopped: its connections stay open, and silent."""
        process = self._running()
        process.send_signal(signal.SIGSTOP)
        flags = os.WSTOPPED | os.WEXITED | os.WNOWAIT
        await trio.to_thread.run_sync(os.waitid, os.P_PID, process.pid, flags)

    async def resume(self) -> None:
        """Send SIGCONT."""
        self._running().send_signal(signal.SIGCONT)
        await trio.lowlevel.checkpoint()

    async def wait(self) -> int:
        """Wait until it ends by itself; give its exit code."""
        return await self._running().wait()

    async def say(self, line: str) -> None:
        """Write a line to its stdin, waiting for room; raises ``ProgramEnded``."""
        process = self._running()
        assert process.stdin is not None
        try:
            async with self._saying:
                await process.stdin.send_all(line.encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._ended() from None

    async def hear(self) -> str:
        """Give the next line of its stdout; raises ``ProgramEnded`` if there is none."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        searched = 0
        while (end := self._heard.find(b"\n", searched)) < 0:
            searched = len(self._heard)
            if searched > LINE_SIZE_MAX:
                raise ProgramEnded(f"{self.command[0]} says a line without an end")
            try:
                data = await process.stdout.receive_some(RECEIVE_SIZE)
            except trio.ClosedResourceError:  # It was started again meanwhile.
                raise self._ended() from None
            if not data:
                raise self._ended()
            self._heard += data
        line = self._heard[:end].decode()
        del self._heard[: end + 1]
        return line

    async def close(self) -> None:
        """Kill it if it runs, and let go of its pipes."""
        if self.is_running:
            await self.kill()
        await self._let_go()

    def _running(self) -> trio.Process:
        if self._process is None or self._process.poll() is not None:
            raise self._ended()
        return self._process

    def _ended(self) -> ProgramEnded:
        code = None if self._process is None else self._process.poll()
        how = "does not run" if code is None else f"has ended with {code}"
        return ProgramEnded(f"{' '.join(self.command)} {how}")

    async def _let_go(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    await trio.aclose_forcefully(pipe)


@asynccontextmanager
async def open_program(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Program]:
    """Start a program; it is killed when the block ends. ``environment`` is all of its own."""
    program = Program(command, environment)
    await program.start()
    try:
        yield program
    finally:
        await program.close()
