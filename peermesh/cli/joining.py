"""``peermesh secret`` and ``peermesh ticket``: what lets people and programs into a mesh."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from handshake.secret import ClusterSecret
from handshake.ticket import JoinTicket
from peermesh.cli.trust import Address, AddressType, Trust
from wire.addresses import join_address

_SECRET_FILE: Final = click.option(
    "--secret-file", type=click.Path(path_type=Path), metavar="FILE",
    help="The cluster secret. Otherwise it is taken from PEERMESH_SECRET.",
)  # fmt: skip
_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")


def _secret(file: Path | None) -> ClusterSecret:
    return Trust({} if file is None else {"secret_file": file}, None).secret()


def _say(found: dict[str, Any], text: str, *, as_json: bool) -> None:
    click.echo(json.dumps(found) if as_json else text)


@click.group()
def secret() -> None:
    """Make the secret that lets endpoints into one mesh, or tell which one it is."""


@secret.command("new")
@click.argument("file", required=False, type=click.Path(path_type=Path), metavar="[FILE]")
@_JSON
def new_secret(file: Path | None, *, as_json: bool) -> None:
    """Make a new secret, and write it to stdout, or to a new FILE that only you can read.

    Whoever has it is a member of the mesh, with all rights. Hand it to programs as PEERMESH_SECRET
    or with --secret-file. The fingerprint may be seen by everybody: it tells secrets apart.
    """
    made = ClusterSecret.generate()
    found: dict[str, Any] = {"fingerprint": made.fingerprint()}
    if file is None:
        _say({**found, "secret": made.text()}, made.text(), as_json=as_json)
        return
    made.save(file)
    text = f"wrote a new secret to {file}; its fingerprint is {made.fingerprint()}"
    _say({**found, "file": str(file)}, text, as_json=as_json)


@secret.command("show")
@_SECRET_FILE
@_JSON
def show_secret(secret_file: Path | None, *, as_json: bool) -> None:
    """Write the fingerprint of a secret, which is equal where endpoints can peer."""
    fingerprint = _secret(secret_file).fingerprint()
    _say({"fingerprint": fingerprint}, fingerprint, as_json=as_json)


@click.group()
def ticket() -> None:
    """Make join tickets: where a mesh is and its secret, in one string for --peer."""


@ticket.command("new")
@click.argument("address", type=AddressType())
@_SECRET_FILE
@_JSON
def new_ticket(address: Address, secret_file: Path | None, *, as_json: bool) -> None:
    """Write a ticket that lets its holder join the endpoint at ADDRESS.

    It holds the secret itself: keep it as safe. A shell remembers what was typed, and others on the
    machine see it; for programs there are PEERMESH_SECRET and --secret-file.
    """
    text = JoinTicket(*address, _secret(secret_file)).text()
    _say({"ticket": text}, text, as_json=as_json)


@ticket.command("show")
@click.argument("text", metavar="TICKET")
@_JSON
def show_ticket(text: str, *, as_json: bool) -> None:
    """Write where TICKET leads, and the fingerprint of its secret; "-" reads it from stdin."""
    found = JoinTicket.parse(sys.stdin.readline() if text == "-" else text)
    fingerprint = found.secret.fingerprint()
    shown = {"host": found.host, "port": found.port, "fingerprint": fingerprint}
    where = join_address(found.host, found.port)
    _say(shown, f"{where}, secret with the fingerprint {fingerprint}", as_json=as_json)
