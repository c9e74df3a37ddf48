"""Raises a broker with all that it needs: an endpoint, the embedded registry and its port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from endpoint import arguments
from endpoint.endpoint import Endpoint
from endpoint.port_access import PortAccess
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from handshake.rules import Rules
from peermesh.brokers.edge.access import PORT
from peermesh.brokers.edge.bridge import Bridge, Bridged
from peermesh.brokers.edge.broker import EdgeBroker
from peermesh.brokers.edge.desk import serve_registry
from peermesh.brokers.edge.embedded import EmbeddedTree
from peermesh.brokers.edge.lifecycle import IDLE_SECONDS, Ports
from peermesh.brokers.edge.line import make_network
from peermesh.brokers.edge.ports import ANY_PORT
from peermesh.brokers.edge.registry import Registry

NOTHING_BRIDGED: Final = Bridged()


@dataclass(frozen=True, slots=True)
class Options:
    """How a broker is to be; see ``EdgeBroker`` for the ports."""

    address: str = "127.0.0.1"
    """Where the channels listen, and clients find them."""
    ports: Iterable[int] | None = None
    default_ports: Ports = (ANY_PORT, ANY_PORT)
    registry_host: str | None = None
    """Where the embedded registry listens; ``address`` if ``None``."""
    registry_port: int = ANY_PORT
    idle_seconds: float = IDLE_SECONDS
    bridged: Bridged = NOTHING_BRIDGED
    allow_plain: bool = False
    """Plain TCP beyond the loopback interface, for networks of which you trust everything."""

    def __post_init__(self) -> None:
        """Check the arguments; ``EdgeBroker`` checks the others."""
        arguments.host("address", self.address)
        if self.registry_host is not None:
            arguments.host("registry_host", self.registry_host)
        port = arguments.port("registry_port", self.registry_port, least=ANY_PORT)
        object.__setattr__(self, "registry_port", port)


@dataclass(frozen=True, slots=True)
class Host:
    """A broker that runs, and where clients find its registry."""

    broker: EdgeBroker
    registry: Registry
    registry_address: tuple[str, int] | None
    """``None`` where the registry is somebody else's: ZooKeeper."""


@asynccontextmanager
async def open_edge_broker(
    endpoint: Endpoint | None = None,
    *,
    options: Options | None = None,
    registry: Registry | None = None,
    credentials: Credentials | None = None,
    roles: RolesSource | None = None,
) -> AsyncIterator[Host]:
    """Raise a broker for the block, with all that it needs.

    Without a ``registry`` it brings its own, kept in a store of the ``endpoint``'s mesh: peer with
    another broker's endpoint before, to share its registry. Without an ``endpoint`` it is alone.
    With ``credentials``, else those of the endpoint, clients need some of the same authority.
    Raises ``InsecureAddress`` where plain TCP would be exposed, and ``AddressInUse``.

    ``roles`` say what clients may do, by the names in their certificates; without, those of the
    endpoint. With ``Bridged.to_mesh`` a message also needs its publisher's right in the mesh.
    """
    chosen = options or Options()
    async with AsyncExitStack() as stack:
        if endpoint is None and (registry is None or chosen.bridged != NOTHING_BRIDGED):
            endpoint = await stack.enter_async_context(Endpoint(credentials=credentials))
        if credentials is None and endpoint is not None:
            credentials = endpoint.credentials
        network = make_network(credentials, allow_plain=chosen.allow_plain)
        network.check(chosen.address)
        guard = PortAccess(PORT, Rules(roles), None if endpoint is None else endpoint.loop)
        tree = None
        if registry is None:
            assert endpoint is not None
            tree = await stack.enter_async_context(EmbeddedTree(endpoint))
        nursery = await stack.enter_async_context(trio.open_nursery())
        stack.callback(nursery.cancel_scope.cancel)
        address = None
        if tree is not None:
            at = chosen.address if chosen.registry_host is None else chosen.registry_host
            network.check(at)
            serve = partial(serve_registry, tree, at, chosen.registry_port, network, guard)
            address = (at, await nursery.start(serve))
            registry = tree.session()
        assert registry is not None
        broker = EdgeBroker(
            registry,
            address=chosen.address,
            ports=chosen.ports,
            default_ports=chosen.default_ports,
            idle_seconds=chosen.idle_seconds,
            network=network,
            guard=guard,
            # Where clients find it, one of before may have been found.
            may_be_known=tree is not None and chosen.registry_port != ANY_PORT,
        )
        await stack.enter_async_context(broker)
        if endpoint is not None and chosen.bridged != NOTHING_BRIDGED:
            nursery.start_soon(Bridge(broker, endpoint, chosen.bridged).run)
        yield Host(broker, registry, address)
