"""World ``loopback``: endpoints of this process, over real TCP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from endpoint.endpoint import Endpoint
from peermesh.testing.node import Host
from peermesh.testing.worlds.local import LocalHost
from peermesh.testing.worlds.tcp import TcpWorld


class LoopbackWorld(TcpWorld):
    """Endpoints of this process, over real TCP."""

    name: ClassVar[str] = "loopback"

    async def start(
        self, name: str, directory: Path, address: tuple[str, int], settings: Mapping[str, object]
    ) -> tuple[Host, tuple[str, int]]:
        """Start an endpoint in a task of its own."""
        host = LocalHost(self.name, Endpoint(**dict[str, Any](settings)), directory)
        await self.nursery.start(host.live, name=f"node {name}")
        port, _ = await host.call("listen", address, ())
        return host, (address[0], port)
