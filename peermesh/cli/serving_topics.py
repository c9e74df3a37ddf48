"""``peermesh serve websocket``: the topics of the mesh for clients of Broker's JSON protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import trio

from peermesh.cli.addresses import Address, AddressType
from peermesh.cli.arguments import read_token
from peermesh.cli.arriving import stay_joined
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.output import Output
from peermesh.cli.rights import gateway_options
from peermesh.cli.running import run
from peermesh.cli.trust import tls_option


@command()
@click.option(
    "--http", "address", default="127.0.0.1:27759", show_default=True, type=AddressType(27759),
    help="Where clients find it: ws://HOST:PORT/v1/messages/json, or with TLS wss://. Port 0 lets"
    " the system choose.",
)  # fmt: skip
@gateway_options
@click.option(
    "--origin", "origins", multiple=True, metavar="ORIGIN",
    help="A site whose pages may be clients, as https://example.org. May be repeated. Without it"
    " no page may.",
)  # fmt: skip
@tls_option
@mesh_options(listens=True, is_optional=True)
def websocket(  # noqa: PLR0913 - one for each option
    address: Address,
    token_file: Path | None,
    accounts: Path | None,
    port_roles: Path | None,
    origins: tuple[str, ...],
    mesh: Mesh,
    output: Output,
    *,
    tls: bool,
) -> None:
    """Serve the topics of the mesh to clients of Zeek Broker's WebSocket, until Ctrl-C.

    Clients such as zeek-client and zeekpy publish and subscribe, as JSON, and hear each other, too.

    \b
    For example:
      peermesh serve websocket --peer 127.0.0.1:9999
      zeek-client --controller 127.0.0.1:27759 get-instances
    """
    access = {
        "host": address[0],
        "port": address[1],
        "token": None if token_file is None else read_token(token_file),
        "credentials": mesh.trust.credentials_at(address[0], tls=tls),
        "allow_plain": mesh.trust.settings().allow_plain,
        "roles": port_roles,
        "accounts": accounts,
        "origins": origins,
    }
    run(_live, mesh, access, output)


async def _live(mesh: Mesh, access: dict[str, Any], output: Output) -> None:
    try:
        from peermesh.gateways.websocket.server import open_gateway
    except ImportError as error:
        text = "this needs WebSocket: pip install 'peermesh[websocket]'"
        raise CommandFailed(text, ExitCode.MISSING) from error
    async with mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
        with endpoint.subscribe_status() as status:
            await stay_joined(endpoint, mesh, nursery, output.tell)
            async with open_gateway(endpoint, **access) as gateway:
                text = f"serving the topics of the mesh at {gateway.url}"
                output.tell(text, event="serving", url=gateway.url, address=gateway.address)
                async for event in status:
                    await output.report(str(event), event=str(event.status), reason=event.reason)
