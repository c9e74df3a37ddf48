"""What it takes to attach any store or log: a right, an entity, and a runner that is at work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from endpoint.replicas.guarding import GroupGuarding, Guarding
from endpoint.replicas.hosting import AttachingHost, check_open
from endpoint.replicas.parts import Part
from endpoint.replicas.runner import Runner
from endpoint.surroundings import Surroundings
from wire.identifiers import EntityId


class RunPart(Part, Protocol):
    """A part that knows the runner that it is for."""

    runner: Runner


class Attachment:
    """The stores of one endpoint, or its logs."""

    def __init__(self, host: AttachingHost, around: Surroundings, first_object: int) -> None:
        """Attach to ``host``; entities are numbered from ``first_object`` on."""
        self.host = host
        self._around = around
        self._object = first_object

    def guarding(self, name: str) -> Guarding:
        """Give the roles of the mesh, applied to a store or log."""
        return Guarding(self.host.core, name)

    def entity(self) -> EntityId:
        """Name a new core."""
        self._object += 1
        return EntityId(self.host.core.local, self._object - 1)

    def now_ns(self) -> int:
        """Read the clock."""
        return self._around.now_ns()

    def run(
        self, name: str, part: RunPart, guarding: GroupGuarding
    ) -> Callable[[], Awaitable[None]]:
        """Have a runner work for a part, as its ``runner``; gives what closes it."""
        check_open(self.host)
        part.runner = runner = Runner(self.host, part, name=name, now_ns=self._around.now_ns)
        runner.guarding = guarding
        runner.home = self.host
        runner.start()

        async def close() -> None:
            await self.host.close_store(runner.hears)

        return close
