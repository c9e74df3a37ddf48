"""``peermesh store``: look into a replicated store, and compare its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from peermesh.cli.arguments import RAW_OPTION, TEXT_OPTION, read_value
from peermesh.cli.arriving import join_as_copy, open_proxy
from peermesh.cli.asking import ask_for_promotion, promotion_options
from peermesh.cli.command import command
from peermesh.cli.completion import STORE_NAME
from peermesh.cli.exits import CommandFailed
from peermesh.cli.following import entry_members
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.messages import check_raw
from peermesh.cli.output import Output, write_raw
from peermesh.cli.running import run
from peermesh.cli.values import format_value, on_a_line, to_json

if TYPE_CHECKING:
    from endpoint.replicas.stores.outcomes import Verification
    from peermesh import EndpointId, Entry, Value
    from stores.digests import ReplicaDigest


@command()
@STORE_NAME
@click.argument("key")
@TEXT_OPTION
@RAW_OPTION
@mesh_options(listens=False)
def get(name: str, key: str, mesh: Mesh, output: Output, *, as_text: bool, raw: bool) -> None:
    """Write the value of a KEY; the code is 1 if the key is missing."""
    if raw:
        check_raw(output)
    entry = run(_get, mesh, name, read_value(key, as_text=as_text))
    if raw:
        write_raw(entry.value)
    else:
        output.tell(format_value(entry.value), **entry_members(entry))


async def _get(mesh: Mesh, name: str, key: Value) -> Entry:
    async with open_proxy(mesh, name) as proxy:
        entry = await proxy.at_master().entry(key)
        if entry is None:
            text = f"store {on_a_line(name)} has no key {format_value(key)}"
            raise CommandFailed(text, kind="no_such_key")
        return entry


@command()
@STORE_NAME
@RAW_OPTION
@mesh_options(listens=False)
def keys(name: str, mesh: Mesh, output: Output, *, raw: bool) -> None:
    """Write all keys, one a line, in no order."""
    if raw:
        check_raw(output)
    for key in run(_keys, mesh, name):
        if raw:
            write_raw(key)
        else:
            output.tell(format_value(key), key=to_json(key))


async def _keys(mesh: Mesh, name: str) -> list[Value]:
    async with open_proxy(mesh, name) as proxy:
        return await proxy.at_master().keys()


@command()
@STORE_NAME
@mesh_options(listens=False)
def verify(name: str, mesh: Mesh, output: Output) -> None:
    """Compare what all replicas of a store hold; the code is 1 if one differs or is silent.

    All look at themselves at the same event of the stream, so that writes may go on. A copy without
    a vote that differs loads everything anew by itself. The copy of this command is one of them.
    """
    found, names = run(_verify, mesh, name)
    for row, line in zip(found.replicas, str(found).split("\n"), strict=True):
        who = names[row.replica.endpoint]
        output.tell(f"{who} {line}", name=who, **_replica_members(row))
    if not found:
        raise CommandFailed(f"the replicas of {on_a_line(name)} are not all equal")


async def _verify(mesh: Mesh, name: str) -> tuple[Verification, dict[EndpointId, str]]:
    """Compare the replicas, and say how their endpoints are called."""
    async with mesh.endpoint() as endpoint:
        copy = await join_as_copy(endpoint, mesh, name)
        found = await copy.verify(timeout=mesh.wait)
        owners = {row.replica.endpoint for row in found.replicas}
        return found, {each: endpoint.name_of(each) for each in owners}


def _replica_members(row: ReplicaDigest) -> dict[str, object]:
    members: dict[str, object] = {"replica": str(row.replica), "answered": row.digest is not None}
    if row.digest is not None:
        members["revision"] = row.digest.revision
        members["entries"] = row.digest.entry_count
        members["digest"] = str(row.digest)
    return members


@command()
@STORE_NAME
@promotion_options
@mesh_options(listens=False)
def promote(name: str, node: str | None, mesh: Mesh, output: Output, *, force: bool) -> None:
    """Make the clone of a node the master of its store, or a replica the leader of its group.

    The node has to be one of "peermesh node --clone NAME[:PATH]". The last master is fenced: when
    it returns it becomes a clone. What it had acknowledged and this clone does not have is lost.

    A node of a group ("peermesh node --replica NAME[:PATH]") is handed the lead. With --force it
    leads without a majority, and without the other voters from then on: for voters that are gone
    for good. What a majority of them had and this node does not have is lost.
    """
    done = run(ask_for_promotion, mesh, name, node, force)
    output.tell(done.text, store=name, node=str(done.node), message=done.text)
