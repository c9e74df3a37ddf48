"""Why a store or log has no leader, as the nodes of the mesh say that hold it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

import trio

from peermesh import Endpoint, EndpointId, MeshError, plain
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.values import on_a_line
from stores.group.limits import VOTERS_MAX
from wire.topics import group_topic, log_group_topic

ASKED_MAX: Final = 2 * VOTERS_MAX
"""Nodes that are asked: all voters of a group, and some that only have a copy."""

SAID_MAX: Final = 5
"""Nodes whose answers are told: what some know, the others know too as a rule."""

_TOPICS: Final = {"store": group_topic, "log": log_group_topic}
"""Where the replicas of a group hear each other."""


async def no_leader(
    endpoint: Endpoint, kind: Literal["store", "log"], name: str, seconds: float
) -> CommandFailed:
    """Make the error of a command that waited for a leader in vain."""
    said: dict[str, str] = {}

    async def hear(node: EndpointId) -> None:
        with suppress(MeshError):
            trouble = _trouble(plain(await endpoint.admin.ask(node, "describe")), kind, name)
            if trouble:
                said[endpoint.name_of(node)] = trouble

    async with trio.open_nursery() as nursery:
        for node in endpoint.admin.members(_TOPICS[kind](name))[:ASKED_MAX]:
            nursery.start_soon(hear, node)
    why = "; ".join(f"{node} says: {said[node]}" for node in sorted(said)[:SAID_MAX])
    return CommandFailed(
        f"{kind} {on_a_line(name)} has no leader after {seconds:g} s"
        + (f": {why}" if why else ", and no node says why"),
        ExitCode.TIMEOUT,
        hint="start what is silent, or --wait SECONDS waits longer",
        kind="no_quorum",
    )


def _trouble(described: object, kind: str, name: str) -> str | None:
    """Find what a node says of a store or log; it may be of another version."""
    held = described.get(f"{kind}s") if isinstance(described, dict) else None
    for each in held if isinstance(held, list) else ():
        if isinstance(each, dict) and each.get("name") == name:
            trouble = each.get("trouble")
            return trouble if isinstance(trouble, str) else None
    return None
