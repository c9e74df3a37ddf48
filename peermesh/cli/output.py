"""What commands write: text for people, or with --json one object on each line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from threading import Event
from typing import Final

import click

from peermesh.cli.exits import CommandFailed
from peermesh.cli.stderr import STDERR
from peermesh.cli.values import format_value
from wire.escaping import escape, is_plain
from wire.values import Value

VERSION: Final = 1
"""Of all that is written as JSON: the member ``v`` of each object."""


unwritten: Final = Event()
"""Set once a result had nowhere to go: stdout was closed before the command was started."""


class Output:
    """Writes what a command has to tell."""

    def __init__(self, *, as_json: bool) -> None:
        """Write JSON, or text."""
        self.as_json: Final = as_json

    def tell(self, text: str | Iterable[str] | None, /, **members: object) -> None:
        """Write ``text``, a line or several, or the ``members`` as one JSON object on a line."""
        for line in self._lines(text, members):
            say(line)

    async def report(self, text: str, /, **members: object) -> None:
        """Tell what happens, from a thread: a reader of stdout that is slow stops no endpoint.

        A pipe that is full, or a terminal that was told to wait, would hold the loop up, and have
        the replicas here miss their leader.
        """
        import trio

        data = "".join(f"{escape(line)}\n" for line in self._lines(text, members)).encode()
        if sys.stdout is not None:
            await trio.to_thread.run_sync(_write_all, data, abandon_on_cancel=True)

    def _lines(self, text: str | Iterable[str] | None, members: dict[str, object]) -> Iterable[str]:
        if self.as_json:
            return [json_line(members)]
        if isinstance(text, str):
            return [text]
        return () if text is None else text

    def announce(self, text: str, /, **members: object) -> None:
        """Tell what is no result, such as that a command listens: text of that goes to stderr."""
        if self.as_json:
            say(json_line(members))
        else:
            say(text, err=True)


def _write_all(data: bytes) -> None:
    """Write to stdout with no lock: a thread that is left behind here must hold none at the end."""
    number = sys.stdout.fileno()
    while data:
        data = data[os.write(number, data) :]


def say(line: str, *, err: bool = False) -> None:
    """Write a line to stdout or stderr. All that commands write, but for raw bytes, passes here.

    What others chose, a line break included, comes out as escapes.
    """
    if err:
        STDERR.write(f"{escape(line)}\n")
        return
    if sys.stdout is None:
        unwritten.set()
    click.echo(escape(line))


def json_line(members: dict[str, object]) -> str:
    """Write an object with the version, in one line that cannot disturb a terminal."""
    return escape(json.dumps({"v": VERSION, **members}, ensure_ascii=False, default=str))


def note(text: str) -> None:
    """Write what is no result of the command to stderr, as text in any case."""
    say(f"peermesh: {text}", err=True)


def write_raw(value: Value) -> None:
    """Write bytes as they are; text without quotes, and anything else as JSON, on a line.

    Raises ``CommandFailed`` for what would disturb a terminal.
    """
    if isinstance(value, bytes):
        write_bytes(value)
    else:
        text = value if isinstance(value, str) else format_value(value)
        write_bytes(f"{text}\n".encode())


def write_bytes(data: bytes) -> None:
    """Write bytes as they are; raises ``CommandFailed`` for what would disturb a terminal."""
    text = data.decode("utf-8", "surrogateescape")
    if not is_plain(text.replace("\n", "").replace("\t", "")):
        refuse_terminal("bytes that do not print")
    click.echo(data, nl=False)


def refuse_terminal(what: str) -> None:
    """Raise ``CommandFailed`` if stdout is a terminal, which ``what`` would disturb."""
    if sys.stdout is None:
        raise CommandFailed("stdout is closed", hint="write it into a file or a pipe")
    if sys.stdout.isatty():
        raise CommandFailed(
            f"a terminal cannot show {what}",
            hint="write it into a file or a pipe",
        )
