"""``peermesh describe``: what one endpoint says about itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from peermesh import plain
from peermesh.cli.asking import NodeType, ask
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line

_FIRST: Final = (
    "id", "name", "certificate_name", "version", "host", "pid", "uptime_seconds",
    "node_id", "address", "role", "topics",
)  # fmt: skip
"""What is written before everything else, in this order."""

_ID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


@command()
@click.argument("node", type=NodeType(), required=False)
@mesh_options(listens=False)
def describe(node: str | None, mesh: Mesh, output: Output) -> None:
    """Write what a NODE says of its process, links, subscribers, stores and logs.

    NODE is a name, an id, or four or more first digits of an id; without it, the endpoint at --peer
    is asked. With roles, that takes the right to observe. Counts are totals since the endpoint
    began.
    """
    done = run(ask, mesh, node, "describe")
    found = plain(done.result)
    if not isinstance(found, dict):
        raise CommandFailed(f"node {done.node} does not describe itself: it is another version")
    output.tell(_lines(found, done.names), **found)


def _lines(found: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Write each count on a line, and then each list with its items below.

    ``names`` are written before the ids of endpoints that items are about.
    """

    def named(found: re.Match[str]) -> str:
        name = names.get(found[0], found[0])
        return found[0] if name == found[0] else f"{name} ({found[0]})"

    lists = {name: value for name, value in found.items() if isinstance(value, list)}
    for name in sorted(found.keys() - lists.keys() - {"v"}, key=_place):
        yield f"{on_a_line(name)}: {_text(found[name])}"
    for name in sorted(lists):
        yield f"{on_a_line(name)}: {len(lists[name])}"
        for item in lists[name]:
            members = item if isinstance(item, dict) else {"": item}
            keys = sorted(members, key=_place)
            line = "  " + ", ".join(f"{on_a_line(key)} {_text(members[key])}" for key in keys)
            yield line if "node_id" in members else _ID.sub(named, line)


def _place(name: str) -> tuple[int, str]:
    """Sort names that say what it is before all counts."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), name


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list):
        return " ".join(map(_text, value)) or "-"
    return on_a_line("-" if value is None else str(value))
