"""Where a registry is, said without opening it: for clients that open one of their own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from endpoint import arguments
from handshake.credentials import Credentials
from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.remote import RemoteRegistry, check_address


class Where:
    """Where the registry is: ``Where(("host", port))``, or ``Where(zookeeper="host:2181")``."""

    def __init__(
        self,
        *addresses: tuple[str, int],
        zookeeper: str | None = None,
        credentials: Credentials | None = None,
        allow_plain: bool = False,
    ) -> None:
        """Name the registry ports of one or more brokers, or the hosts of ZooKeeper.

        ``credentials`` are for the registry, and for the channels that it leads to.
        """
        self._addresses = tuple(check_address(address) for address in addresses)
        self._zookeeper = None if zookeeper is None else arguments.text("zookeeper", zookeeper)
        self.credentials = credentials
        self.allow_plain = allow_plain

    def registry(self) -> AbstractAsyncContextManager[Registry]:
        """Give the registry, to be entered; raises ``RegistryError`` if no place was named."""
        if self._zookeeper is None:
            return RemoteRegistry(
                self._addresses, credentials=self.credentials, allow_plain=self.allow_plain
            )
        from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry

        return ZooKeeperRegistry(self._zookeeper)


def check_where(name: str, value: object) -> Where:
    """Give an argument back if it says where a registry is; raises ``TypeError``."""
    if not isinstance(value, Where):
        raise TypeError(f"{name}={value!r:.80} is {type(value).__name__}: give a Where")
    return value
