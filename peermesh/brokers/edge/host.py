"""Raises a broker with all that it needs: an endpoint, the embedded registry and its port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import trio

from endpoint.endpoint import Endpoint
from endpoint.port_access import PortAccess
from handshake.credentials import Credentials
from handshake.keyfiles import RolesSource
from handshake.rules import Rules
from peermesh.brokers.edge.access import PORT
from peermesh.brokers.edge.bridge import Bridge
from peermesh.brokers.edge.broker import EdgeBroker
from peermesh.brokers.edge.desk import serve_registry
from peermesh.brokers.edge.embedded import EmbeddedTree
from peermesh.brokers.edge.lifecycle import ANY_PORT
from peermesh.brokers.edge.line import make_network
from peermesh.brokers.edge.opened import Opened
from peermesh.brokers.edge.options import Bridged, Options
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.statistics import BrokerStatistics
from peermesh.brokers.edge.where import Where, check_where


@dataclass(frozen=True, slots=True)
class Host:
    """A broker that runs, and where clients find its registry."""

    broker: EdgeBroker
    registry: Registry
    registry_address: tuple[str, int] | None
    """``None`` where the registry is somebody else's: ZooKeeper."""


class Broker(Opened):
    """A broker that is alone, and runs from the moment that it is opened."""

    def __init__(
        self,
        options: Options | None = None,
        *,
        where: Where | None = None,
        credentials: Credentials | None = None,
        roles: RolesSource | None = None,
    ) -> None:
        """Bring a registry; with ``where``, use that one, and its credentials without others.

        ``roles`` say what clients may do, by the names in their certificates.
        """
        self._options = options or Options()
        self._where = None if where is None else check_where("where", where)
        if where is not None and credentials is None:
            credentials = where.credentials
        self._credentials = credentials
        self._roles = roles
        self._host: Host

    async def _live(self) -> AsyncIterator[None]:
        place = nullcontext() if self._where is None else self._where.registry()
        async with (
            place as registry,
            open_edge_broker(
                options=self._options,
                registry=registry,
                credentials=self._credentials,
                roles=self._roles,
            ) as self._host,
        ):
            yield

    @property
    def registry(self) -> Where:
        """Where its clients find the registry."""
        if self._where is not None:
            return self._where
        address, allow_plain = self._host.registry_address, self._options.allow_plain
        assert address is not None, "it brings the registry"
        return Where(address, credentials=self._credentials, allow_plain=allow_plain)

    async def active(self) -> None:
        """Wait until this broker serves, rather than stands by."""
        await self._host.broker.active()

    def statistics(self) -> BrokerStatistics:
        """Count what there is."""
        return self._host.broker.statistics()


@asynccontextmanager
async def open_edge_broker(
    endpoint: Endpoint | None = None,
    *,
    options: Options | None = None,
    registry: Registry | None = None,
    credentials: Credentials | None = None,
    roles: RolesSource | None = None,
    voters: Sequence[str] = (),
) -> AsyncIterator[Host]:
    """Raise a broker for the block, with all that it needs.

    Without a ``registry`` it brings its own, kept in a store of the ``endpoint``'s mesh: peer with
    another broker's endpoint before, to share its registry. Without an ``endpoint`` it is alone.
    With ``credentials``, else those of the endpoint, clients need some of the same authority.
    Raises ``InsecureAddress`` where plain TCP would be exposed, and ``AddressInUse``.

    ``roles`` say what clients may do, by the names in their certificates; without, those of the
    endpoint. With ``Bridged.to_mesh`` a message also needs its publisher's right in the mesh.

    With ``voters``, the names of the endpoints of three brokers, the same at each of them, these
    keep the registry together and elect who leads it: it begins once all are there, and goes on
    while two are. Raises ``ValueError`` for them together with a ``registry``.
    """
    if voters and (registry is not None or endpoint is None or isinstance(voters, (str, int))):
        raise ValueError(f"voters={voters!r}: give names, an endpoint, and no registry")
    chosen = options or Options()
    async with AsyncExitStack() as stack:
        if endpoint is None and (registry is None or chosen.bridged != Bridged()):
            endpoint = await stack.enter_async_context(Endpoint(credentials=credentials))
        if credentials is None and endpoint is not None:
            credentials = endpoint.credentials
        network = make_network(credentials, allow_plain=chosen.allow_plain)
        network.check(chosen.address)
        guard = PortAccess(PORT, Rules(roles), None if endpoint is None else endpoint.loop)
        tree = None
        if registry is None:
            assert endpoint is not None
            tree = await stack.enter_async_context(EmbeddedTree(endpoint, voters))
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
            chosen,
            network=network,
            guard=guard,
            # Where clients find it, one of before may have been found.
            may_be_known=tree is not None and chosen.registry_port != ANY_PORT,
        )
        await stack.enter_async_context(broker)
        if endpoint is not None and chosen.bridged != Bridged():
            nursery.start_soon(Bridge(broker, endpoint, chosen.bridged).run)
        yield Host(broker, registry, address)
