"""Brokers in processes that are killed or stopped, round after round, under live clients.

``python -m tests.peermesh.brokers.edge.rounds --registry zookeeper --end kill --rounds 50`` says
what became of every message. Two publishers and two subscribers live all the time, and a client
that is written from the words of the seed finds the broker before and after each round, and gets
what it publishes. ``--end zookeeper`` kills the ZooKeeper server instead of the broker, and starts
it again.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from endpoint.pubsub.messages import MISSED_TOPIC
from peermesh.brokers.edge import Publisher, Registry, RemoteRegistry, Subscriber
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.edge.seed_client import seed_exchange, zookeeper_reader
from tests.peermesh.brokers.edge.zookeepers import ZooKeeper, jars
from tests.ports import free_port

TOPIC: Final = "weather"
AHEAD_MAX: Final = 500
"""Messages that a publisher is ahead of the slowest subscriber: they wait for the next broker."""
ROUND_MESSAGES: Final = 300
"""Messages of each publisher that come after a change of broker before the next one."""
SESSION_SECONDS: Final = 2.0
WRONG: Final = ("lost", "doubled", "disordered", "missed")
ENDS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGINT}
"""Ends of a broker."""
ZOOKEEPER: Final = "zookeeper"
"""The registry that is a server, and the end of that server."""

BROKER: Final = """
import json, signal, sys, trio
from contextlib import AsyncExitStack
from peermesh import Endpoint
from peermesh.brokers.edge import Options, open_edge_broker

async def main(zookeeper, registry_port, peer):
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(Endpoint())
        port = await endpoint.listen()
        registry = None
        if zookeeper is not None:
            from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry
            registry = ZooKeeperRegistry(zookeeper, session_seconds=2.0)
            await stack.enter_async_context(registry)
        if peer is not None:
            assert await endpoint.peer("127.0.0.1", peer, timeout=60)
        options = Options(registry_port=registry_port)
        await stack.enter_async_context(
            open_edge_broker(endpoint, options=options, registry=registry)
        )
        print(port, flush=True)
        await trio.sleep_forever()

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell may have it ignored.
try:
    trio.run(main, *json.loads(sys.argv[1]))
except* KeyboardInterrupt:
    pass
"""


@dataclass
class Broker:
    """A broker in a process of its own."""

    process: subprocess.Popen[str]
    mesh_port: int

    def end(self, how: str) -> None:
        """Kill it, or ask it to stop; wait for its end."""
        self.process.send_signal(ENDS[how])
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def start(zookeeper: str | None, registry_port: int, peer: int | None) -> Broker:
    """Start a broker, and wait until it serves or stands by."""

    def run() -> Broker:
        said = json.dumps([zookeeper, registry_port, peer])
        command = [sys.executable, "-c", BROKER, said]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return Broker(process, int(process.stdout.readline()))

    return await trio.to_thread.run_sync(run)


# The clients, and what they got.


@dataclass
class Tally:
    """What one subscriber got."""

    got: dict[str, list[int]] = field(default_factory=dict)
    missed: int = 0

    def count(self, name: str) -> int:
        """Count a publisher's messages."""
        return len(self.got.get(name, ()))


class Clients:
    """Two publishers, which never stop, and two subscribers."""

    def __init__(self) -> None:
        self.sent = {"p": 0, "q": 0}
        self.tallies = [Tally(), Tally()]
        self.changed = trio.lowlevel.ParkingLot()
        self.is_over = False
        self.publishing = len(self.sent)

    async def publish(self, publisher: Publisher, name: str) -> None:
        """Send numbers, no further ahead than allowed."""
        while not self.is_over:
            if self.sent[name] - min(each.count(name) for each in self.tallies) >= AHEAD_MAX:
                await self.changed.park()
                continue
            await publisher.send(TOPIC, [name, self.sent[name]])
            self.sent[name] += 1
        assert await publisher.flush(limit(60))
        self.publishing -= 1
        self.changed.unpark_all()

    async def read(self, subscriber: Subscriber, tally: Tally) -> None:
        """Read for ever."""
        while True:
            topic, data = await subscriber.get()
            if topic == MISSED_TOPIC:
                tally.missed += data.count  # type: ignore[union-attr]  # of that topic
            else:
                name, number = data  # type: ignore[misc]  # as it was sent
                tally.got.setdefault(str(name), []).append(int(number))  # type: ignore[call-overload]  # as it was sent
            self.changed.unpark_all()

    async def more(self, count: int) -> None:
        """Wait until every subscriber has so many more of each publisher."""
        wanted = {name: sent + count for name, sent in self.sent.items()}
        while any(each.count(n) < wanted[n] for each in self.tallies for n in wanted):
            await self.changed.park()

    async def end(self) -> None:
        """Stop publishing, and wait until all has come."""
        self.is_over = True
        self.changed.unpark_all()
        while self.publishing or any(
            each.count(name) < sent for each in self.tallies for name, sent in self.sent.items()
        ):
            await self.changed.park()

    def verdict(self, seeds: int) -> dict[str, int]:
        """Say what was lost, doubled, disordered, and told to be missed."""
        found = dict.fromkeys(("messages", *WRONG), 0)
        for tally in self.tallies:
            for name, sent in {**self.sent, "seed": seeds}.items():
                got = tally.got.get(name, [])
                found["messages"] += sent
                found["lost"] += sent - len(set(got))
                found["doubled"] += len(got) - len(set(got))
                found["disordered"] += got != sorted(got)
            found["missed"] += tally.missed
        return found


