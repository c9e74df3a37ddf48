"""``peermesh help``: what --help says, and the options of the connection in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from peermesh.cli.command import command, unknown_command
from peermesh.cli.mesh import CONNECTION_OPTIONS
from peermesh.cli.output import Output

CONNECTION: Final = "connection"

CONNECTION_TEXT: Final = """\
These options say where the mesh is, and how to get in. All commands that join a mesh take them.

\b
Where the mesh is says the first of these that is given:
  1. --peer HOST:PORT, or a join ticket (peermesh ticket new)
  2. the variable PEERMESH_PEER: addresses or tickets, with blanks or commas
  3. --context NAME
  4. the variable PEERMESH_CONTEXT
  5. the current context (peermesh context use); not with --listen

Settings of the endpoint come from options, then the context, then PEERMESH_* variables, then the
file that --settings names.
"""


@command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND... | connection]")
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...], output: Output) -> None:
    """Write the help of a COMMAND, or of the options of the connection."""
    text = _connection_help(ctx) if words == (CONNECTION,) else _help_of(ctx, words)
    output.tell(text.split("\n"), help=text)


def _help_of(ctx: click.Context, words: tuple[str, ...]) -> str:
    root = ctx.find_root()
    found, context = root.command, root
    for word in words:
        below = found.get_command(context, word) if isinstance(found, click.Group) else None
        if below is None:
            raise click.UsageError(unknown_command(context, word), context)
        found, context = below, click.Context(below, info_name=word, parent=context)
    return found.get_help(context)


def _connection_help(ctx: click.Context) -> str:
    def nothing() -> None: ...

    taking: Callable[..., object] = nothing
    for option in reversed(CONNECTION_OPTIONS):
        taking = option(taking)
    shown = command(CONNECTION, shows_connection=True)(taking)
    context = click.Context(shown, max_content_width=ctx.max_content_width)
    formatter = context.make_formatter()
    formatter.write_text(CONNECTION_TEXT)
    shown.format_options(context, formatter)
    return formatter.getvalue().rstrip("\n")
