"""What one node asks of another: to promote its clone of a store."""

from __future__ import annotations

from typing import Final

import trio

from peermesh import Backend, Endpoint, EndpointId, MeshError, Store, Subscriber
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, join

CONTROL_TOPIC: Final = "peermesh/control/promote"
"""Nodes with clones hear requests here: store, whether to use force, and where to answer."""

ANSWER_TOPIC: Final = "peermesh/control/answer"


async def ask_for_promotion(mesh: Mesh, name: str, node_id: str | None, force: bool) -> str:  # noqa: FBT001 - trio.run takes no keywords
    """Ask a node to promote its clone; gives what it answers."""
    async with mesh.endpoint() as endpoint:
        answer_topic = f"{ANSWER_TOPIC}/{endpoint.node_id()}"
        with endpoint.subscribe(answer_topic) as answers:
            await join(endpoint, mesh)
            node = endpoint.peers()[0].node_id if node_id is None else EndpointId.parse(node_id)
            if not await endpoint.await_peer(node, timeout=mesh.wait):
                raise CommandFailed(f"no node {node} in this mesh", ExitCode.TIMEOUT)
            await endpoint.publish(CONTROL_TOPIC, (name, force, answer_topic), to=node)
            with trio.move_on_after(mesh.wait):
                match await answers.get():
                    case (_, (True, str() as text)):
                        return text
                    case (_, (False, str() as text)):
                        raise CommandFailed(text)
                    case other:
                        raise CommandFailed(f"node {node} answers {other!r:.80}")
    raise CommandFailed(
        f"node {node} did not answer within {mesh.wait:g} s: it has to run with --clone {name}",
        ExitCode.TIMEOUT,
    )


class Promoter:
    """Promotes the clones of a node when somebody in the mesh asks for it."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Begin without clones."""
        self._endpoint = endpoint
        self._clones: dict[str, tuple[Store, str, int]] = {}

    def add(self, name: str, clone: Store, path: str, *, replicas: int = 0) -> None:
        """Offer a clone; as a master it is in the file, or in memory if the path is empty."""
        self._clones[name] = clone, path, replicas

    async def serve(self, requests: Subscriber) -> None:
        """Do what is asked, and answer."""
        async for message in requests:
            match message:
                case (_, (str() as name, bool() as force, str() as answer_topic)):
                    answer = await self._promote(name, force=force)
                    await self._endpoint.publish(answer_topic, answer)
                case _:
                    pass  # It is not for us, or does not make sense.

    async def _promote(self, name: str, *, force: bool) -> tuple[bool, str]:
        if name not in self._clones:
            return False, f"node {self._endpoint.node_id()} has no clone of {name}"
        clone, path, replicas = self._clones[name]
        try:
            if path:
                promotion = await clone.promote(
                    Backend.SQLite, path=path, force=force, replicas=replicas
                )
            else:
                promotion = await clone.promote(force=force, replicas=replicas)
        except MeshError as error:
            return False, str(error)
        return True, (
            f"node {self._endpoint.node_id()} leads {name} in term {promotion.term}, from revision"
            f" {promotion.revision}; the last master was heard {promotion.silent_seconds:.1f} s ago"
        )
