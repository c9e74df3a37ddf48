"""What commands ask of one endpoint: to lead a store or log, or to describe itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import click

from peermesh import Endpoint, EndpointId, MeshError, Value
from peermesh.cli.arriving import join, telling
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh
from peermesh.cli.values import on_a_line
from wire.errors import RequestTimeout

PROMOTE: Final = "promote"
"""The verb for a store."""

LEAD_LOG: Final = "lead-log"
"""The verb for a log."""

CommandT = TypeVar("CommandT", bound=Callable[..., object])


class NodeType(click.ParamType[EndpointId]):
    """The id of a node."""

    name = "NODE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> EndpointId:
        """Read an id."""
        try:
            return EndpointId.parse(str(value))
        except ValueError:
            self.fail(
                f"{str(value)[:40]!r} is no id of a node: it is what 'peermesh node' writes first,"
                " as in 12345678-1234-4234-8234-123456789abc",
                param,
                ctx,
            )


def promotion_options(command: CommandT) -> CommandT:
    """Add which node to promote, and how: what commands that ask for a promotion have in common."""
    at = click.option(
        "--at", "node_id", type=NodeType(),
        help="The id of the node that is to lead. Otherwise it is the one at --peer.",
    )  # fmt: skip
    force = click.option(
        "--force", is_flag=True,
        help="Promote it even if the leader is alive, or if it is known to lack something.",
    )  # fmt: skip
    return at(force(command))


@dataclass(frozen=True, slots=True)
class Answered:
    """Which node was asked, and its answer."""

    node: EndpointId
    result: Value


async def ask(mesh: Mesh, node_id: EndpointId | None, verb: str, *values: Value) -> Answered:
    """Join the mesh and ask one endpoint, by default the peer; raises ``CommandFailed``."""
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        node = endpoint.peers()[0].node_id if node_id is None else node_id
        async with telling(lambda: [f"node {node}: no answer yet"]):
            found = await _ask(endpoint, node, mesh.wait, verb, *values)
        if isinstance(found, CommandFailed):
            raise found
        return Answered(node, found)


async def _ask(
    endpoint: Endpoint, node: EndpointId, wait: float, verb: str, *values: Value
) -> Value | CommandFailed:
    """Ask a node; give its answer, or what keeps it from answering."""
    if not await endpoint.await_peer(node, timeout=wait):
        return CommandFailed(f"no node {node} in this mesh", ExitCode.TIMEOUT)
    try:
        return await endpoint.admin.ask(node, verb, *values, timeout=wait)
    except RequestTimeout:
        text = f"node {node} did not answer within {wait:g} s: its settings may say admin = false"
        return CommandFailed(text, ExitCode.TIMEOUT)
    except MeshError as error:
        return CommandFailed(f"node {node} refuses: {on_a_line(str(error))}")


@dataclass(frozen=True, slots=True)
class Promoted:
    """Which node leads now, and what it says of that."""

    node: EndpointId
    text: str


async def ask_for_promotion(
    mesh: Mesh,
    name: str,
    node_id: EndpointId | None,
    force: bool,  # noqa: FBT001 - trio.run takes no keywords
    verb: str = PROMOTE,
) -> Promoted:
    """Ask a node to lead with its copy of a store or, by ``LEAD_LOG``, of a log."""
    done = await ask(mesh, node_id, verb, name, force)
    return Promoted(done.node, on_a_line(str(done.result)))
