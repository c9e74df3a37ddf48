"""Processes on hosts of their own, and the kernel's own network between them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from peermesh.testing.faults import (
    Delay,
    Direction,
    Duplication,
    Loss,
    Partition,
    Reset,
    Unsupported,
)
from peermesh.testing.namespaces import network as network_module, open_network, probe

pytestmark = pytest.mark.skipif(probe() is not None, reason=str(probe()))

DATAGRAMS = """
import socket, sys, threading
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 9000))
print("ready", flush=True)
def hear():
    while True:
        print(sock.recv(100).decode(), flush=True)
threading.Thread(target=hear, daemon=True).start()
for line in sys.stdin:
    address, text = line.split()
    sock.sendto(text.encode(), (address, 9000))
"""

STREAM = """
import socket, sys
if len(sys.argv) == 1:
    server = socket.create_server(("0.0.0.0", 9000))
    print("ready", flush=True)
    sock, _ = server.accept()
else:
    sock = socket.create_connection((sys.argv[1], 9000))
print("connected", flush=True)
try:
    print(sock.recv(1), flush=True)
except OSError as error:
    print(type(error).__name__, flush=True)
"""


class Talker:
    """A process on a host, heard line by line."""

    def __init__(self, process):
        self._process = process
        self._heard = b""

    async def say(self, *words):
        await self._process.stdin.send_all(" ".join(words).encode() + b"\n")

    async def hear(self):
        while b"\n" not in self._heard:
            part = await self._process.stdout.receive_some()
            assert part, "it ended"
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


@asynccontextmanager
async def talkers(network, program, *hosts_and_arguments):
    """Start a program on each host, one after the other."""
    async with trio.open_nursery() as nursery:
        started = []
        for name, *arguments in hosts_and_arguments:
            command = network.host(name).command(sys.executable, "-c", program, *arguments)
            pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
            process = await nursery.start(partial(trio.run_process, command, check=False, **pipes))
            started.append(Talker(process))
            await started[-1].hear()
        yield started
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def three(**options):
    """Three hosts, and on each a process that talks to the others."""
    async with open_network(["a", "b", "c"], **options) as network:
        async with talkers(network, DATAGRAMS, ["a"], ["b"], ["c"]) as (a, b, c):
            yield network, a, b, c


A, B, C = "198.18.0.1", "198.18.0.2", "198.18.0.3"


async def test_a_one_way_partition_cuts_one_way_between_two_hosts():
    async with three() as (network, a, b, c):
        await network.link("a", "b").apply(Partition(), direction=Direction.FORTH)
        await a.say(B, "lost")
        await a.say(C, "around")
        assert await c.hear() == "around"
        await b.say(A, "back")
        assert await a.hear() == "back"
        assert network.wire("a", "b").dropped == 1
        await network.link("b", "a").heal(direction=Direction.BACK)
        await a.say(B, "healed")
        assert await b.hear() == "healed"


async def test_packets_are_lost_doubled_and_delayed():
    async with three(seed=5) as (network, a, b, c):
        link = network.link("a", "b")
        await link.apply(Loss(0.5))
        for number in range(100):
            await a.say(B, str(number))
        await a.say(C, "done")  # When this has arrived, all before it has left.
        assert await c.hear() == "done"
        await network.heal()
        await a.say(B, "end")
        arrived = [await b.hear()]
        while arrived[-1] != "end":
            arrived.append(await b.hear())
        assert 25 < len(arrived) < 75
        assert len(arrived) == network.wire("a", "b").passed

        await link.apply(Duplication(1), direction=Direction.FORTH)
        await a.say(B, "twice")
        assert [await b.hear(), await b.hear()] == ["twice", "twice"]

        await network.heal()
        await link.apply(Delay(60), direction=Direction.FORTH)
        assert link.faults(Direction.FORTH) == (Delay(60),)
        assert link.faults(Direction.BOTH) == ()
        await a.say(B, "late")
        await a.say(C, "done")
        assert await c.hear() == "done"
        await link.heal()
        await a.say(B, "early")
        assert await b.hear() == "early"


async def test_a_delayed_packet_arrives_in_its_time():
    async with three() as (network, a, b, _):
        await network.link("a", "b").apply(Delay(0.1))
        began = trio.current_time()
        await a.say(B, "x")
        assert await b.hear() == "x"
        assert trio.current_time() - began >= 0.1


async def test_a_reset_breaks_the_connections_between_two_hosts():
    async with open_network(["a", "b"]) as network:
        link = network.link("a", "b")
        async with talkers(network, STREAM, ["b"], ["a", B]) as (server, client):
            assert await server.hear() == "connected"
            try:
                await link.apply(Reset())
            except Unsupported as unsupported:
                pytest.skip(str(unsupported))
            ends = {await server.hear(), await client.hear()}
            assert ends <= {"ConnectionResetError", "ConnectionAbortedError"}
        for unsupported in (Reset(after_seconds=1), Reset()):
            with pytest.raises(Unsupported, match="network namespaces cannot do Reset"):
                await link.apply(unsupported, direction=Direction.FORTH)


async def listed():
    return (await trio.run_process(["ip", "netns"], capture_stdout=True)).stdout.decode()


async def test_nothing_is_left_behind_not_even_after_an_error():
    with pytest.raises(KeyError, match="mine"):  # noqa: PT012 - it is the block that is tested
        async with open_network(["a"]) as network:
            host = network.host("a")
            assert host.namespace in await listed()
            command = host.command(sys.executable, "-c", "print(flush=True); input()")
            pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
            process = await trio.lowlevel.open_process(command, **pipes)
            await process.stdout.receive_some(1)
            raise KeyError("mine")
    assert await process.wait() == -9
    await process.stdin.aclose()
    await process.stdout.aclose()
    assert host.namespace not in await listed()


async def test_what_a_killed_process_has_left_behind_is_cleared_away():
    gone = await trio.lowlevel.open_process([sys.executable, "-c", ""])
    await gone.wait()
    orphan = f"peermesh-{gone.pid}-1-1"
    await trio.run_process(["ip", "netns", "add", orphan])
    async with open_network(["a"]):
        assert orphan not in await listed()


async def test_a_machine_that_cannot_says_what_it_lacks(monkeypatch):
    monkeypatch.setattr(network_module, "probe", lambda: "network namespaces need root")
    with pytest.raises(Unsupported, match="need root"):
        async with open_network(["a"]):
            pass


@pytest.mark.parametrize("names", [[], ["a", "a"], [str(number) for number in range(101)]])
async def test_hosts_have_names_of_their_own(names):
    with pytest.raises(ValueError, match="each differently"):
        async with open_network(names):
            pass


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (lambda patch, _: patch.setattr("sys.platform", "darwin"), "Linux"),
        (lambda patch, _: patch.setattr("os.geteuid", lambda: 1000), "root"),
        (lambda patch, _: patch.setenv("PATH", ""), "iproute2"),
        (
            lambda patch, path: patch.setattr(
                "peermesh.testing.namespaces.probing.TUN", Path(path, "tun")
            ),
            "kernel module tun",
        ),
    ],
)
def test_the_probe_names_what_is_missing(monkeypatch, tmp_path, break_it, text):
    break_it(monkeypatch, tmp_path)
    assert text in probe.__wrapped__()
