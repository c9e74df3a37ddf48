"""What one node asks of another: to promote its clone of a store, or its copy of a log."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import click
import trio

from peermesh import Backend, Endpoint, EndpointId, Log, MeshError, Store, Subscriber
from peermesh.cli.arriving import join
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh
from peermesh.cli.numbers import counted

logger = logging.getLogger("peermesh.cli")

CONTROL_TOPIC: Final = "peermesh/control/promote"
"""Nodes with clones hear requests here: store, whether to use force, and where to answer."""

LOG_TOPIC: Final = "peermesh/control/lead-log"
"""Nodes with copies of logs hear such requests here."""

ANSWER_TOPIC: Final = "peermesh/control/answer"

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
class Promoted:
    """Which node leads now, and what it says of that."""

    node: EndpointId
    text: str


async def ask_for_promotion(
    mesh: Mesh,
    name: str,
    node_id: EndpointId | None,
    force: bool,  # noqa: FBT001 - trio.run takes no keywords
    topic: str = CONTROL_TOPIC,
) -> Promoted:
    """Ask a node to promote its copy of a store or, on ``LOG_TOPIC``, a log; gives its answer."""
    async with mesh.endpoint() as endpoint:
        answer_topic = f"{ANSWER_TOPIC}/{endpoint.node_id()}"
        with endpoint.subscribe(answer_topic) as answers:
            await join(endpoint, mesh)
            node = endpoint.peers()[0].node_id if node_id is None else node_id
            if not await endpoint.await_peer(node, timeout=mesh.wait):
                raise CommandFailed(f"no node {node} in this mesh", ExitCode.TIMEOUT)
            await endpoint.publish(topic, (name, force, answer_topic), to=node)
            with trio.move_on_after(mesh.wait):
                match await answers.get():
                    case (_, (True, str() as text)):
                        return Promoted(node, text)
                    case (_, (False, str() as text)):
                        raise CommandFailed(text)
                    case other:
                        raise CommandFailed(f"node {node} answers {other!r:.80}")
    raise CommandFailed(
        f"node {node} did not answer within {mesh.wait:g} s: it has to run with a copy of {name}",
        ExitCode.TIMEOUT,
    )


Promote = Callable[[bool], Awaitable[str]]
"""Promotes something, with force or not, and says what came of it."""


class Promoter:
    """Promotes what a node has copies of when somebody in the mesh asks for it."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Begin without anything."""
        self._endpoint = endpoint
        self._offers: dict[str, Promote] = {}

    def add(self, name: str, clone: Store, path: str, *, replicas: int = 0) -> None:
        """Offer a clone; as a master it is in the file, or in memory if the path is empty."""
        options: dict[str, Any] = {"replicas": replicas}
        if path:
            options |= {"backend": Backend.SQLite, "path": path}
        self._offers[name] = partial(_promote_store, clone, options)

    def add_log(self, name: str, log: Log, options: dict[str, Any]) -> None:
        """Offer a follower of a log; ``options`` are those of ``promote``."""
        self._offers[name] = partial(_promote_log, log, options)

    async def serve(self, requests: Subscriber) -> None:
        """Do what is asked, and answer."""
        async for message in requests:
            match message:
                case (_, (str() as name, bool() as force, str() as answer_topic)):
                    answer = await self._promote(name, force=force)
                    try:
                        await self._endpoint.publish(answer_topic, answer)
                    except MeshError as error:  # Who asks chose the topic.
                        logger.warning("nobody is told how a promotion ended: %s", error)
                case _:
                    pass  # It is not for us, or does not make sense.

    async def _promote(self, name: str, *, force: bool) -> tuple[bool, str]:
        node = self._endpoint.node_id()
        if name not in self._offers:
            return False, f"node {node} has no copy of {name}"
        try:
            text = await self._offers[name](force)
        except MeshError as error:
            return False, str(error)
        return True, f"node {node} leads {name} {text}"


async def _promote_store(clone: Store, options: dict[str, Any], force: bool) -> str:  # noqa: FBT001 - partial hands it on
    done = await clone.promote(force=force, **options)
    return (
        f"in term {done.term}, from revision {done.revision}; the last master was heard"
        f" {done.silent_seconds:.1f} s ago"
    )


async def _promote_log(log: Log, options: dict[str, Any], force: bool) -> str:  # noqa: FBT001 - partial hands it on
    done = await log.promote(force=force, **options)
    entries = counted(sum(done.ends), "entry", "entries")
    return (
        f"in term {done.term}, from {entries}; the last keeper was heard"
        f" {done.silent_seconds:.1f} s ago"
    )
