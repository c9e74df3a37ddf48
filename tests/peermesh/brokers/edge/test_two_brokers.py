"""Brokers that share a registry: one serves, the other stands by and follows it."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial

import trio

from peermesh import Endpoint
from peermesh.brokers.edge import (
    Options,
    Publisher,
    RemoteRegistry,
    Subscriber,
    open_edge_broker,
)
from peermesh.testing.time_limits import limit

BROKER = """
import sys, trio
from peermesh import Endpoint
from peermesh.brokers.edge import open_edge_broker

async def main():
    async with Endpoint() as endpoint:
        port = await endpoint.listen()
        async with open_edge_broker(endpoint) as host:
            await host.broker.active()
            print(port, host.registry_address[1], flush=True)
            await trio.sleep_forever()

trio.run(main)
"""


@asynccontextmanager
async def broker_process():
    """A broker in a process of its own: its mesh port, its registry port, and the process."""
    start = partial(
        subprocess.Popen, [sys.executable, "-c", BROKER], stdout=subprocess.PIPE, text=True
    )
    process = await trio.to_thread.run_sync(start)
    try:
        line = await trio.to_thread.run_sync(process.stdout.readline)
        mesh_port, registry_port = map(int, line.split())
        yield mesh_port, registry_port, process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@asynccontextmanager
async def second_broker(mesh_port: int):
    async with Endpoint() as endpoint:
        assert await endpoint.peer("127.0.0.1", mesh_port, timeout=limit())
        async with open_edge_broker(endpoint, options=Options(idle_seconds=60)) as host:
            yield host


async def test_a_killed_broker_disappears_and_the_next_one_serves_its_clients(kit):
    with trio.fail_after(limit(60)):
        async with broker_process() as (mesh_port, first, process):
            async with second_broker(mesh_port) as host:
                addresses = [("127.0.0.1", first), host.registry_address]
                async with RemoteRegistry(addresses) as registry:
                    async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                        await reader.subscribe("a")
                        await publisher.send("a", "before")
                        assert await reader.get(limit()) == ("a", "before")
                        held = await registry.read("/topics")
                        assert not host.broker.is_active
                        process.send_signal(signal.SIGKILL)
                        await host.broker.active()
                        assert await registry.read("/topics") not in (held, "null")
                        await reader.subscribe("a")
                        await kit.until(lambda: host.broker.statistics().channels)
                        await kit.until(lambda: reader.is_attached("a"))
                        await publisher.send("a", "after")
                        assert await reader.get(limit()) == ("a", "after")
                        await kit.until(lambda: publisher.statistics()[0].is_direct)


async def test_a_second_broker_and_its_end_change_nothing_for_the_first(kit):
    with trio.fail_after(limit(60)):
        async with broker_process() as (mesh_port, first, _):
            async with RemoteRegistry([("127.0.0.1", first)]) as registry:
                async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                    await reader.subscribe("a")
                    await publisher.send("a", 1)
                    await kit.until(lambda: publisher.statistics()[0].is_direct)
                    paths = ("/topics", "/topics/a/pub", "/topics/a/sub", "/broker")
                    tree = [await registry.read(path) for path in paths]
                    async with second_broker(mesh_port) as host:
                        async with RemoteRegistry([host.registry_address]) as other:
                            assert [await other.read(path) for path in paths] == tree
                        assert not host.broker.is_active
                        await publisher.send("a", 2)
                    assert [await registry.read(path) for path in paths] == tree
                    await publisher.send("a", 3)
                    assert [data for _, data in await kit.take(reader, 3)] == [1, 2, 3]
