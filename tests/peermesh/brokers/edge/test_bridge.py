"""A broker joined to the mesh."""

from __future__ import annotations

import trio

from peermesh import Endpoint
from peermesh.brokers.edge import (
    Bridged,
    Options,
    Publisher,
    RemoteRegistry,
    Subscriber,
    incoming,
    open_edge_broker,
    outgoing,
    relay,
    subscription,
)
from peermesh.brokers.edge.tree import BROKER
from peermesh.testing.time_limits import limit


async def test_topics_go_to_the_mesh_and_come_from_it_and_do_not_circle(kit):
    options = Options(bridged=Bridged(to_mesh=("up/", "both/"), from_mesh=("down/", "both/")))
    with trio.fail_after(limit(60)):
        async with Endpoint() as joined, Endpoint() as far:
            await far.peer("127.0.0.1", await joined.listen())
            with far.subscribe("") as mesh:
                await joined.await_peer(far.node_id(), timeout=limit())
                async with open_edge_broker(joined, options=options) as host:
                    await far.await_peer(joined.node_id(), timeout=limit())
                    await host.broker.active()
                    async with RemoteRegistry([host.registry_address]) as registry:
                        async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                            for topic in ("up/a", "down/a", "both/a", "private"):
                                await reader.subscribe(topic)
                            for number in range(200):
                                await publisher.send("private", number)
                                await publisher.send("up/a", number)
                                await publisher.send("both/a", ("edge", number))
                            for number in range(200):
                                await far.publish("down/a", number)
                                await far.publish("both/a", ("mesh", number))
                            edge = await kit.take(reader, 1000)
                            outside = [await mesh.get(limit()) for _ in range(400)]
                            await far.publish("down/a", "last")
                            assert await reader.get(limit()) == ("down/a", "last")
                            await publisher.send("up/a", "last")
                            assert await mesh.get(limit()) == ("up/a", "last")

    numbers = list(range(200))
    assert [data for topic, data in edge if topic == "private"] == numbers
    assert [data for topic, data in edge if topic == "up/a"] == numbers
    assert [data for topic, data in edge if topic == "down/a"] == numbers
    both = [data for topic, data in edge if topic == "both/a"]
    assert [number for origin, number in both if origin == "edge"] == numbers
    assert [number for origin, number in both if origin == "mesh"] == numbers
    assert [data for topic, data in outside if topic == "up/a"] == numbers
    assert [data for topic, data in outside if topic == "both/a"] == [
        ("edge", number) for number in numbers
    ]


async def test_a_bridge_keeps_no_channel_open(kit):
    bridged = Bridged(to_mesh=("",))
    async with kit.world(idle_seconds=0.1, bridged=bridged) as world:
        async with world.publisher() as publisher:
            await publisher.send("a", 1)
            await kit.until(lambda: world.state("a") == "open")
        await kit.until(lambda: world.state("a") == "closed")


async def test_what_came_from_the_mesh_is_repeated_to_the_next_reign(kit, monkeypatch):
    for module in (incoming, outgoing, relay, subscription):
        monkeypatch.setattr(module, "WINDOW", 4)
    numbers = list(range(12))
    with trio.fail_after(limit(60)):
        async with Endpoint() as joined, Endpoint() as far:
            await far.peer("127.0.0.1", await joined.listen())
            options = Options(bridged=Bridged(from_mesh=("",)))
            async with open_edge_broker(joined, options=options) as host:
                await host.broker.active()
                await far.await_peer(joined.node_id(), timeout=limit())
                await far.await_subscribed("a", timeout=limit())
                async with RemoteRegistry([host.registry_address]) as registry:
                    async with Subscriber(registry) as reader:
                        await reader.subscribe("a")
                        for number in numbers:
                            await far.publish("a", number)
                        await kit.until(lambda: reader.available() == 8)  # Four count as taken.
                        await host.registry.write(BROKER, "another one's claim")
                        await kit.until(lambda: not host.broker.is_active)
                        await host.registry.remove(BROKER)
                        await host.broker.active()
                        got = [data for _, data in await kit.take(reader, len(numbers))]
                        assert got == numbers
                        assert not reader.available()
