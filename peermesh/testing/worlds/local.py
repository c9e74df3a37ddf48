"""Nodes as endpoints of this process, each in its task: for worlds ``loopback`` and ``sim``.

Killing one breaks its connections without a word, drops what it had not sent, and lets its tasks
end. What only a dying process does, such as losing a write half done, takes world ``process``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from endpoint.endpoint import Endpoint
from endpoint.flight import FlightRecorder
from peermesh.testing.agent.protocol import Met
from peermesh.testing.agent.servant import Servant
from peermesh.testing.disks import DiskFault
from peermesh.testing.faults import Unsupported
from peermesh.testing.view import View
from wire.errors import EndpointClosed
from wire.identifiers import EndpointId


class LocalHost:
    """One life of a node in this process."""

    def __init__(self, world: str, endpoint: Endpoint, directory: Path) -> None:
        """Be started by ``live``."""
        self.node_id: EndpointId = endpoint.node_id()
        self.flight: FlightRecorder = endpoint.loop.flight
        self.clock_offset = 0.0
        self.endpoint: Endpoint | None = endpoint
        self._running = endpoint
        self._world = world
        self._servant = Servant(endpoint, directory)
        self._closing = trio.Event()
        self._ended = trio.Event()

    async def live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be the task in which the endpoint is entered and left."""
        try:
            async with self._running:
                task_status.started()
                await self._closing.wait()
        finally:
            self._ended.set()

    async def call(self, method: str, arguments: tuple[Any, ...], met: Met) -> tuple[Any, Met]:
        """Have the servant do something."""
        if self._closing.is_set():
            raise EndpointClosed("the node has ended")
        self.flight.meet(dict(met))
        value = await self._servant.call(method, *arguments)
        return value, ((self.flight.node, self.flight.number),)

    async def view(self) -> View:
        """Give what the endpoint sees."""
        return self._servant.see()

    def see(self) -> View | None:
        """Give what the endpoint sees."""
        return self._servant.see()

    async def kill(self) -> None:
        """Break everything off; nobody is told."""
        self.flight = self.flight.copy()  # The dead tell nothing more.
        self._running.loop.abort()
        await self._running.shutdown(grace=0.0)
        await self.close()

    async def close(self) -> None:
        """End in order."""
        self._closing.set()
        await self._ended.wait()

    async def pause(self) -> None:
        """Raise ``Unsupported``: the tasks of one process stop together."""
        raise self._unsupported("pause")

    async def resume(self) -> None:
        """Raise ``Unsupported``."""
        raise self._unsupported("resume")

    async def skew_clock(self, seconds: float) -> None:
        """Raise ``Unsupported``: one process has one time of day."""
        raise self._unsupported("skew_clock")

    async def disturb_disk(self, fault: DiskFault) -> None:
        """Raise ``Unsupported``: calls are caught for a whole process."""
        raise self._unsupported(str(fault))

    async def heal_disk(self) -> None:
        """Do nothing: there is nothing to heal."""

    def _unsupported(self, what: str) -> Unsupported:
        reason = "its nodes share one process, one scheduler and one time of day; use world process"
        return Unsupported(self._world, what, reason)
