"""Makes hosts, runs processes on them, carries their packets, and takes everything away again."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import permutations
from math import inf
from typing import Final

import trio

from net.wakeup import Wakeup
from peermesh.testing.conditions import HEALTHY
from peermesh.testing.faults import Direction, LinkFault, Reset, Unsupported, check
from peermesh.testing.namespaces.probing import probe
from peermesh.testing.namespaces.tun import open_tun, read_packets, write_packet
from peermesh.testing.namespaces.wire import PACKET_SIZE_MAX, Wire
from peermesh.testing.nurseries import open_serving_nursery

WORLD: Final = "network namespaces"

HOSTS_MAX: Final = 100
"""Hosts of one network: each takes some kernel memory, and a device that this process reads."""

_NETWORK: Final = "198.18.0"
"""Addresses that nobody has: for benchmarks of networks (RFC 2544). They exist in the namespaces
alone, so that networks do not meet."""

_NAME: Final = "peermesh-{pid}-{network}-{host}"
_NAME_PATTERN: Final = re.compile(r"^peermesh-(\d+)-\d+-\d+\b", re.M)
_DEVICE: Final = "pm{pid}-{host}"
"""At most 15 characters, in the kernel's count."""

Pair = tuple[str, str]


@dataclass(slots=True)
class Host:
    """A namespace with an address, in which processes run."""

    name: str
    address: str
    namespace: str
    """Its name for ``ip netns``."""
    tun: int = field(repr=False)
    """The file of the other end of its interface."""

    def command(self, *arguments: str) -> list[str]:
        """Give the command that runs this one on the host; it replaces itself with it."""
        return ["ip", "netns", "exec", self.namespace, *arguments]


