"""What commands ask of one endpoint: to lead a store or log, or to describe itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import click
import trio

from endpoint.mesh.naming import Names
from peermesh import Endpoint, EndpointId, MeshError, Value
from peermesh.cli.arriving import NAMES_SHOWN_MAX, NEWS_LOOK_SECONDS, NEWS_SECONDS, join, telling
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh
from peermesh.cli.values import on_a_line
from wire.errors import RequestTimeout
from wire.identifiers import is_id

PROMOTE: Final = "promote"
"""The verb for a store."""

LEAD_LOG: Final = "lead-log"
"""The verb for a log."""

CommandT = TypeVar("CommandT", bound=Callable[..., object])


class NodeType(click.ParamType[str]):
    """What says which node is meant: its name, its id, or the first digits of that."""

    name = "NODE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Take the text: which node it is, only the mesh knows. It fails for no text at all."""
        text = str(value).strip()
        if not text:
            self.fail(
                "an empty text is no node: give its name, its id, or four or more first digits of"
                " the id",
                param,
                ctx,
            )
        return text


def promotion_options(command: CommandT) -> CommandT:
    """Add which node to promote, and how: what commands that ask for a promotion have in common."""
    at = click.option(
        "--at", "node", type=NodeType(),
        help="The node that is to lead: its name, its id, or four or more first digits of that."
        " Otherwise it is the one at --peer.",
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
    names: Mapping[str, str]
    """How the endpoints of the mesh are called, by the texts of their ids."""


async def ask(mesh: Mesh, text: str | None, verb: str, *values: Value) -> Answered:
    """Join the mesh and ask one endpoint, by default the peer; raises ``CommandFailed``.

    ``text`` says which one, as ``find_node`` takes it.
    """
    async with mesh.endpoint() as endpoint:
        await join(endpoint, mesh)
        if text is None:
            node = endpoint.peers()[0].node_id
        else:
            node = await find_node(endpoint, mesh, text)
        who = endpoint.names.full
        async with telling(lambda: [f"node {who(node)}: no answer yet"]):
            found = await _ask(endpoint, node, mesh.wait, verb, *values)
        if isinstance(found, CommandFailed):
            raise found
        known = (node, *endpoint.names.others())
        return Answered(node, found, {str(each): endpoint.name_of(each) for each in known})


async def find_node(endpoint: Endpoint, mesh: Mesh, text: str) -> EndpointId:
    """Find the node that a text means, waiting if ``--wait`` says so.

    Raises ``CommandFailed`` if there is none, or if more than one may be meant. The command's own
    endpoint is none of them, unless the text is its id.
    """
    names, own = endpoint.names, endpoint.node_id()

    def look() -> list[EndpointId]:
        found = names.find(text)
        return found if is_id(text) else [each for each in found if each != own]

    with trio.move_on_after(NEWS_SECONDS if mesh.waits is None else mesh.waits):
        async with telling(lambda: [f"node {on_a_line(text)}: the mesh has none yet"]):
            while not look():  # noqa: ASYNC110 - no event tells of a name
                await trio.sleep(NEWS_LOOK_SECONDS)
    found = look()
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandFailed(
            f"{on_a_line(text)} may be each of {_listed(names, found)}",
            hint="give the id, or more of its digits",
            kind="ambiguous_node",
        )
    late = "" if mesh.waits is None else f" within {mesh.waits:g} s"
    raise CommandFailed(
        f"no node {on_a_line(text)} in this mesh{late}; nodes: {_listed(names, names.others())}",
        ExitCode.FAILED if mesh.waits is None else ExitCode.TIMEOUT,
        kind="no_such_node",
    )


def _listed(names: Names, nodes: Sequence[EndpointId]) -> str:
    shown = ", ".join(map(names.full, nodes[:NAMES_SHOWN_MAX])) or "none"
    return shown + (
        f" and {len(nodes) - NAMES_SHOWN_MAX} more" if len(nodes) > NAMES_SHOWN_MAX else ""
    )


async def _ask(
    endpoint: Endpoint, node: EndpointId, wait: float, verb: str, *values: Value
) -> Value | CommandFailed:
    """Ask a node; give its answer, or what keeps it from answering."""
    if not await endpoint.await_peer(node, timeout=wait):
        return CommandFailed(f"no node {node} in this mesh", ExitCode.TIMEOUT)
    who = endpoint.names.full(node)
    try:
        return await endpoint.admin.ask(node, verb, *values, timeout=wait)
    except RequestTimeout:
        why = "its settings may say admin = false"
        if verb in (PROMOTE, LEAD_LOG):
            why = f"it may wait for its group, or {why}"
        text = f"node {who} did not answer within {wait:g} s: {why}"
        return CommandFailed(text, ExitCode.TIMEOUT, hint="--wait SECONDS waits longer")
    except MeshError as error:
        return CommandFailed(f"node {who} refuses: {on_a_line(str(error))}")


@dataclass(frozen=True, slots=True)
class Promoted:
    """Which node leads now, and what it says of that."""

    node: EndpointId
    text: str


async def ask_for_promotion(
    mesh: Mesh,
    name: str,
    node: str | None,
    force: bool,  # noqa: FBT001 - trio.run takes no keywords
    verb: str = PROMOTE,
) -> Promoted:
    """Ask a node to lead with its copy of a store or, by ``LEAD_LOG``, of a log."""
    done = await ask(mesh, node, verb, name, force)
    return Promoted(done.node, on_a_line(str(done.result)))
