"""``peermesh describe``: what one endpoint says about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from peermesh import EndpointId, plain
from peermesh.cli.asking import NodeType, ask
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line


@command()
@click.argument("node", type=NodeType(), required=False)
@mesh_options(listens=False)
def describe(node: EndpointId | None, mesh: Mesh, output: Output) -> None:
    """Write what a NODE says of its process, links, subscribers, stores and logs.

    NODE is an id, as "peermesh node" writes it; without it, the endpoint at --peer is asked. With
    roles, that takes the right to observe. Counts are totals since the endpoint began.
    """
    done = run(ask, mesh, node, "describe")
    found = plain(done.result)
    if not isinstance(found, dict):
        raise CommandFailed(f"node {done.node} does not describe itself: it is another version")
    output.tell("\n".join(_lines(found)), **found)


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Write each member on a line, and below a list each of its items."""
    for name, value in found.items():
        if not isinstance(value, list):
            yield f"{on_a_line(name)}: {_text(value)}"
            continue
        yield f"{on_a_line(name)}: {len(value)}"
        for item in value:
            members = item.items() if isinstance(item, dict) else [("", item)]
            yield "  " + ", ".join(
                f"{on_a_line(key)} {_text(each)}".strip() for key, each in members
            )


def _text(value: object) -> str:
    return on_a_line("-" if value is None else str(value))
