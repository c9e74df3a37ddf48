"""``peermesh completion``: the script for a shell, and the names that only the mesh knows."""

from __future__ import annotations

import os
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from peermesh.cli.command import command
from peermesh.cli.output import Output
from wire.escaping import is_plain

LIVE_SECONDS: Final = 0.5
"""How long the mesh may take to say which names there are: a person has pressed a key."""

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_PEERMESH_COMPLETE"
"""click's own: how its scripts call the command."""

_WHERE_TO_WRITE: Final = """\
\b
  bash: eval "$(peermesh completion bash)"                     in ~/.bashrc
  zsh:  eval "$(peermesh completion zsh)"                      in ~/.zshrc
  fish: peermesh completion fish > ~/.config/fish/completions/peermesh.fish
"""


@command(help=f"""\
Write the script that lets a SHELL complete commands, options, and names of stores and logs.

{_WHERE_TO_WRITE}
Names come from the mesh that --peer, PEERMESH_PEER or a context says, if it answers in half a
second.
""")  # fmt: skip
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str, output: Output) -> None:
    """Write the script."""
    found = get_completion_class(shell)
    assert found is not None, "click knows these three"
    script = found(ctx.find_root().command, {}, "peermesh", VARIABLE).source()
    output.tell(script.split("\n"), shell=shell, script=script)


def _complete_stores(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, "known_stores")


def _complete_logs(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, "known_logs")


def complete_contexts(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Name the contexts that begin so; none if their file cannot be read."""
    from peermesh.cli.context_file import load

    try:
        return [name for name in load(os.environ).all if name.startswith(incomplete)]
    except Exception:
        return []


STORE_NAME: Final = click.argument("name", shell_complete=_complete_stores)
LOG_NAME: Final = click.argument("name", shell_complete=_complete_logs)


def _complete(ctx: click.Context, incomplete: str, method: str) -> list[str]:
    """Ask the mesh for names that begin so; silent, and without any, if it does not answer."""
    from peermesh.cli.mesh import take_mesh

    try:
        names = _ask(take_mesh(dict(ctx.params)), method)
    except Exception:
        return []
    return [name for name in names if name.startswith(incomplete) and is_plain(name)]


def _ask(mesh: Any, method: str) -> tuple[str, ...]:  # noqa: ANN401 - a Mesh, imported late
    import trio

    async def ask() -> tuple[str, ...]:
        names: tuple[str, ...] = ()
        with trio.move_on_after(LIVE_SECONDS):
            async with mesh.endpoint() as endpoint:
                if mesh.peers and await endpoint.peer(*mesh.peers[0], retry=0):
                    names = getattr(endpoint, method)()
                # An orderly end is for those who have something to lose.
                await endpoint.shutdown(grace=0)
        return names

    return trio.run(ask)
