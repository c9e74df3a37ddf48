"""Brokers in processes that are killed or stopped, round after round, under live clients.

``python -m tests.peermesh.brokers.edge.rounds --registry zookeeper --end kill --rounds 50`` says
what became of every message. Two publishers and two subscribers live all the time, and a client
that is written from the words of the seed finds the broker before and after each round.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import trio

from endpoint.pubsub.messages import MISSED_TOPIC
from peermesh.brokers.edge import Publisher, Registry, RemoteRegistry, Subscriber, messages
from peermesh.brokers.edge.messages import TTL, Accepted, Hello, Welcome
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.edge.zookeepers import ZooKeeper, jars
from tests.ports import free_port
from wire.encoding import encode
from wire.framing import (
    VERSION_MAX,
    VERSION_MIN,
    FrameDecoder,
    NodeFrame,
    encode_node,
    encode_preamble,
)
from wire.limits import FRAME_SIZE_MAX
from wire.messages import Preamble

TOPIC: Final = "weather"
AHEAD_MAX: Final = 500
"""Messages that a publisher is ahead of the slowest subscriber: they wait for the next broker."""
ROUND_MESSAGES: Final = 300
"""Messages of each publisher that come after a change of broker before the next one."""
SESSION_SECONDS: Final = 2.0
WRONG: Final = ("lost", "doubled", "disordered", "missed")
ENDS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGINT}

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


# A client that knows the seed's paths and formats.


async def seed_address(read: Callable[[str], Awaitable[str | None]], topic: str) -> tuple[str, int]:
    """Find where to publish: the topic's receiver, or else the default one."""
    at = await read(f"/topics/{topic}/pub")
    if at in {None, "null"}:
        assert await read(f"/topics/{topic}") in {None, "null"}
        data = await read("/topics")
        while data in {None, "null"}:  # "just wait for certain amount of time and try again"
            data = await read("/topics")
        assert data is not None
        receiver, sender = data.split("\n")
        assert receiver != sender
        at = receiver
    assert at is not None
    host, _, port = at.rpartition(":")
    return host, int(port)


async def seed_publish(
    read: Callable[[str], Awaitable[str | None]], topic: str, said: object
) -> None:
    """Publish one message with a connection for it alone, and wait until all have it."""
    client = uuid.uuid4().bytes
    while True:
        address = await seed_address(read, topic)
        here = topic if await read(f"/topics/{topic}/pub") == f"{address[0]}:{address[1]}" else ""
        try:
            async with await trio.open_tcp_stream(*address) as stream:
                await _say(stream, client, here, topic, encode(said))  # type: ignore[arg-type]  # any value
                return
        except (OSError, trio.BrokenResourceError, EOFError):
            await trio.lowlevel.checkpoint()  # An address of a broker that is gone.


async def _say(
    stream: trio.SocketStream, client: bytes, here: str, topic: str, payload: bytes
) -> None:
    decoder = FrameDecoder(FRAME_SIZE_MAX)
    await stream.send_all(encode_preamble(Preamble(VERSION_MIN, VERSION_MAX)))
    await stream.send_all(messages.write(Hello(client, here)))
    pieces, _ = encode_node(client, TTL, 1, (topic.encode(),), b"", [payload])
    while True:
        chunk = await stream.receive_some()
        if not chunk:
            raise EOFError
        decoder.feed(bytes(chunk))
        while (frame := decoder.next_frame()) is not None:
            if isinstance(frame, Preamble | NodeFrame):
                continue
            message = messages.read(frame)
            if isinstance(message, Welcome):
                await stream.send_all(b"".join(pieces))
            elif isinstance(message, Accepted) and message.sequence == 1:
                return
            elif not isinstance(message, messages.Beat | Accepted):
                raise EOFError


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
async def place(kind: str) -> AsyncIterator[tuple[str | None, list[int]]]:
    """Give the hosts of a ZooKeeper, if one is wanted, and two registry ports."""
    if kind != "zookeeper":
        yield None, [free_port(), free_port()]
        return
    with TemporaryDirectory() as folder:
        server = ZooKeeper(Path(folder), jars())
        await trio.to_thread.run_sync(server.start)
        try:
            yield server.hosts, [0, 0]
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


async def play(
    kind: str, end: str, rounds: int, tell: Callable[[str], object] = lambda _: None
) -> dict[str, int]:
    """Play so many rounds, and give the verdict.

    ``kind`` is ``zookeeper``, ``embedded``, or ``lone``: a single broker with the embedded
    registry, started again where it was.
    """
    async with AsyncExitStack() as stack:
        zookeeper, ports = await stack.enter_async_context(place(kind))
        serving = await start(zookeeper, ports[0], None)
        stack.callback(lambda: serving.process.kill())
        known = await stack.enter_async_context(registry(zookeeper, ports))
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
        await seed_publish(known.read, TOPIC, ["seed", 0])
        for number in range(1, rounds + 1):
            began = time.monotonic()
            if kind != "lone":
                port = ports[number % 2]
                peer = serving.mesh_port if zookeeper is None else None
                standby = await start(zookeeper, port, peer)
            await trio.to_thread.run_sync(serving.end, end)
            if kind == "lone":
                standby = await start(zookeeper, ports[0], None)
            serving = standby
            with trio.fail_after(limit(60)):
                await clients.more(ROUND_MESSAGES)
                await seed_publish(known.read, TOPIC, ["seed", number])
            tell(f"round {number}: {time.monotonic() - began:.1f} s, {dict(clients.sent)} sent")
        with trio.fail_after(limit(60)):
            await clients.end()
        nursery.cancel_scope.cancel()
        serving.end("stop")
        return clients.verdict(rounds + 1)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="rounds", description=__doc__)
    parser.add_argument("--registry", choices=("zookeeper", "embedded", "lone"), required=True)
    parser.add_argument("--end", choices=tuple(ENDS), required=True)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    tell = partial(print, flush=True)
    found = trio.run(play, options.registry, options.end, options.rounds, tell)
    print(f"{options.registry}, {options.end}, {options.rounds} rounds: {found}")
    return 1 if any(found[what] for what in WRONG) else 0


if __name__ == "__main__":
    sys.exit(main())
