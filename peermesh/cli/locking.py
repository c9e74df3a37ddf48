"""``peermesh store lock``: run a command while a lock is held."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import click
import trio

from peermesh.cli.arriving import open_copy
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.numbers import Seconds
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line
from wire.errors import RequestTimeout, SessionExpired

KILL_SECONDS: Final = 1.0
"""How long a command may take to end once the lock is lost, at most."""

TTL_SHARE: Final = 8
"""A part of ``--ttl``, one of so many, that a command may take for it: less than the group waits
before another one can hold the lock."""

LOOK_SECONDS: Final = 0.02
"""Between two looks whether what a command started has ended, too."""

TOKEN: Final = "LOCK_TOKEN"
"""The variable that the command finds the fencing token in."""


@command("lock")
@STORE_NAME
@click.argument("lock_name", metavar="LOCK")
@click.argument("words", nargs=-1, required=True, metavar="COMMAND...")
@click.option(
    "--ttl", type=Seconds(2), default=10.0, metavar="SECONDS", show_default=True,
    help="How long the lock stays held if this process dies.",
)  # fmt: skip
@click.option(
    "--timeout", type=Seconds(), metavar="SECONDS",
    help="How long to wait for the lock (default: for ever).",
)  # fmt: skip
@mesh_options(listens=False)
def lock(  # noqa: PLR0913 - an option each
    name: str,
    lock_name: str,
    words: tuple[str, ...],
    ttl: float,
    timeout: float | None,
    mesh: Mesh,
    output: Output,
) -> None:
    """Hold a LOCK of a store while a COMMAND runs, and end with the code of the command.

    Of all that want the same LOCK one runs at a time, first come, first served. Write "--" before a
    COMMAND that has options. It is ended if the lock is lost, and finds the fencing token, three
    numbers that are greater for each later holder, in the variable LOCK_TOKEN.
    """
    code = run(_run_locked, mesh, name, lock_name, words, ttl, timeout)
    click.get_current_context().exit(code)


async def _run_locked(
    mesh: Mesh,
    name: str,
    lock_name: str,
    words: tuple[str, ...],
    ttl: float,
    timeout: float | None,
) -> int:
    async with open_copy(mesh, name) as store:
        try:
            async with store.lock(lock_name, ttl=ttl, timeout=timeout) as held:
                environment = {**os.environ, TOKEN: " ".join(map(str, held.token))}
                return await _run(words, environment, min(KILL_SECONDS, ttl / TTL_SHARE))
        except SessionExpired as error:
            raise CommandFailed(f"the command was ended: {error}", kind="lock_lost") from None
        except RequestTimeout as error:
            raise CommandFailed(
                str(error),
                ExitCode.TIMEOUT,
                hint="--timeout SECONDS waits longer",
                kind="request_timeout",
            ) from None


async def _run(words: tuple[str, ...], environment: dict[str, str], seconds: float) -> int:
    """Run a command, and give its code as shells do.

    It has a process group of its own, so that all that it started can be ended with it; at a
    terminal only a command of the terminal's own group may read what is typed.
    """
    is_grouped = sys.stdin is None or not sys.stdin.isatty()
    ending = _Ending(seconds, is_grouped=is_grouped)
    try:
        done = await trio.run_process(
            words,
            check=False,
            stdin=None,
            env=environment,
            deliver_cancel=ending.begin,
            process_group=0 if is_grouped else None,
        )
    except OSError as error:
        text = f"{on_a_line(words[0])} cannot be run: {error.strerror}"
        raise CommandFailed(text, ExitCode.MISSING) from None
    finally:
        await ending.finish()
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


class _Ending:
    """Ends a command in order, and soon, with all that it started."""

    def __init__(self, seconds: float, *, is_grouped: bool) -> None:
        self._seconds = seconds
        self._is_grouped = is_grouped
        self._group: int | None = None
        self._until = 0.0

    async def begin(self, process: trio.Process) -> None:
        """Have it end: the lock is lost, or the command is to end with this one."""
        self._until = trio.current_time() + self._seconds
        self._group = process.pid if self._is_grouped else None
        self._tell(signal.SIGTERM)
        process.terminate()
        await trio.sleep(self._seconds)
        self._tell(signal.SIGKILL)
        process.kill()

    async def finish(self) -> None:
        """Wait until nothing of it is left, and kill what is too slow: then the lock may go."""
        with trio.CancelScope(shield=True):
            while self._tell(0):
                if trio.current_time() >= self._until:
                    self._tell(signal.SIGKILL)
                    break
                await trio.sleep(LOOK_SECONDS)

    def _tell(self, number: int) -> bool:
        """Send all of the group a signal; false if there is no such group, or none any more."""
        try:
            if self._group is not None:
                os.killpg(self._group, number)
        except ProcessLookupError:
            self._group = None
        return self._group is not None
