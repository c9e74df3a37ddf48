"""``peermesh context``: meshes by name, so that commands need not say where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from peermesh.cli.command import command, group
from peermesh.cli.completion import complete_contexts
from peermesh.cli.context_file import (
    FLAG_OPTIONS,
    PATH_OPTIONS,
    Context,
    Contexts,
    Peer,
    load,
    save,
)
from peermesh.cli.exits import CommandFailed
from peermesh.cli.mesh import KEPT_OPTIONS
from peermesh.cli.output import Output

CommandT = TypeVar("CommandT", bound=Callable[..., object])

NAME_LENGTH_MAX: Final = 64

_NAME: Final = click.argument("name", shell_complete=complete_contexts)


@group()
def context() -> None:
    """Name meshes, and choose the one that commands are about.

    \b
      peermesh context add home --peer 192.168.1.7 --secret-file ~/home.secret
      peermesh context add work --peer mesh.example:9999 --peer mesh2.example
      peermesh context use work
      peermesh store keys cities --context home

    They are in the file contexts.json, in the directory PEERMESH_CONFIG_DIR, or else in that of
    your settings (~/.config/peermesh). Only you can read it.
    """


def _kept_options(function: CommandT) -> CommandT:
    for option in reversed(KEPT_OPTIONS):
        function = option(function)
    return function


@command(shows_connection=True)
@click.argument("name")
@click.option("--replace", "replaces", is_flag=True, help="Replace the context of this name.")
@_kept_options
def add(
    name: str,
    peers: tuple[Peer, ...],
    output: Output,
    *,
    replaces: bool,
    **given: Any,  # noqa: ANN401 - the options of a mesh
) -> None:
    """Keep under a NAME where a mesh is, and what lets commands in.

    The first one is the current context from then on.
    """
    if not name.isprintable() or set(name) & set(" ,/") or not 0 < len(name) <= NAME_LENGTH_MAX:
        raise click.UsageError(
            f"{name[:NAME_LENGTH_MAX]!r} is no name of a context: up to {NAME_LENGTH_MAX} letters"
            " without blanks, commas and slashes"
        )
    if not peers:
        raise click.UsageError("say where the mesh is: --peer HOST:PORT")
    contexts = load(os.environ)
    if name in contexts.all and not replaces:
        raise CommandFailed(f"there is a context {name} already", hint="--replace replaces it")
    paths = {each: str(Path(given[each]).absolute()) for each in PATH_OPTIONS if given[each]}
    flags = {each: True for each in FLAG_OPTIONS if given[each]}
    made = Context(peers, {**paths, **flags})
    save(os.environ, Contexts({**contexts.all, name: made}, contexts.current or name))
    _tell(name, made, output, is_current=(contexts.current or name) == name)


@command()
@_NAME
def use(name: str, output: Output) -> None:
    """Make the context NAME the current one."""
    contexts = load(os.environ)
    found = contexts.find(name)
    save(os.environ, replace(contexts, current=name))
    _tell(name, found, output, is_current=True)


@command("ls")
def list_contexts(output: Output) -> None:
    """Write all contexts, the current one with a star. Of a ticket, only where it leads."""
    contexts = load(os.environ)
    for name, each in contexts.all.items():
        _tell(name, each, output, is_current=name == contexts.current)


@command()
@_NAME
def rm(name: str, output: Output) -> None:
    """Forget the context NAME. Without a current one, commands ask for --peer again."""
    contexts = load(os.environ)
    found = contexts.find(name, hint="peermesh context ls lists them: nothing was changed")
    rest = {key: each for key, each in contexts.all.items() if key != name}
    save(os.environ, Contexts(rest, contexts.current if contexts.current != name else None))
    output.tell(f"forgot {name}", name=name, **found.shown())


def _tell(name: str, found: Context, output: Output, *, is_current: bool) -> None:
    shown = found.shown()
    peers = " ".join(shown["peers"])
    more = ", ".join(each for each in shown if each != "peers")
    text = f"{'*' if is_current else ' '} {name}  {peers}" + (f"  ({more})" if more else "")
    output.tell(text, name=name, is_current=is_current, **shown)


for each in (add, use, list_contexts, rm):
    context.add_command(each)
