"""``peermesh store``: look into a replicated store, and change it."""

from __future__ import annotations

import json

import click
import trio

from endpoint.verifying import Verification
from peermesh import EndpointId, Value
from peermesh.cli.control import ask_for_promotion, promotion_options
from peermesh.cli.dumping import dump, load
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.following import events, scan, watch
from peermesh.cli.keys import new_key, rekey
from peermesh.cli.mesh import Mesh, mesh_options, open_clone, open_proxy
from peermesh.cli.messages import read_argument
from peermesh.cli.numbers import Seconds
from peermesh.cli.running import run
from peermesh.cli.values import format_value
from stores.digests import ReplicaDigest

RAW_HELP = "KEY and VALUE are plain text rather than JSON."


@click.group()
def store() -> None:
    """Look into a replicated store, and change it.

    NAME is the store's. Its master has to be somewhere in the mesh: "peermesh node --master NAME".
    Keys and values are JSON, given and written; with --raw they are text.
    """


@store.command()
@click.argument("name")
@click.argument("key")
@click.option("--raw", is_flag=True, help=RAW_HELP)
@mesh_options(listens=False)
def get(name: str, key: str, mesh: Mesh, *, raw: bool) -> None:
    """Write the value of a KEY; the code is 1 if the key is missing."""
    mesh.require_peer()
    value = run(_get, mesh, name, read_argument(key, raw=raw))
    click.echo(value if raw and isinstance(value, str) else format_value(value))


async def _get(mesh: Mesh, name: str, key: Value) -> Value:
    async with open_proxy(mesh, name) as proxy:
        entry = await proxy.at_master().entry(key)
        if entry is None:
            raise CommandFailed(f"store {name} has no key {format_value(key)}")
        return entry.value


@store.command()
@click.argument("name")
@click.argument("key")
@click.argument("value")
@click.option(
    "--expiry", type=Seconds(is_open=True), metavar="SECONDS",
    help="Let the key expire so long from now.",
)  # fmt: skip
@click.option("--raw", is_flag=True, help=RAW_HELP)
@mesh_options(listens=False)
def put(name: str, key: str, value: str, expiry: float | None, mesh: Mesh, *, raw: bool) -> None:
    """Set a KEY to a VALUE, and write the revision that this made.

    When it ends with code 0, the master has applied it: durably, if its store is on disk.
    """
    mesh.require_peer()
    pair = (read_argument(key, raw=raw), read_argument(value, raw=raw))
    click.echo(run(_put, mesh, name, pair, expiry))


async def _put(mesh: Mesh, name: str, pair: tuple[Value, Value], expiry: float | None) -> int:
    async with open_proxy(mesh, name) as proxy:
        receipt = await proxy.put(*pair, expiry)
        with trio.move_on_after(mesh.wait):
            return await receipt.applied()
        raise CommandFailed(
            f"the master of {name} did not answer within {mesh.wait:g} s: whether the key is set"
            " is unknown",
            ExitCode.TIMEOUT,
        )


@store.command()
@click.argument("name")
@mesh_options(listens=False)
def keys(name: str, mesh: Mesh) -> None:
    """Write all keys, one a line, in no order."""
    mesh.require_peer()
    for key in run(_keys, mesh, name):
        click.echo(format_value(key))


async def _keys(mesh: Mesh, name: str) -> list[Value]:
    async with open_proxy(mesh, name) as proxy:
        return await proxy.at_master().keys()


@store.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object for each replica.")
@mesh_options(listens=False)
def verify(name: str, mesh: Mesh, *, as_json: bool) -> None:
    """Compare what all replicas of a store hold; the code is 1 if one differs or is silent.

    All look at themselves at the same event of the master's stream, so that writes may go on. A
    clone that differs loads everything anew by itself. The clone of this command is one of them.
    """
    mesh.require_peer()
    found = run(_verify, mesh, name)
    if as_json:
        for row in found.replicas:
            click.echo(json.dumps(_replica_line(row)))
    else:
        click.echo(str(found))
    if not found:
        raise CommandFailed(f"the replicas of {name} are not all equal")


async def _verify(mesh: Mesh, name: str) -> Verification:
    async with open_clone(mesh, name) as clone:
        return await clone.verify(timeout=mesh.wait)


def _replica_line(row: ReplicaDigest) -> dict[str, object]:
    line: dict[str, object] = {"replica": str(row.replica), "answered": row.digest is not None}
    if row.digest is not None:
        line["revision"] = row.digest.revision
        line["entries"] = row.digest.entry_count
        line["digest"] = str(row.digest)
    return line


@store.command()
@click.argument("name")
@promotion_options
@mesh_options(listens=False)
def promote(name: str, node_id: EndpointId | None, mesh: Mesh, *, force: bool) -> None:
    """Make the clone of a node the master of its store, and write what came of it.

    The node has to be one of "peermesh node --clone NAME[:PATH]". The last master is fenced: when
    it returns it becomes a clone. What it had acknowledged and this clone does not have is lost.
    """
    mesh.require_peer()
    click.echo(run(ask_for_promotion, mesh, name, node_id, force))


for command in (scan, events, watch, dump, load, new_key, rekey):
    store.add_command(command)
