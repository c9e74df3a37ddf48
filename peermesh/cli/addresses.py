"""Addresses as people type them: HOST:PORT, HOST, :PORT or PORT; and join tickets."""

from __future__ import annotations

import ipaddress
import sys
from typing import Final

import click

from handshake.ticket import JoinTicket, is_ticket
from peermesh.cli.output import note
from wire.addresses import PORT_MAX, read_port, split_address
from wire.errors import CredentialsError

Address = tuple[str, int]

PORT_DEFAULT: Final = 9999
"""Broker's own: where endpoints listen if no port is named."""

LOOPBACK: Final = "127.0.0.1"
"""The host where only a port is named: what others can reach has to be asked for."""

TEXT_SHOWN_MAX: Final = 80
"""Characters of what is no address that an error repeats: more than the longest one typed."""

TICKET_WARNING: Final = (
    "Others on this machine can see a ticket on a command line (ps): where that matters, use"
    " --peer - and write the ticket to stdin, or PEERMESH_PEER."
)


def read_address(text: str, port: int | None = PORT_DEFAULT) -> Address | None:
    """Read an address; ``port`` is for a host alone. ``None`` if it is no address."""
    if text.isascii() and text.isdigit():
        text = f":{text}"
    if text.startswith(":") and (found := read_port(text[1:])) is not None:
        return LOOPBACK, found
    host, number = text, port
    if text.startswith("[") is not ("]" in text):
        return None
    if not _is_ipv6(text) and ":" in text.rpartition("]")[2]:
        split = split_address(text)
        if split is None:
            return None
        host, number = split
    host = host.removeprefix("[").removesuffix("]")
    if number is None or not (_is_ipv6(host) or _is_name(host)):
        return None
    return host, number


def why_no_address(text: str) -> str:
    """Say what is wrong with what ``read_address`` cannot read, and what to write."""
    shown = text if len(text) <= TEXT_SHOWN_MAX else f"{text[:TEXT_SHOWN_MAX]}…"
    digits = text.rpartition(":")[2]
    if digits.isascii() and digits.isdigit() and read_port(digits) is None:
        return f"{shown!r} is no address: ports go up to {PORT_MAX}"
    return f"{shown!r} is no address: write HOST:PORT, as in 127.0.0.1:9999"


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _is_name(host: str) -> bool:
    """Tell whether it may be the name of a host, or an address of IPv4."""
    return bool(host) and host.isprintable() and not set(host) & set(" /:@[]\"'")


class AddressType(click.ParamType[Address]):
    """An address; a command whose users know another port than the mesh's names it."""

    name = "HOST:PORT"

    def __init__(self, port: int | None = PORT_DEFAULT) -> None:
        """``port`` is what a host alone means; ``None`` wants one to be given."""
        self._port = port

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address:
        """Read an address."""
        if isinstance(value, tuple):
            return value
        address = read_address(str(value), self._port)
        if address is None:
            self.fail(why_no_address(str(value)), param, ctx)
        return address


class PeerType(click.ParamType[Address | JoinTicket]):
    """``HOST:PORT``, or a join ticket, which no error repeats; "-" reads it from stdin."""

    name = "HOST:PORT|TICKET"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address | JoinTicket:
        """Read an address or a ticket."""
        if isinstance(value, (tuple, JoinTicket)):
            return value
        text, is_hidden = str(value), False
        if text == "-":
            text, is_hidden = sys.stdin.readline().strip() if sys.stdin else "", True
        try:
            found = read_peer(text)
        except CredentialsError as error:
            self.fail(str(error), param, ctx)
        if found is None:
            return AddressType().convert(text, param, ctx)
        if isinstance(found, JoinTicket) and not is_hidden:
            note(TICKET_WARNING)
        return found


def read_peer(text: str) -> Address | JoinTicket | None:
    """Read an address or a ticket; raises ``CredentialsError`` for a mistyped ticket."""
    if is_ticket(text) or "peermesh-secret-" in text:
        return JoinTicket.parse(text)
    return read_address(text)
