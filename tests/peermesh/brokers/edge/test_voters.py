"""Three brokers that keep the embedded registry together: its leader is killed, nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
import trio

from peermesh import Endpoint
from peermesh.brokers.edge import Publisher, RemoteRegistry, Subscriber, open_edge_broker
from peermesh.brokers.edge.access import STORE
from peermesh.testing.time_limits import limit

VOTERS = ("a", "b", "c")
BROKER = """
import sys, trio
from peermesh import Endpoint
from peermesh.brokers.edge import open_edge_broker

async def main(name, voters, *peers):
    async with Endpoint(name=name) as endpoint:
        for peer in peers:
            await endpoint.peer("127.0.0.1", int(peer))
        print(await endpoint.listen(), flush=True)
        async with open_edge_broker(endpoint, voters=voters.split(",")) as host:
            print(host.registry_address[1], flush=True)
            await trio.sleep_forever()

trio.run(main, *sys.argv[1:])
"""


class Broker:
    """A broker in a process of its own."""

    def __init__(self, name: str, peers: list[int]) -> None:
        command = [sys.executable, "-c", BROKER, name, ",".join(VOTERS), *map(str, peers)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.mesh_port = self.read()

    def read(self) -> int:
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@asynccontextmanager
async def three_brokers():
    async with AsyncExitStack() as stack:
        found: dict[str, Broker] = {}
        for name in VOTERS:
            peers = [each.mesh_port for each in found.values()]
            found[name] = await trio.to_thread.run_sync(Broker, name, peers)
            stack.callback(found[name].end)
        addresses = [
            ("127.0.0.1", await trio.to_thread.run_sync(each.read)) for each in found.values()
        ]
        yield found, addresses


async def leader_of(brokers: dict[str, Broker]) -> str:
    """Ask the group, from outside, which of its members leads; while it elects one, ask again."""
    ways = [word for each in brokers.values() for word in ("--peer", f"127.0.0.1:{each.mesh_port}")]
    asking = ["store", "members", STORE, "--json", "--wait", str(limit()), *ways]
    while True:
        told = await trio.run_process(
            [sys.executable, "-m", "peermesh", *asking], capture_stdout=True, check=False
        )
        for member in map(json.loads, told.stdout.decode().splitlines()):
            if member.get("leader"):
                return str(member["name"])


async def test_nothing_is_lost_when_the_leader_of_the_registry_is_killed() -> None:
    with trio.fail_after(limit(90)):
        async with three_brokers() as (brokers, addresses):
            async with RemoteRegistry(addresses) as registry:
                async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                    await reader.subscribe("a")
                    for number in range(20):
                        await publisher.send("a", number)
                        if number == 10:
                            leader = await leader_of(brokers)
                            brokers[leader].process.kill()
                    assert await publisher.flush(limit(60)), publisher.last_error
                    got: set[object] = set()
                    while len(got) < 20:
                        got.add((await reader.get(limit(60)))[1])
                    assert got == set(range(20))
                    assert await leader_of({n: b for n, b in brokers.items() if n != leader})
                    await registry.write("/after", "it is kept")
                    assert await registry.read("/after") == "it is kept"


async def test_what_a_lost_broker_registered_goes_while_another_one_leads() -> None:
    with trio.fail_after(limit(90)):
        async with three_brokers() as (brokers, addresses):
            leader = await leader_of(brokers)
            lost = next(number for number, name in enumerate(VOTERS) if name != leader)
            others = [each for number, each in enumerate(addresses) if number != lost]
            async with RemoteRegistry([addresses[lost]]) as one, RemoteRegistry(others) as other:
                await one.write("/topics/a", "null")
                await one.register("/topics/a/sub", "here")
                watch = other.watch("/topics/a/sub")
                while await other.read("/topics/a/sub") != "here":
                    await watch.wait()
                brokers[VOTERS[lost]].process.kill()
                while await other.read("/topics/a/sub") is not None:
                    await watch.wait()


@pytest.mark.parametrize("mistake", ["no endpoint", "a registry", "a text", "a number"])
async def test_voters_need_an_endpoint_and_no_registry(mistake: str) -> None:
    async with Endpoint(name="a") as endpoint, RemoteRegistry([("127.0.0.1", 1)]) as registry:
        wrong = {
            "no endpoint": partial(open_edge_broker, voters=VOTERS),
            "a registry": partial(open_edge_broker, endpoint, registry=registry, voters=VOTERS),
            "a text": partial(open_edge_broker, endpoint, voters="abc"),
            "a number": partial(open_edge_broker, endpoint, voters=3),
        }[mistake]
        with pytest.raises(ValueError, match="voters="):
            async with wrong():
                pass
