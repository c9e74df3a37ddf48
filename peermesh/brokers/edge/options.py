"""How an edge broker is to be: where it listens, and what it shares with the mesh."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from endpoint import arguments
from peermesh.brokers.edge.lifecycle import ANY_PORT, IDLE_SECONDS, Ports


@dataclass(frozen=True, slots=True)
class Bridged:
    """Which topics a broker shares with the mesh, by prefix."""

    to_mesh: tuple[str, ...] = ()
    from_mesh: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """How a broker is to be."""

    address: str = "127.0.0.1"
    """Where the channels listen, and clients find them: it is registered."""
    ports: Iterable[int] | None = None
    """What topics' channels take their two from; without, the system chooses."""
    default_ports: Ports = (ANY_PORT, ANY_PORT)
    """Those of the default channel."""
    registry_host: str | None = None
    """Where the embedded registry listens; ``address`` if ``None``."""
    registry_port: int = ANY_PORT
    idle_seconds: float = IDLE_SECONDS
    """How long a channel without publishers and subscribers stays."""
    bridged: Bridged = Bridged()
    allow_plain: bool = False
    """Plain TCP beyond the loopback interface, for networks of which you trust everything."""

    def __post_init__(self) -> None:
        """Check the arguments, and make numbers of their texts."""
        arguments.host("address", self.address)
        if self.registry_host is not None:
            arguments.host("registry_host", self.registry_host)
        pair = self.default_ports
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"default_ports={pair!r:.80}: give two ports, (4040, 4041)")
        checked = {
            "ports": self.ports and [arguments.port("ports", port) for port in self.ports],
            "default_ports": tuple(
                arguments.port("default_ports", port, least=ANY_PORT) for port in pair
            ),
            "registry_port": arguments.port("registry_port", self.registry_port, least=ANY_PORT),
            "idle_seconds": arguments.seconds("idle_seconds", self.idle_seconds),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
