"""One simulation: hosts, links, time and chance, all from one seed."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import trio

from peermesh.testing.faults import Direction, LinkFault
from peermesh.testing.simulation.clock import VirtualClock
from peermesh.testing.simulation.host import Host
from peermesh.testing.simulation.network import (
    JITTER_SECONDS,
    LATENCY_SECONDS,
    Network,
)
from peermesh.testing.simulation.schedule import (
    Act,
    Happen,
    Mend,
    Schedule,
    Skew,
    Verb,
    Worsen,
)
from peermesh.testing.simulation.scheduling import Scheduler, Task
from peermesh.testing.simulation.sockets import (
    PROCESS,
    HostnameResolver,
    SocketFactory,
    Wires,
)
from peermesh.testing.simulation.trace import Trace

MAIN = "main"
"""The host where the test itself runs."""


class Link:
    """Both directions between two hosts; the words of ``peermesh.testing.faults`` apply to it."""

    def __init__(self, simulation: Simulation, near: Host, far: Host) -> None:
        """Use ``Simulation.link``."""
        self._simulation = simulation
        self._ends = (near.stack, far.stack)

    async def apply(self, fault: LinkFault, direction: Direction = Direction.BOTH) -> None:
        """Have it get worse in one respect; forth is from the host that was named first."""
        simulation = self._simulation
        simulation.network.apply(simulation.now, self._ends, fault, direction)
        simulation.wires.awaken()
        await trio.lowlevel.checkpoint()

    async def heal(self) -> None:
        """Have it as it was in the beginning."""
        self._simulation.network.heal(self._simulation.now, self._ends)
        self._simulation.wires.awaken()
        await trio.lowlevel.checkpoint()


class Simulation:
    """The world of one run. ``simulate`` gives it to the test's main function."""

    def __init__(
        self,
        seed: int,
        *,
        schedule: Schedule = (),
        latency: float = LATENCY_SECONDS,
        jitter: float = JITTER_SECONDS,
    ) -> None:
        """Draw everything from ``seed``; packets take ``latency`` seconds, give or take."""
        self.seed = seed
        self.schedule = schedule
        """The faults of this run, which ``carry_out`` lets happen."""
        self.trace = Trace()
        self.random = Random(f"{seed}/workload")
        """For the test's own choices."""
        self.network = Network(
            Random(f"{seed}/network"), self.trace.tell, latency=latency, jitter=jitter
        )
        self.scheduler = Scheduler(f"{seed}/schedule", _is_paused, _died)
        self.wires = Wires(self.network, lambda: self.clock.now)
        self.clock = VirtualClock(self.network, self.scheduler, self.wires.awaken)
        self.hosts: dict[str, Host] = {}
        self.nursery: trio.Nursery
        self.host(MAIN)

    @property
    def now(self) -> float:
        """Seconds of virtual time since the beginning: ``trio.current_time()``."""
        return self.clock.now

    def host(self, name: str, address: str | None = None) -> Host:
        """Give the host of a name, and make it if there is none."""
        found = self.hosts.get(name)
        if found is None:
            stack = self.network.add_host(name, address)
            chance = Random(f"{self.seed}/host/{name}")
            found = self.hosts[name] = Host(self, stack, chance)
        return found

    def link(self, near: str | Host, far: str | Host) -> Link:
        """Give the link between two hosts."""
        return Link(self, self._host(near), self._host(far))

    def _host(self, host: str | Host) -> Host:
        if isinstance(host, Host):
            return host
        if host not in self.hosts:
            raise ValueError(f"there is no host {host!r}: make it first, with host({host!r})")
        return self.hosts[host]

    # Faults.

    async def carry_out(self, schedule: Schedule | None = None) -> None:
        """Let faults happen, each at its time from now on: those of this run, unless others.

        Steps that name hosts which are not there yet make them. ``heal`` undoes what is left.
        """
        began = self.now
        for step in self.schedule if schedule is None else schedule:
            await trio.sleep_until(began + step.at)
            await self._act(step.act)

    async def _act(self, act: Act) -> None:
        match act:
            case Happen(verb, host):
                await self._happen(verb, self.host(host))
            case Skew(host, seconds):
                await self.host(host).skew_clock(seconds)
            case Worsen(near, far, fault, direction):
                await self.link(self.host(near), self.host(far)).apply(fault, direction)
            case Mend(near, far):
                await self.link(self.host(near), self.host(far)).heal()

    async def _happen(self, verb: Verb, host: Host) -> None:
        match verb:
            case Verb.KILL:
                await host.kill()
            case Verb.CUT_POWER:
                await host.cut_power()
            case Verb.RESTART:
                await host.restart()
            case Verb.PAUSE:
                await host.pause()
            case Verb.RESUME:
                await host.resume()
            case Verb.FAIL_FSYNC:
                host.disk.fail_fsync()
            case Verb.LIE_FSYNC:
                host.disk.lie_fsync()
            case Verb.FULL:
                host.disk.full()
            case Verb.HEAL_DISK:
                host.disk.heal()

    async def heal(self) -> None:
        """Undo all faults: mend links, disks and clocks, resume, and restart what is down."""
        for host in self.hosts.values():
            host.disk.heal()
            if host.skew_ns:
                await host.skew_clock(0)
            if host.process.is_paused:
                await host.resume()
            if not host.is_up:
                await host.restart()
        for near, far in self.network.worsened():
            await self.link(near, far).heal()

    def note(self, *details: object) -> None:
        """Have the trace show something; the ``repr`` of details has to be the same every time."""
        self.trace.tell(self.now, "note", *details)

    def install(self) -> None:
        """Put the simulated network under the trio that runs now."""
        trio.socket.set_custom_socket_factory(SocketFactory(self.wires))
        trio.socket.set_custom_hostname_resolver(HostnameResolver(self.network))

    def thaw(self) -> None:
        """Let everybody run to an end, those that were killed too."""
        for task_host in self.hosts.values():
            task_host.process.is_paused = False
        self.scheduler.has_frozen = False
        self.scheduler.release()


def _is_paused(task: Task) -> bool:
    process = task.context.get(PROCESS)
    return process is not None and process.is_alive and process.is_paused


def _died(task: Task) -> Collection[trio.CancelScope] | None:
    process = task.context.get(PROCESS)
    return None if process is None or process.is_alive else process.cancelled
