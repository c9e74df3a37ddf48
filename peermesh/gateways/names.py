"""The names that a gateway answers to, and what a browser says of the page behind a request. Pure.

A page of any site can have its own name lead to a gateway's address, and a browser then asks there
as it asks the site. It can also post across sites. It chooses neither ``Host`` nor ``Origin``: the
browser says in these what the page is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from handshake.exposure import is_loopback

_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


class Names:
    """The names of one gateway: loopback, its address, and those that it was given."""

    def __init__(self, address: str, names: Iterable[str] = ()) -> None:
        """Answer at an address, under further names."""
        self._names = {_plain(each) for each in (address, *names)} - {""}
        self._is_everywhere = address in _EVERY_INTERFACE

    def know(self, host: str, certified: Iterable[str] = ()) -> bool:
        """Tell whether a ``Host``, with or without a port, is one of them, or of the certificate.

        At every interface any address is one: only a name can be made to lead elsewhere.
        """
        name = _plain(_without_port(host))
        if is_loopback(name) or name in self._names:
            return True
        if self._is_everywhere and _is_address(name):
            return True
        return any(_covers(_plain(each), name) for each in certified)

    def are_origin(
        self, origin: str, scheme: str, port: int, certified: Iterable[str] = ()
    ) -> bool:
        """Tell whether an ``Origin`` is the gateway itself, by one of these names.

        Clients that are no browsers say so; a page cannot, as long as the gateway sends none.
        """
        start, _, host = origin.lower().partition("://")
        digits = host.rpartition("]")[2].rpartition(":")[2]
        usual = {"http": 80, "https": 443}[scheme]
        is_port = digits == str(port) if ":" in host.rpartition("]")[2] else port == usual
        return start == scheme and is_port and self.know(host, certified)


def is_own_origin(origin: str | None, scheme: str, host: str) -> bool:
    """Tell whether a request is of no page, or of one that this very gateway has sent."""
    return origin is None or origin.lower() == f"{scheme}://{host}".lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _covers(certified: str, name: str) -> bool:
    """Compare as clients of TLS do: a star stands for one whole label, the first."""
    if certified.startswith("*."):
        return name.partition(".")[2] == certified[2:]
    return name == certified
