"""World ``process``: each node is a process of its own, over real TCP on loopback."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from peermesh.testing.agent.client import spawn
from peermesh.testing.node import Host
from peermesh.testing.worlds.tcp import TcpWorld


class ProcessWorld(TcpWorld):
    """Each node is a process: killed, stopped and given another time of day for real."""

    name: ClassVar[str] = "process"

    @classmethod
    def problem(cls) -> str | None:
        """Say what is missing: agents are given their socket as POSIX does it."""
        return None if os.name == "posix" else "it needs a POSIX system"

    async def start(
        self, name: str, directory: Path, address: tuple[str, int], settings: Mapping[str, object]
    ) -> tuple[Host, tuple[str, int]]:
        """Start an agent."""
        host = spawn(directory, settings)
        await self.nursery.start(host.live, name=f"node {name}")
        port, _ = await host.call("listen", address, ())
        return host, (address[0], port)