class HostLink:
    """Both directions between two hosts; ``Direction.FORTH`` is from the one named first."""

    def __init__(self, network: Network, ends: Pair) -> None:
        """Reach a link; ``Network.link`` gives these."""
        self._network = network
        self._ends = ends

    async def apply(self, fault: LinkFault, *, direction: Direction = Direction.BOTH) -> None:
        """Have a fault stand from now on, in place of one of its kind; ``Reset`` strikes at once.

        Raises ``ValueError`` for a fault without sense, and ``Unsupported``.
        """
        check(fault)
        if isinstance(fault, Reset):
            await self._reset(fault, direction)
        else:
            for wire in self._wires(direction):
                wire.change(wire.conditions.with_fault(fault))
        self._network.look_again()
        await trio.lowlevel.checkpoint()

    async def heal(self, *, direction: Direction = Direction.BOTH) -> None:
        """Let no fault stand. What was lost is sent again by TCP, in its own time."""
        for wire in self._wires(direction):
            wire.change(HEALTHY)
        await trio.lowlevel.checkpoint()

    def faults(self, direction: Direction) -> tuple[LinkFault, ...]:
        """Give what stands in a direction; of ``BOTH``, what stands in both."""
        first, *more = (wire.conditions.faults() for wire in self._wires(direction))
        return tuple(fault for fault in first if all(fault in others for others in more))

    def _wires(self, direction: Direction) -> Iterator[Wire]:
        here, there = self._ends
        if direction is not Direction.BACK:
            yield self._network.wire(here, there)
        if direction is not Direction.FORTH:
            yield self._network.wire(there, here)

    async def _reset(self, fault: Reset, direction: Direction) -> None:
        if direction is not Direction.BOTH:
            raise Unsupported(WORLD, fault, "a connection breaks as a whole: Direction.BOTH")
        if fault.after_seconds is not None:
            raise Unsupported(WORLD, fault, "the kernel does not end connections by their age")
        here, there = (self._network.host(name) for name in self._ends)
        for host, other in ((here, there), (there, here)):
            done = await trio.run_process(
                host.command("ss", "--kill", "--tcp", "dst", other.address),
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
            if done.returncode or b"not supported" in done.stderr:
                reason = "ss cannot end connections here (INET_DIAG_DESTROY)"
                raise Unsupported(WORLD, fault, f"{reason}: {done.stderr.decode().strip()}")


class Network:
    """Some hosts, each of which reaches all others. ``open_network`` makes these."""

    def __init__(self, hosts: Iterable[Host], seed: int) -> None:
        """Connect all hosts, carrying nothing yet."""
        chance = random.Random(seed).random
        self._hosts = {host.name: host for host in hosts}
        self._tuns = {host.address: host.tun for host in self._hosts.values()}
        pairs = permutations(self._hosts.values(), 2)
        self._wires = {(here.address, there.address): Wire(chance) for here, there in pairs}
        self._wakeup = Wakeup()

    def host(self, name: str) -> Host:
        """Give a host by its name; raises ``KeyError``."""
        return self._hosts[name]

    def link(self, here: str, there: str) -> HostLink:
        """Give the link between two hosts; raises ``KeyError``."""
        self.wire(here, there)
        return HostLink(self, (here, there))

    def wire(self, here: str, there: str) -> Wire:
        """Give one direction between two hosts, for its counts; raises ``KeyError``."""
        return self._wires[self._hosts[here].address, self._hosts[there].address]

    async def heal(self) -> None:
        """Let no fault stand anywhere."""
        for wire in self._wires.values():
            wire.change(HEALTHY)
        await trio.lowlevel.checkpoint()

    def look_again(self) -> None:
        """Look at what is due: conditions have changed."""
        self._wakeup.wake()

    async def carry(self) -> None:
        """Carry packets until cancelled."""
        async with trio.open_nursery() as nursery:
            for host in self._hosts.values():
                nursery.start_soon(self._read, host)
            nursery.start_soon(self._deliver_late)

    async def _read(self, host: Host) -> None:
        while True:
            await trio.lowlevel.wait_readable(host.tun)
            now = trio.current_time()
            for packet in read_packets(host.tun):
                # Version 4 alone: the hosts have no other address.
                pair = (host.address, ".".join(map(str, packet[16:20])))
                wire = self._wires.get(pair) if packet[0] >> 4 == 4 else None
                if wire is not None:
                    wire.receive(packet, now)
                    self._deliver(pair, wire, now)

    def _deliver(self, pair: Pair, wire: Wire, now: float) -> None:
        for packet in wire.take_due(now):
            write_packet(self._tuns[pair[1]], packet)
        if wire.wake_at() < inf:
            self._wakeup.wake()

    async def _deliver_late(self) -> None:
        while True:
            wake_at = min((wire.wake_at() for wire in self._wires.values()), default=inf)
            with trio.CancelScope(deadline=wake_at):
                await self._wakeup.wait()
            now = trio.current_time()
            for pair, wire in self._wires.items():
                for packet in wire.take_due(now):
                    write_packet(self._tuns[pair[1]], packet)


_opened = 0


@asynccontextmanager
async def open_network(names: Sequence[str], *, seed: int = 0) -> AsyncIterator[Network]:
    """Make a host for each name, all connected. ``seed`` is that of jitter and losses.

    Leaving the block kills what still runs on the hosts, and removes them. What a process that was
    killed has left behind, the next one clears away. Raises ``Unsupported`` with what the machine
    lacks.
    """
    global _opened
    problem = probe()
    if problem is not None:
        raise Unsupported(WORLD, "hosts", problem)
    if not 1 <= len(set(names)) == len(names) <= HOSTS_MAX:
        raise ValueError(f"name between 1 and {HOSTS_MAX} hosts, each differently")
    _opened += 1
    with ExitStack() as stack:
        _remove_orphans()
        hosts = [
            stack.enter_context(_make_host(name, number))
            for number, name in enumerate(names, start=1)
        ]
        network = Network(hosts, seed)
        async with open_serving_nursery() as nursery:
            nursery.start_soon(network.carry)
            yield network


@contextmanager
def _make_host(name: str, number: int) -> Iterator[Host]:
    namespace = _NAME.format(pid=os.getpid(), network=_opened, host=number)
    device = _DEVICE.format(pid=os.getpid(), host=number)
    address = f"{_NETWORK}.{number}"
    _ip("netns", "add", namespace)
    try:
        with open_tun(device) as tun:
            _ip("link", "set", device, "netns", namespace)
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", device)
            _ip("-n", namespace, "link", "set", device, "mtu", str(PACKET_SIZE_MAX), "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
            yield Host(name, address, namespace, tun)
    finally:
        _remove(namespace)


def _remove(namespace: str) -> None:
    """Remove a namespace, with all that runs in it."""
    for pid in _ip("netns", "pids", namespace).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", namespace)


def _remove_orphans() -> None:
    """Remove what was left behind by processes that do not live any more."""
    listed = _ip("netns", "list")
    for found in _NAME_PATTERN.finditer(listed):
        if not os.path.exists(f"/proc/{found[1]}"):
            with suppress(OSError):  # if somebody else removes it at this moment
                _remove(found[0])


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        text = f"ip {' '.join(arguments)} failed: {done.stderr.strip()}"
        raise OSError(text)
    return done.stdout
