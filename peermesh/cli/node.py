"""``peermesh node``: an endpoint that stays, with stores if wanted."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import click
import trio

from peermesh import Endpoint, StatusEvent
from peermesh.cli.arriving import listen, stay_peered
from peermesh.cli.command import command
from peermesh.cli.holding import GIVEN_UP, Held, end_with, in_file, split_place
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.offering import offer_store, offer_store_replica
from peermesh.cli.output import Output
from peermesh.cli.quotas import given_quota, quota_options
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line
from peermesh.cli.voters import GivenVoters, given_voters, voters_options
from peermesh.cli.wording import in_words


@command()
@click.option(
    "--master", "masters", multiple=True, metavar="NAME[:PATH]",
    help="Host the master of a store: in the SQLite file PATH, or else in memory. May be repeated.",
)  # fmt: skip
@click.option(
    "--fresh", "fresh", multiple=True, metavar="NAME",
    help="Have the --master of NAME lead with what its file has, this once: its ballot is lost, or"
    " it lacks what it had acknowledged. What clones have beyond that is lost. May be repeated.",
)  # fmt: skip
@click.option(
    "--clone", "clones", multiple=True, metavar="NAME[:PATH]",
    help="Hold a clone of a store. When it is promoted (peermesh store promote), its store is in"
    " the SQLite file PATH, or else in memory. May be repeated.",
)  # fmt: skip
@click.option(
    "--replica", "replicas", multiple=True, metavar="NAME[:PATH]",
    help="Hold a replica of a store whose group elects its leader: in the SQLite file PATH, or else"
    " in memory. It has a vote if --voters names this node (--name). May be repeated.",
)  # fmt: skip
@voters_options(group="the group of each --replica")
@click.option(
    "--forward", "topics", multiple=True, metavar="TOPIC",
    help="Have messages sent here and passed on, as if a program here had subscribed.",
)  # fmt: skip
@quota_options
@mesh_options(listens=True)
def node(  # noqa: PLR0913 - one for each option
    masters: tuple[str, ...],
    fresh: tuple[str, ...],
    clones: tuple[str, ...],
    replicas: tuple[str, ...],
    voters: str | None,
    topics: tuple[str, ...],
    mesh: Mesh,
    output: Output,
    *,
    found: bool,
    **limits: int | None,
) -> None:
    """Be an endpoint of the mesh until Ctrl-C, and write what happens.

    Peers that do not answer are tried again, for ever. --max-entries and --max-bytes are for each
    store that is led here, but for those of groups, whose quota is their own.
    """
    if voters is not None and not replicas:
        raise click.UsageError("--voters is about replicas: add --replica NAME")
    for name in set(fresh) - {split_place(master)[0] for master in masters}:
        raise click.UsageError(f"--fresh {name} is about a master: add --master {name}:PATH")
    quota = given_quota(limits)
    if quota and not masters and not clones:
        raise click.UsageError(
            "--max-entries and --max-bytes are about masters, and clones that are promoted: add"
            ' --master NAME; "peermesh store quota NAME" has that of a group'
        )
    stores = _Stores(masters, fresh, clones, replicas, given_voters(voters, found=found))
    run(_Node(mesh, output, quota).live, stores, topics)


def _promoted_before(clone: str, path: str | None) -> str:
    """Say what a file that is there already means: only a promotion makes that of a clone.

    A program that starts a node again with the same options has it wait for a master that is gone.
    """
    if path is None or not os.path.exists(path):
        return ""
    return (
        f"; {on_a_line(path)} is there already: if it was promoted here, start it with --master"
        f" {on_a_line(clone)} instead"
    )


class _Stores(NamedTuple):
    """What a node holds; each of ``NAME[:PATH]``."""

    masters: tuple[str, ...]
    fresh: tuple[str, ...]
    """The names of those masters that lead with what their files have."""
    clones: tuple[str, ...]
    replicas: tuple[str, ...]
    voters: GivenVoters


class _Node:
    """An endpoint, as the command line has described it."""

    def __init__(self, mesh: Mesh, output: Output, quota: dict[str, Any]) -> None:
        """Write what happens to ``output``; stores that are led here have this quota."""
        self._mesh = mesh
        self._output = output
        self._quota = quota

    def _say(self, event: str, text: str, **details: object) -> None:
        self._output.tell(text, event=event, **details)

    async def live(self, stores: _Stores, topics: tuple[str, ...]) -> None:
        """Do all of it, and stay."""
        async with self._mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
            with endpoint.subscribe_status() as status:
                if topics:
                    endpoint.forward(*topics)
                held = await self._attach(endpoint, stores)
                ports = await listen(endpoint, self._mesh)
                # A node that cannot listen, or has no store, writes nothing but its error.
                own = endpoint.node_id()
                who = endpoint.names.full(own)
                self._say("node", f"endpoint {who}", id=str(own), name=endpoint.name_of(own))
                self._tell_attached(stores)
                stay_peered(endpoint, self._mesh, nursery, self._output.tell, ports)
                if held:
                    nursery.start_soon(end_with, endpoint, held)
                async for event in status:
                    await self._on_status(event)

    async def _attach(self, endpoint: Endpoint, stores: _Stores) -> list[Held]:
        held: list[Held] = []
        for master in stores.masters:
            name, path = split_place(master)
            options = in_file(path) | self._quota
            held.append(await endpoint.attach_master(name, fresh=name in stores.fresh, **options))
        for clone in stores.clones:
            name, path = split_place(clone)
            copy = await endpoint.attach_clone(name)
            offer_store(endpoint, name, copy, path, **self._quota)
            held.append(copy)
        for replica in stores.replicas:
            name, path = split_place(replica)
            member = await endpoint.attach_replica(name, **stores.voters._asdict(), **in_file(path))
            offer_store_replica(endpoint, name, member)
            held.append(member)
        return held

    def _tell_attached(self, stores: _Stores) -> None:
        for master in stores.masters:
            name, path = split_place(master)
            is_fresh = name in stores.fresh
            text = f"master of {on_a_line(name)}{GIVEN_UP if is_fresh else ''}"
            self._say("master", text, store=name, path=path, fresh=is_fresh)
        for clone in stores.clones:
            name, path = split_place(clone)
            text = f"clone of {on_a_line(name)}{_promoted_before(clone, path)}"
            self._say("clone", text, store=name)
        for replica in stores.replicas:
            name, path = split_place(replica)
            self._say("replica", f"replica of {on_a_line(name)}", store=name, path=path)

    async def _on_status(self, event: StatusEvent) -> None:
        await self._output.report(
            in_words(str(event)),
            event=str(event.status),
            endpoint=None if event.endpoint is None else str(event.endpoint),
            name=event.name,
            address=event.address,
            certificate_name=event.certificate_name,
            reason=in_words(event.reason),
        )
