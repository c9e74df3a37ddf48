"""World ``netns``: each node is a process in a network namespace with an address of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import trio

from peermesh.testing.agent.client import spawn
from peermesh.testing.faults import Unsupported
from peermesh.testing.namespaces import Network, open_network, probe
from peermesh.testing.node import Host
from peermesh.testing.worlds.world import LinkControl, World


class NamespaceWorld(World):
    """Each node is a process on a host of its own; what it sends are packets that get lost."""

    name: ClassVar[str] = "netns"
    _network: Network

    @classmethod
    def problem(cls) -> str | None:
        """Say what is missing: Linux, root, the program ``ip``, or devices."""
        return probe()

    async def prepare(self, names: Sequence[str]) -> None:
        """Make a host for each node."""
        self._network = await self.nursery.start(self._carry, names, name="network")

    async def _carry(self, names: Sequence[str], *, task_status: trio.TaskStatus[Network]) -> None:
        async with open_network(names, seed=self.seed) as network:
            task_status.started(network)
            await self.closing.wait()

    def address(self, name: str) -> str:
        """Give the address of the node's host."""
        try:
            return self._network.host(name).address
        except KeyError:
            reason = "its hosts are made when the cluster is opened: name all nodes then"
            raise Unsupported(self.name, f"add node {name}", reason) from None

    async def start(
        self, name: str, directory: Path, address: tuple[str, int], settings: Mapping[str, object]
    ) -> tuple[Host, tuple[str, int]]:
        """Start an agent on the node's host."""
        # Plain TCP beyond loopback: nobody is on this network but the cluster.
        options = {"allow_plain": True, **settings}
        host = spawn(directory, options, self._network.host(name).command)
        await self.nursery.start(host.live, name=f"node {name}")
        port, _ = await host.call("listen", address, ())
        return host, (address[0], port)

    async def link(
        self, dials: str, listens: str, target: tuple[str, int], *, direct: bool
    ) -> tuple[LinkControl, tuple[str, int]]:
        """Give what is between two hosts anyway."""
        return self._network.link(dials, listens), target
