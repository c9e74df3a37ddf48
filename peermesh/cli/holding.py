"""Commands that hold stores or logs: where those are, and the end once none is there any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import click

from endpoint.mesh.status import StatusCode
from peermesh import Backend, Endpoint
from peermesh.cli.exits import CommandFailed


def split_place(text: str) -> tuple[str, str | None]:
    """Take ``NAME[:PATH]`` apart; raises ``UsageError`` for a colon with nothing behind it.

    That is what a variable leaves that is not set, and means no store that ends with its process.
    """
    name, colon, path = text.partition(":")
    if colon and not path:
        raise click.UsageError(f"{text} has no path behind the colon: {name} alone is in memory")
    return name, path or None


def in_file(path: str | None) -> dict[str, Any]:
    """Give the options of what is attached in this file, or in memory if there is none."""
    return {} if path is None else {"backend": Backend.SQLite, "path": path}


GIVEN_UP: Final = (
    ", anew (--fresh): what copies have and it lacks is given up. Leave --fresh out from now on"
)
"""What is said of a master or keeper that was told to lead with what its file has."""


class _Runner(Protocol):
    @property
    def error(self) -> Exception | None:
        """Why it has ended; ``None`` while it has not."""


class Held(Protocol):
    """A handle of what is held."""

    @property
    def runner(self) -> _Runner:
        """What drives it."""


async def end_with(endpoint: Endpoint, held: Sequence[Held]) -> None:
    """Wait until the last of these has ended by itself, as on a full disk; raises that then.

    A process that held nothing any more would look well, and nothing would start it again.
    """
    with endpoint.subscribe_status(StatusCode.STORE_FAILED) as status:
        while any(each.runner.error is None for each in held):
            await status.get()
    raise CommandFailed(
        f"nothing is held here any more: {held[-1].runner.error}", kind="store_failed"
    )
