"""Where an endpoint listens, as text: ``HOST:PORT``, where an IPv6 host is in brackets."""

from __future__ import annotations

from typing import Final

PORT_MAX: Final = 65_535

_PORT_DIGITS: Final = len(str(PORT_MAX))
"""More are refused before they are counted: Python refuses to read thousands of them at all."""


def read_port(text: str) -> int | None:
    """Read the number of a port, which may be 0; ``None`` if it is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= _PORT_DIGITS):
        return None
    port = int(text)
    return port if port <= PORT_MAX else None


def split_address(text: str) -> tuple[str, int] | None:
    """Split into host and port; ``None`` if one is missing. The host is not looked at closer."""
    host, _, digits = text.rpartition(":")
    port = read_port(digits)
    if not host or port is None:
        return None
    return host.removeprefix("[").removesuffix("]"), port


def join_address(host: str, port: int) -> str:
    """Write what ``split_address`` reads."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