@asynccontextmanager
async def place(kind: str) -> AsyncIterator[tuple[ZooKeeper | None, list[int]]]:
    """Give a ZooKeeper, if one is wanted, and two registry ports."""
    if kind != ZOOKEEPER:
        yield None, [free_port(), free_port()]
        return
    with TemporaryDirectory() as folder:
        server = ZooKeeper(Path(folder), jars())
        await trio.to_thread.run_sync(server.start)
        try:
            yield server, [0, 0]
        finally:
            server.kill()


@asynccontextmanager
async def registry(zookeeper: str | None, ports: list[int]) -> AsyncIterator[Registry]:
    """Open a client's registry."""
    if zookeeper is None:
        async with RemoteRegistry([("127.0.0.1", port) for port in ports]) as remote:
            yield remote
        return
    from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry

    async with ZooKeeperRegistry(zookeeper, session_seconds=SESSION_SECONDS) as found:
        yield found


async def restart(server: ZooKeeper, clients: Clients) -> None:
    """Kill a ZooKeeper and start it again, with its data; messages go on without it."""
    await trio.to_thread.run_sync(server.kill)
    with trio.fail_after(limit(60)):
        await clients.more(ROUND_MESSAGES)
    await trio.to_thread.run_sync(server.start)


async def play(
    kind: str, end: str, rounds: int, tell: Callable[[str], object] = lambda _: None
) -> dict[str, int]:
    """Play so many rounds, and give the verdict.

    ``kind`` is ``zookeeper``, ``embedded``, or ``lone``: a single broker with the embedded
    registry, started again where it was. ``end`` is one of ``ENDS``, or ``zookeeper``: then the
    server is killed instead of the broker.
    """
    async with AsyncExitStack() as stack:
        server, ports = await stack.enter_async_context(place(kind))
        zookeeper = None if server is None else server.hosts
        serving = await start(zookeeper, ports[0], None)
        stack.callback(lambda: serving.process.kill())
        known = await stack.enter_async_context(registry(zookeeper, ports))
        read = known.read
        if zookeeper is not None:
            reader = stack.enter_context(zookeeper_reader(zookeeper))
            read = partial(trio.to_thread.run_sync, reader)
        clients = Clients()
        nursery = await stack.enter_async_context(trio.open_nursery())
        for tally in clients.tallies:
            subscriber = await stack.enter_async_context(Subscriber(known))
            assert await subscriber.subscribe(TOPIC, timeout=limit(60))
            nursery.start_soon(clients.read, subscriber, tally)
        for name in clients.sent:
            publisher = await stack.enter_async_context(Publisher(known))
            nursery.start_soon(clients.publish, publisher, name)
        await clients.more(ROUND_MESSAGES)
        await seed_exchange(read, TOPIC, ("seed", 0))
        for number in range(1, rounds + 1):
            began = time.monotonic()
            if end == ZOOKEEPER:
                assert server is not None
                await restart(server, clients)
            else:
                if kind != "lone":
                    peer = serving.mesh_port if zookeeper is None else None
                    standby = await start(zookeeper, ports[number % 2], peer)
                await trio.to_thread.run_sync(serving.end, end)
                if kind == "lone":
                    standby = await start(zookeeper, ports[0], None)
                serving = standby
            with trio.fail_after(limit(60)):
                await clients.more(ROUND_MESSAGES)
                await seed_exchange(read, TOPIC, ("seed", number))
            tell(f"round {number}: {time.monotonic() - began:.1f} s, {dict(clients.sent)} sent")
        with trio.fail_after(limit(60)):
            await clients.end()
        nursery.cancel_scope.cancel()
        serving.end("stop")
        return clients.verdict(rounds + 1)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="rounds", description=__doc__)
    parser.add_argument("--registry", choices=(ZOOKEEPER, "embedded", "lone"), required=True)
    parser.add_argument("--end", choices=(*ENDS, ZOOKEEPER), required=True)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    if options.end == ZOOKEEPER != options.registry:
        parser.error("--end zookeeper needs --registry zookeeper")
    tell = partial(print, flush=True)
    found = trio.run(play, options.registry, options.end, options.rounds, tell)
    print(f"{options.registry}, {options.end}, {options.rounds} rounds: {found}")
    return 1 if any(found[what] for what in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
