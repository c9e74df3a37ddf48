"""``peermesh serve``: front ends in other protocols, for files in a store and for topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import trio

from peermesh.cli.addresses import Address, AddressType
from peermesh.cli.arguments import read_token
from peermesh.cli.arriving import stay_joined
from peermesh.cli.command import Command, group
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.holding import end_with, in_file, split_place
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.offering import offer_store, offer_store_replica
from peermesh.cli.output import Output
from peermesh.cli.quotas import given_quota, quota_options
from peermesh.cli.rights import gateway_options
from peermesh.cli.running import run
from peermesh.cli.serving_topics import websocket
from peermesh.cli.trust import tls_option
from peermesh.cli.voters import GivenVoters, given_voters, refuse_replicas, voters_options

if TYPE_CHECKING:
    from peermesh import ReplicaStore, Store


@group()
def serve() -> None:
    """Serve a store, or topics, to programs that do not know of the mesh."""


serve.add_command(websocket)


@serve.command(cls=Command)
@click.option(
    "--store", "name", required=True, metavar="NAME[:PATH]",
    help="The store: its master is here, in the SQLite file PATH, or else in memory. With --voters"
    " or --replica it is this node's replica that is there. With --clone, PATH is where the store"
    " is once the clone has been promoted (peermesh store promote).",
)  # fmt: skip
@voters_options(
    "Hold a replica of the store, whose group elects its leader. These nodes vote, by their names"
)
@click.option(
    "--replica", is_flag=True,
    help="Hold a replica of the store. Without --voters it follows the group that there is, and has"
    " no vote: one more gateway.",
)  # fmt: skip
@click.option(
    "--node", "own_name", metavar="NAME",
    help="What this node is called, as in --voters. Otherwise PEERMESH_NAME.",
)  # fmt: skip
@click.option("--clone", is_flag=True, help="Hold a clone, which serves what its master has.")
@click.option("--replicas", hidden=True, expose_value=False, callback=refuse_replicas)
@click.option(
    "--http", "address", default="127.0.0.1:9870", show_default=True, type=AddressType(9870),
    help="Where Hadoop's client finds it: webhdfs://HOST:PORT/, or with TLS swebhdfs://. Port 0"
    " lets the system choose.",
)  # fmt: skip
@gateway_options
@click.option(
    "--name", "names", multiple=True, metavar="HOST",
    help="A further name that clients ask for, without a port. Its address, loopback's and those of"
    " its certificate need not be given; other names are refused. Can be repeated.",
)  # fmt: skip
@tls_option
@quota_options
@mesh_options(listens=True, is_optional=True, takes_name=False)
def webhdfs(  # noqa: PLR0913 - one for each option
    name: str,
    voters: str | None,
    address: Address,
    token_file: Path | None,
    accounts: Path | None,
    port_roles: Path | None,
    names: tuple[str, ...],
    mesh: Mesh,
    output: Output,
    *,
    found: bool,
    replica: bool,
    clone: bool,
    tls: bool,
    **limits: int | None,
) -> None:
    """Serve the files in a store to Hadoop's client, for the checkpoints of Spark.

    A job then says checkpointLocation="webhdfs://HOST:PORT/directory". Of three gateways with
    --voters any serves, and Hadoop's own fail-over finds one that lives: see docs/spark.md.
    """
    is_replica = replica or voters is not None
    if is_replica and clone:
        what = "--replica" if voters is None else "--voters"
        raise click.UsageError(f"a replica ({what}) is no clone (--clone): give one of them")
    quota = given_quota(limits)
    if is_replica and quota:
        raise click.UsageError("the quota of a group is its own, and not that of --max-...")
    token = None if token_file is None else read_token(token_file)
    access = {
        "token": token,
        "credentials": mesh.trust.credentials_at(address[0], tls=tls),
        "allow_plain": mesh.trust.settings().allow_plain,
        "roles": port_roles,
        "accounts": accounts,
        "names": names,
    }
    server = _Server(mesh, address, access, output)
    wanted = given_voters(voters, found=found)
    run(server.live, name, quota, wanted if is_replica else None, clone)


class _Server:
    """A gateway and its endpoint, as the command line has described them."""

    def __init__(
        self, mesh: Mesh, address: Address, access: dict[str, Any], output: Output
    ) -> None:
        """Serve clients that have ``access``; write what happens to ``output``."""
        self._mesh = mesh
        self._address = address
        self._access = access
        self._output = output

    def _say(self, event: str, text: str, **details: object) -> None:
        self._output.tell(text, event=event, **details)

    async def live(
        self,
        name: str,
        quota: dict[str, Any],
        voters: GivenVoters | None,
        is_clone: bool,  # noqa: FBT001 - run hands it on
    ) -> None:
        """Do all of it, and stay; the ``quota`` is that of a master, now or once promoted.

        With ``voters`` it is a replica: a learner if there are none, and else as they say.
        """
        try:
            from peermesh.gateways.webhdfs.limits import WAIT_SECONDS
            from peermesh.gateways.webhdfs.serving import open_gateway
        except ImportError as error:
            text = "this needs HTTP: pip install 'peermesh[http]'"
            raise CommandFailed(text, ExitCode.MISSING) from error
        host, port = self._address
        name, path = split_place(name)
        async with self._mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
            with endpoint.subscribe_status() as status:
                store: Store | ReplicaStore
                if voters is not None:
                    store = replica = await endpoint.attach_replica(
                        name, **voters._asdict(), patience=WAIT_SECONDS, **in_file(path)
                    )
                    offer_store_replica(endpoint, name, replica)
                elif is_clone:
                    store = clone = await endpoint.attach_clone(name)
                    offer_store(endpoint, name, clone, path, **quota)
                else:
                    store = await endpoint.attach_master(name, **in_file(path), **quota)
                nursery.start_soon(end_with, endpoint, [store])
                await stay_joined(endpoint, self._mesh, nursery, self._output.tell)
                async with open_gateway(store, host=host, port=port, **self._access) as gateway:
                    scheme = "webhdfs" if gateway.scheme == "http" else "swebhdfs"
                    self._say(
                        "serving",
                        f"serving {name} at {scheme}://{gateway.address}/",
                        store=name,
                        address=gateway.address,
                        active=gateway.is_active(),
                    )
                    async for event in status:
                        await self._output.report(
                            str(event), event=str(event.status), reason=event.reason
                        )
