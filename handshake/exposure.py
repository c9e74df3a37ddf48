"""Where plain TCP may be: the one rule that every listener and every dialler asks (design 5). Pure.

Loopback may be plain. Anything else needs credentials, or has to be allowed by name.
"""

from __future__ import annotations

import ipaddress
from enum import Enum

from wire.errors import InsecureAddress


class Protection(Enum):
    """How the connections at an address are protected."""

    PLAIN = "plain"
    TLS = "tls"


def decide_protection(
    host: str, *, has_credentials: bool, allow_plain: bool, stakes: str = "read and write the mesh"
) -> Protection:
    """Say how to listen or dial there; raises ``InsecureAddress`` where plain TCP is exposed.

    Credentials are used wherever there are any, loopback included. ``stakes`` completes what the
    error says: that anybody on the network could do it. Names other than ``localhost`` are not
    resolved: what they mean now and what they mean when we connect need not be the same.
    """
    if has_credentials:
        return Protection.TLS
    if allow_plain or is_loopback(host):
        return Protection.PLAIN
    raise InsecureAddress(
        f"plain TCP at {host or 'all interfaces'} would let anybody on the network {stakes}: give"
        " credentials (Endpoint(secret=...), credentials=Credentials.from_secret(...) or from_files"
        "(...); commands take --secret-file, --certificate,"
        " PEERMESH_SECRET_FILE or PEERMESH_SECRET), use 127.0.0.1, or"
        " say allow_plain=True (--allow-plain) if you trust everything on that network"
    )


def check_plain(host: str, *, allow_plain: bool, stakes: str) -> None:
    """Refuse exposure by what has no TLS of its own; raises ``InsecureAddress``."""
    if not (allow_plain or is_loopback(host)):
        raise InsecureAddress(
            f"at {host or 'all interfaces'} anybody on the network could {stakes}: use 127.0.0.1,"
            " or say allow_plain=True (--allow-plain) if you trust everything on that network"
        )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address; an empty one means every interface."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
