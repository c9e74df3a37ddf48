"""KEY and VALUE on the command line: JSON if they parse, else text; "-" reads stdin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import click

from handshake.private_files import read_secret
from peermesh import Value
from peermesh.cli.command import Option
from peermesh.cli.exits import CommandFailed
from peermesh.cli.output import note
from peermesh.cli.running import open_input, read_stdin
from peermesh.cli.trust import STDIN
from peermesh.cli.values import NoJSON, NoValue, on_a_line, parse_value
from wire.escaping import is_whole
from wire.limits import FRAME_SIZE_MAX

_TEXT_HELP: Final = "KEY and VALUE are text, even where they are JSON."

TEXT_OPTION: Final = click.option("--text", "as_text", is_flag=True, help=_TEXT_HELP)
WRITING_TEXT_OPTION: Final = click.option(
    "--text", "as_text", cls=Option, old=["--raw"], is_flag=True, help=_TEXT_HELP
)
"""For commands that write nothing which could be raw: there ``--raw`` meant this."""

RAW_OPTION: Final = click.option(
    "--raw", is_flag=True,
    help="Write text without quotes, and bytes as they are (not to a terminal).",
)  # fmt: skip


class _InputFile(click.Path):
    """A file that is read once; "-" is stdin."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - text, or a path
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        """Give its path."""
        if str(value) == STDIN:
            return Path("/dev/stdin")
        return Path(str(super().convert(value, param, ctx)))


INPUT_FILE: Final = _InputFile(exists=True, dir_okay=False, path_type=Path)

_BYTES_EXAMPLE: Final = '{"@data-type": "bytes", "data": "AP8="}, in base64'

_LOOKS_LIKE_JSON: Final = ("{", "[", '"')


def read_token(path: Path) -> str:
    """Read a token, of which no error repeats anything; raises ``CredentialsError``."""
    return read_secret(path, "token").decode("ascii", "replace").strip()


def read_value(text: str, *, as_text: bool = False) -> Value:
    """Read a value from an argument; raises ``UsageError``, and ``CommandFailed`` for stdin."""
    if text == STDIN:
        text = _read_all_of_stdin()
    if not is_whole(text):
        raise click.UsageError(f"{text!r} is not UTF-8: bytes are written as {_BYTES_EXAMPLE}")
    try:
        return _value_of(text, as_text=as_text)
    except NoValue as error:
        raise click.UsageError(f"{error}, or use --text") from None


def read_values(*texts: str, as_text: bool) -> tuple[Value, ...]:
    """Read some; raises ``UsageError`` if more than one of them is to come from stdin, too."""
    if texts.count(STDIN) > 1:
        raise click.UsageError("only one argument can be -, which reads all of stdin")
    return tuple(read_value(text, as_text=as_text) for text in texts)


async def read_lines(*, as_text: bool) -> AsyncIterator[Value]:
    """Read a value from each line of stdin; raises ``CommandFailed``, which names the line."""
    number = 0
    async for line in read_stdin():
        number += 1
        try:
            yield _value_of(line.decode().removesuffix("\n"), as_text=as_text)
        except UnicodeDecodeError:
            raise CommandFailed(f"line {number} of stdin is not UTF-8") from None
        except NoValue as error:
            raise CommandFailed(f"line {number} of stdin: {error}; or use --text") from None


def _value_of(text: str, *, as_text: bool) -> Value:
    if as_text:
        return text
    try:
        return parse_value(text)
    except NoJSON:
        if text.startswith(_LOOKS_LIKE_JSON):
            note(f"{on_a_line(text[:40])} is no JSON and is taken as text; --text says so")
        return text


def _read_all_of_stdin() -> str:
    """Read one value: it must fit into a frame anyway."""
    data = open_input().buffer.read(FRAME_SIZE_MAX + 1)
    if len(data) > FRAME_SIZE_MAX:
        raise CommandFailed(f"stdin holds more than {FRAME_SIZE_MAX} bytes, the most of a value")
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise CommandFailed("stdin is not UTF-8") from None
