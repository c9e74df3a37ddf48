"""The group of all commands, and how each of them ends."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from peermesh.cli.command import LazyGroup, output_of
from peermesh.cli.exits import EXIT_CODES_HELP, CommandFailed, ExitCode
from peermesh.cli.index import COMMANDS
from peermesh.cli.output import say, unwritten
from peermesh.cli.running import Stopped
from peermesh.cli.stderr import STDERR
from peermesh.cli.wording import in_words, told
from wire.errors import MeshError
from wire.logs import ESCAPING, logger_of

GROUP_HELP = f"""\
A brokerless mesh: publish and subscribe, and keep replicated stores.

Start with three terminals, or, where Java and Spark are installed, with "peermesh demo":

\b
  peermesh node --listen 127.0.0.1:9999 --master table
  peermesh sub news/ --peer 127.0.0.1:9999
  peermesh pub news/today hello --peer 127.0.0.1:9999

Commands find the mesh at --peer, else PEERMESH_PEER, else by a context (peermesh context --help).

Keys and values are JSON if they can be read as JSON, and text if not. A value of a type
that JSON lacks is an object of two members, such as {{"@data-type": "count", "data": 7}}; the types
are count, port, address, subnet, bytes, timestamp, timespan, enum-value, set, and table for keys
that are not text.

{EXIT_CODES_HELP}"""


def _version() -> str:
    from importlib import metadata  # as slow as a quarter of a command's start

    try:
        return metadata.version("peermesh")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _tell_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click hands it over
    if value and not ctx.resilient_parsing:
        output_of(ctx).tell(f"peermesh, version {_version()}", version=_version())
        ctx.exit()


@contextmanager
def _ending_as_its_reader() -> Iterator[None]:
    """End as by SIGPIPE, which Python ignores, when nothing reads stdout any more, as in ``head``.

    click would make that a failure without a word.
    """
    try:
        yield
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # What is still in a buffer would fail again when Python ends.
        os.close(nowhere)
        raise Stopped(signal.SIGPIPE) from None


class Commands(LazyGroup):
    """The group of all commands, which ends in order when nothing reads its output."""

    def make_context(self, *arguments: Any, **settings: Any) -> click.Context:  # noqa: ANN401 - click's own types
        """Read the arguments, and write what is asked for before there is a command."""
        with _ending_as_its_reader():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own types
        """Run a command to its end, its output included."""
        unwritten.clear()
        with _ending_as_its_reader():
            found = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            elif unwritten.is_set():
                raise CommandFailed(
                    "it is done, and its result was written nowhere: stdout is closed",
                    hint=">/dev/null is for output that is not read",
                )
            return found


@click.group(
    cls=Commands,
    index=COMMANDS,
    help=GROUP_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_tell_version,
    help="Write the version, and exit.",
)  # fmt: skip
def application() -> None:
    """Gather the commands."""


def commands_below(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Give each command that does something, with the words that call it; for documents."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in sorted(command.list_commands(context)):
        below = command.get_command(context, name)
        assert below is not None, name
        if not below.hidden:
            yield from commands_below(below, f"{path} {name}")


def run(arguments: list[str]) -> int:
    """Run a command, and give the code to exit with. Warnings of the library go to stderr."""
    handler = logging.StreamHandler(STDERR)
    handler.addFilter(ESCAPING)  # Lines of other packages, too.
    handler.setFormatter(_LogLine("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler])
    try:
        with _filtering():
            code = application.main(arguments, prog_name="peermesh", standalone_mode=False)
    except (click.ClickException, MeshError, OSError) as error:
        return _tell(error, as_json=wants_json(arguments))
    except Stopped as stopped:
        return stopped.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    return code if isinstance(code, int) else ExitCode.DONE


class _LogLine(logging.Formatter):
    """Writes what the library logs in the words of the command line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        return in_words(super().format(record))


@contextmanager
def _filtering() -> Iterator[None]:
    """Leave out what commands tell of themselves; the caller's process may go on afterwards."""
    logger = logger_of("peermesh.endpoint")
    logger.addFilter(_is_not_told_anyway)
    try:
        yield
    finally:
        logger.removeFilter(_is_not_told_anyway)


def _is_not_told_anyway(record: logging.LogRecord) -> bool:
    """Leave out attempts to peer that fail: commands tell of them themselves."""
    from endpoint.mesh.status import StatusCode  # which an endpoint that logs has imported

    about = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return getattr(about, "status", None) is not StatusCode.PEER_UNAVAILABLE


def wants_json(arguments: list[str]) -> bool:
    """Tell whether errors are to be JSON, even where the arguments cannot be read."""
    ended = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:ended]


def _tell(error: click.ClickException | MeshError | OSError, *, as_json: bool) -> int:
    """Write an error to stderr; give the code to exit with."""
    found = told(error)
    if as_json:
        say(found.json(), err=True)
    elif isinstance(error, click.ClickException):
        shown = io.StringIO()
        error.show(shown)  # with how the command is used
        for line in shown.getvalue().rstrip("\n").split("\n"):
            say(line.expandtabs(), err=True)
    else:
        say(found.text(), err=True)
    return found.exit_code
