"""``peermesh store lock``: run a command while a lock is held."""

from __future__ import annotations

import os
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
from wire.errors import SessionExpired

KILL_SECONDS: Final = 1.0
"""How long a command may take to end once the lock is lost: less than the group waits before
another one can hold it, with a ``--ttl`` of 8 or more."""

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
                return await _run(words, {**os.environ, TOKEN: " ".join(map(str, held.token))})
        except SessionExpired as error:
            raise CommandFailed(f"the command was ended: {error}", kind="lock_lost") from None


async def _run(words: tuple[str, ...], environment: dict[str, str]) -> int:
    """Run a command, and give its code as shells do."""
    try:
        done = await trio.run_process(
            words, check=False, stdin=None, env=environment, deliver_cancel=_end
        )
    except OSError as error:
        text = f"{on_a_line(words[0])} cannot be run: {error.strerror}"
        raise CommandFailed(text, ExitCode.MISSING) from None
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


async def _end(process: trio.Process) -> None:
    """End a command in order, and soon."""
    process.terminate()
    await trio.sleep(KILL_SECONDS)
    process.kill()
