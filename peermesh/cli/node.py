"""``peermesh node``: an endpoint that stays, with stores if wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import trio

from peermesh import Backend, Endpoint, StatusEvent
from peermesh.cli.control import CONTROL_TOPIC, Promoter
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.running import run
from wire.addresses import join_address

Say = Callable[..., None]


@click.command()
@click.option(
    "--master", "masters", multiple=True, metavar="NAME[:PATH]",
    help="Host the master of a store: in the SQLite file PATH, or else in memory. May be repeated.",
)  # fmt: skip
@click.option(
    "--clone", "clones", multiple=True, metavar="NAME[:PATH]",
    help="Hold a clone of a store. When it is promoted (peermesh store promote), its store is in"
    " the SQLite file PATH, or else in memory. May be repeated.",
)  # fmt: skip
@click.option(
    "--forward", "topics", multiple=True, metavar="TOPIC",
    help="Have messages sent here and passed on, as if somebody here had subscribed.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write what happens as JSON lines.")
@mesh_options(listens=True)
def node(
    masters: tuple[str, ...],
    clones: tuple[str, ...],
    topics: tuple[str, ...],
    mesh: Mesh,
    *,
    as_json: bool,
) -> None:
    """Be an endpoint of the mesh until Ctrl-C, and write what happens.

    Peers that do not answer are tried again, for ever.
    """
    mesh.require_way_in()
    run(_Node(mesh, as_json=as_json).live, masters, clones, topics)


class _Node:
    """An endpoint, as the command line has described it."""

    def __init__(self, mesh: Mesh, *, as_json: bool) -> None:
        """Write what happens as JSON, or as text."""
        self._mesh = mesh
        self._as_json = as_json

    def _say(self, event: str, text: str, **details: Any) -> None:  # noqa: ANN401 - whatever JSON can say
        click.echo(json.dumps({"event": event, **details}) if self._as_json else text)

    async def live(
        self, masters: tuple[str, ...], clones: tuple[str, ...], topics: tuple[str, ...]
    ) -> None:
        """Do all of it, and stay."""
        async with self._mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
            with endpoint.subscribe_status() as status:
                self._say("node", f"endpoint {endpoint.node_id()}", id=str(endpoint.node_id()))
                endpoint.forward(*topics)
                promoter = Promoter(endpoint)
                await self._attach(endpoint, masters, clones, promoter)
                if clones:
                    nursery.start_soon(promoter.serve, endpoint.subscribe(CONTROL_TOPIC))
                await self._listen(endpoint)
                for host, port in self._mesh.peers:
                    nursery.start_soon(endpoint.peer, host, port)
                async for event in status:
                    self._on_status(event)

    async def _attach(
        self,
        endpoint: Endpoint,
        masters: tuple[str, ...],
        clones: tuple[str, ...],
        promoter: Promoter,
    ) -> None:
        for master in masters:
            name, _, path = master.partition(":")
            if path:
                await endpoint.attach_master(name, Backend.SQLite, path=path)
            else:
                await endpoint.attach_master(name, Backend.Memory)
            self._say("master", f"master of {name}", store=name, path=path or None)
        for clone in clones:
            name, _, path = clone.partition(":")
            promoter.add(name, await endpoint.attach_clone(name), path)
            self._say("clone", f"clone of {name}", store=name)

    async def _listen(self, endpoint: Endpoint) -> None:
        for host, port in self._mesh.listen:
            bound = await endpoint.listen(host, port)
            self._say(
                "listening", f"listening on {join_address(host, bound)}", host=host, port=bound
            )

    def _on_status(self, event: StatusEvent) -> None:
        self._say(
            str(event.status),
            str(event),
            endpoint=None if event.endpoint is None else str(event.endpoint),
            address=event.address,
            certificate_name=event.certificate_name,
            reason=event.reason,
        )
