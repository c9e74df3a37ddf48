"""``peermesh link zeek``: joins topics of the mesh to a Zeek that serves WebSocket."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import trio

from peermesh.cli.arguments import INPUT_FILE, read_token
from peermesh.cli.arriving import stay_joined
from peermesh.cli.command import command
from peermesh.cli.exits import CommandFailed, ExitCode
from peermesh.cli.mesh import Mesh, mesh_options
from peermesh.cli.output import Output
from peermesh.cli.running import run
from peermesh.cli.values import on_a_line

if TYPE_CHECKING:
    from peermesh.gateways.websocket.link import LinkEvent


@command()
@click.argument("url", metavar="URL")
@click.option(
    "--to-zeek", multiple=True, metavar="PREFIX",
    help="Send Zeek what the mesh publishes on topics that begin so. May be repeated.",
)  # fmt: skip
@click.option(
    "--from-zeek", multiple=True, metavar="PREFIX",
    help="Publish in the mesh what Zeek publishes on topics that begin so. May be repeated.",
)  # fmt: skip
@click.option(
    "--zeek-ca", type=INPUT_FILE, metavar="FILE",
    help="Certificates of the authority of a wss:// address. Otherwise those of the system.",
)  # fmt: skip
@click.option(
    "--zeek-certificate", nargs=2, type=INPUT_FILE, metavar="FILE KEY",
    help="The certificate to show there, and its private key.",
)  # fmt: skip
@click.option(
    "--token-file", type=INPUT_FILE, metavar="FILE", help="The bearer token to send there.",
)  # fmt: skip
@mesh_options(listens=True)
def zeek(  # noqa: PLR0913 - one for each option
    url: str,
    to_zeek: tuple[str, ...],
    from_zeek: tuple[str, ...],
    zeek_ca: Path | None,
    zeek_certificate: tuple[Path, Path] | None,
    token_file: Path | None,
    mesh: Mesh,
    output: Output,
) -> None:
    """Join topics of the mesh to the Zeek at URL, until Ctrl-C.

    URL is ws://HOST:PORT, where Zeek serves Broker's JSON messages; its usual port is 27759. While
    it is away, the latest 1,024 messages wait for it. One link is enough: two of them with the same
    topics would send each message in a circle.

    \b
    For example:
      peermesh link zeek ws://127.0.0.1:27759 --from-zeek zeek/ --peer 9999
    """
    if not to_zeek and not from_zeek:
        raise click.UsageError("say which topics: --to-zeek PREFIX, --from-zeek PREFIX")
    options = {
        "to_zeek": to_zeek,
        "from_zeek": from_zeek,
        "tls": _context(zeek_ca, zeek_certificate),
        "token": None if token_file is None else read_token(token_file),
        "allow_plain": mesh.trust.settings().allow_plain,
    }
    run(_live, mesh, url, options, output)


def _context(authority: Path | None, certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
    """Make what verifies a Zeek, and shows it a certificate; raises ``CommandFailed``."""
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except ssl.SSLError as error:
        text = f"the certificates for Zeek cannot be read ({error}): give files in PEM"
        raise CommandFailed(text) from None
    return context


async def _live(mesh: Mesh, url: str, options: dict[str, Any], output: Output) -> None:
    try:
        from peermesh.gateways.websocket.link import ZeekLink
    except ImportError as error:
        text = "this needs WebSocket: pip install 'peermesh[websocket]'"
        raise CommandFailed(text, ExitCode.MISSING) from error

    def tell(event: LinkEvent) -> None:
        match event.kind:
            case "connected":
                text = f"linked to {on_a_line(url)}: endpoint {on_a_line(event.text)}"
            case "disconnected":
                text = f"no link to {on_a_line(url)}: {event.text}; trying again"
            case _:
                text = f"{on_a_line(url)}: {event.text}"
        output.tell(text, event=event.kind, url=url, text=event.text)

    async with mesh.endpoint() as endpoint, trio.open_nursery() as nursery:
        try:
            link = ZeekLink(endpoint, url, notice=tell, **options)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        await stay_joined(endpoint, mesh, nursery, output.tell)
        await link.run()
