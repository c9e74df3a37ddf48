"""``peermesh secret`` and ``peermesh ticket``: what lets programs into a mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from peermesh.cli.addresses import Address, AddressType
from peermesh.cli.command import Command, group
from peermesh.cli.output import Output
from peermesh.cli.running import open_input
from peermesh.cli.trust import STDIN, Trust
from wire.addresses import join_address

_SECRET_FILE: Final = click.option(
    "--secret-file", type=click.Path(path_type=Path), metavar="FILE",
    help="The cluster secret. Otherwise PEERMESH_SECRET_FILE names it, or"
    " PEERMESH_SECRET holds it.",
)  # fmt: skip


def _secret(file: Path | None) -> ClusterSecret:
    return Trust.of({"secret_file": file}, None, ()).secret()


@group()
def secret() -> None:
    """Make the secret that lets endpoints into one mesh, or tell which one it is."""


@secret.command("new", cls=Command)
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
def new_secret(file: Path | None, output: Output) -> None:
    """Make a new secret, and write it to stdout, or to a new FILE that only you can read.

    A program that has it is a member of the mesh, with all rights. Hand it to programs as
    PEERMESH_SECRET, or in a file with --secret-file or PEERMESH_SECRET_FILE. The fingerprint is no
    secret: it tells secrets apart.
    """
    made = ClusterSecret.generate()
    fingerprint = made.fingerprint()
    if file is None:
        output.tell(made.text(), fingerprint=fingerprint, secret=made.text())
        return
    made.save(file)
    text = f"wrote a new secret to {file}; its fingerprint is {fingerprint}"
    output.tell(text, fingerprint=fingerprint, file=str(file))


@secret.command("show", cls=Command)
@_SECRET_FILE
def show_secret(secret_file: Path | None, output: Output) -> None:
    """Write the fingerprint of a secret, which is equal where endpoints can peer."""
    fingerprint = _secret(secret_file).fingerprint()
    output.tell(fingerprint, fingerprint=fingerprint)


@group()
def ticket() -> None:
    """Make join tickets: where a mesh is and its secret, in one string for --peer."""


@ticket.command("new", cls=Command)
@click.argument("address", type=AddressType())
@_SECRET_FILE
def new_ticket(address: Address, secret_file: Path | None, output: Output) -> None:
    """Write a ticket that lets its holder join the endpoint at ADDRESS.

    It holds the secret itself: keep it as safe. A shell remembers what was typed, and others on the
    machine see it; for programs there are --secret-file, PEERMESH_SECRET_FILE and PEERMESH_SECRET.
    """
    text = JoinTicket(*address, _secret(secret_file)).text()
    output.tell(text, ticket=text)


@ticket.command("show", cls=Command)
@click.argument("text", metavar="TICKET")
def show_ticket(text: str, output: Output) -> None:
    """Write where TICKET leads, and the fingerprint of its secret; "-" reads it from stdin."""
    found = JoinTicket.parse(open_input().readline() if text == STDIN else text)
    fingerprint = found.secret.fingerprint()
    where = join_address(found.host, found.port)
    output.tell(
        f"{where}, secret with the fingerprint {fingerprint}",
        host=found.host,
        port=found.port,
        fingerprint=fingerprint,
    )
