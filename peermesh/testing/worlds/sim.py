"""World ``sim``: nodes are hosts of a simulation, with virtual time and a network of its own.

The test itself has to run in that simulation: the plugin sees to it for tests in trio, and so does
``@pytest.mark.sim``, or ``peermesh.testing.simulation.simulate``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import trio

from endpoint.endpoint import Endpoint
from peermesh.testing.agent.protocol import Met
from peermesh.testing.disks import DiskFault, FailingSync, FailingWrite, LyingSync, SlowSync
from peermesh.testing.faults import Direction, LinkFault, Unsupported
from peermesh.testing.handles import NodeDown
from peermesh.testing.node import Host
from peermesh.testing.simulation import Host as Machine, HostDown, Link, Simulation
from peermesh.testing.simulation.host import Process
from peermesh.testing.simulation.sockets import PROCESS
from peermesh.testing.worlds.local import LocalHost
from peermesh.testing.worlds.world import LinkControl, World

Result = TypeVar("Result")


class SimulatedWorld(World):
    """Nodes are hosts of the simulation that the test runs in."""

    name: ClassVar[str] = "sim"

    def __init__(self, nursery: trio.Nursery, *, seed: int) -> None:
        """Find the simulation; raises ``Unsupported`` outside of one."""
        super().__init__(nursery, seed=seed)
        process = PROCESS.get(None)
        if process is None:
            reason = (
                "it needs an async test, or a main function of simulate(): threads and blocking "
                "calls have no virtual time"
            )
            raise Unsupported(self.name, "run here", reason)
        assert isinstance(process, Process)
        self._simulation: Simulation = process.host.simulation
        self._machines: dict[str, Machine] = {}

    def _machine(self, name: str) -> Machine:
        """Give the host of a node: another one of the same name may be there of another cluster."""
        if name not in self._machines:
            free, number = name, 1
            while free in self._simulation.hosts:
                number += 1
                free = f"{name}-{number}"
            self._machines[name] = self._simulation.host(free)
        return self._machines[name]

    def address(self, name: str) -> str:
        """Give the address of the node's host."""
        return self._machine(name).address

    async def start(
        self, name: str, directory: Path, address: tuple[str, int], settings: Mapping[str, object]
    ) -> tuple[Host, tuple[str, int]]:
        """Start an endpoint as the program of the node's host."""
        machine = self._machine(name)
        if not machine.is_up:
            await machine.restart()
        with machine:
            host = SimulatedHost(machine, Endpoint(**dict[str, Any](settings)), directory)
        await self.nursery.start(host.exist, name=f"node {name}")
        port, _ = await host.call("listen", address, ())
        return host, (address[0], port)

    async def link(
        self, dials: str, listens: str, target: tuple[str, int], *, direct: bool
    ) -> tuple[LinkControl, tuple[str, int]]:
        """Give what is between two hosts anyway."""
        link = self._simulation.link(self._machine(dials), self._machine(listens))
        return SimulatedLink(link), target


class SimulatedHost(LocalHost):
    """One life of a node on a simulated host: all that it does is done by tasks of that host."""

    def __init__(self, machine: Machine, endpoint: Endpoint, directory: Path) -> None:
        """Be started by ``exist``."""
        super().__init__(SimulatedWorld.name, endpoint, directory)
        self._machine = machine

    async def exist(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Have the host live the endpoint's life, to its end or until it is killed."""

        async def live() -> None:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.live)
                task_status.started()

        with suppress(HostDown):
            await self._machine.run(live)

    async def call(self, method: str, arguments: tuple[Any, ...], met: Met) -> tuple[Any, Met]:
        """Have the servant do something; while the host is paused nothing comes back."""

        async def call() -> tuple[Any, Met]:
            return await super(SimulatedHost, self).call(method, arguments, met)

        return await self._run(call)

    async def _run(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Run a function on the host; who does not wait any more has it cancelled there."""
        scope = trio.CancelScope()
        results: list[Result] = []

        async def run() -> None:
            with scope:
                results.append(await function())

        try:
            await self._machine.run(run)
        except HostDown as error:
            raise NodeDown(str(error)) from None
        finally:
            scope.cancel()
        return results[0]

    async def kill(self) -> None:
        """End it as SIGKILL does: no task takes another step, the kernel closes its sockets."""
        self.flight = self.flight.copy()
        await self._machine.kill()
        self._machine.disk.heal()  # As in worlds where the fault is one of the process.

    async def pause(self) -> None:
        """Let no task of the host take another step."""
        await self._machine.pause()

    async def resume(self) -> None:
        """Let its tasks go on."""
        await self._machine.resume()

    async def skew_clock(self, seconds: float) -> None:
        """Set the host's time of day off by so many seconds."""
        await self._machine.skew_clock(seconds)

    async def disturb_disk(self, fault: DiskFault) -> None:
        """Have the host's disk fail; what a lie has not kept is lost when the power is cut."""
        disk = self._machine.disk
        disk.heal()
        match fault:
            case FailingSync():
                disk.fail_fsync()
            case LyingSync():
                disk.lie_fsync()
            case FailingWrite("ENOSPC"):
                disk.full()
            case FailingWrite() | SlowSync():
                reason = "its disk takes no time, and refuses to write only when it is full"
                raise Unsupported(SimulatedWorld.name, fault, reason)

    async def heal_disk(self) -> None:
        """Have the host's disk do again what it says."""
        self._machine.disk.heal()


class SimulatedLink:
    """The faults of one link, each direction of which can be healed alone."""

    def __init__(self, link: Link) -> None:
        """Do to this link what is asked."""
        self._link = link
        self._standing: list[tuple[LinkFault, Direction]] = []

    async def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on."""
        await self._link.apply(fault, direction)
        ways = Direction.FORTH, Direction.BACK
        self._standing += [(fault, way) for way in ways if direction in (way, Direction.BOTH)]

    async def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand; those of the other direction are applied again."""
        self._standing = [
            each for each in self._standing if direction not in (each[1], Direction.BOTH)
        ]
        await self._link.heal()
        for fault, way in self._standing:
            await self._link.apply(fault, way)
