"""The broker and its clients, over real sockets, with the registry that it brings."""

from __future__ import annotations

import math
import select
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import trio

from endpoint.pubsub.messages import MISSED_TOPIC, Missed
from peermesh import Endpoint
from peermesh.brokers.edge import (
    EdgeBroker,
    EdgeClosed,
    EdgeError,
    Publisher,
    RegistryError,
    RemoteRegistry,
    Subscriber,
    client,
    incoming,
    outgoing,
    relay,
    subscription,
)
from peermesh.brokers.edge.embedded import EmbeddedTree
from peermesh.brokers.edge.subscriber import YIELD_COUNT
from peermesh.brokers.edge.tree import parse_addresses, sender_path
from peermesh.testing.faults import Reset
from peermesh.testing.links import open_link
from peermesh.testing.time_limits import limit
from wire.errors import InvalidTopic


async def test_a_message_goes_by_the_default_channel_and_then_by_the_topics_own(kit):
    async with kit.world() as world, world.publisher() as publisher, world.subscriber() as reader:
        assert await reader.subscribe("weather/oslo")  # There is no such topic yet.
        assert world.channel("weather/oslo").ports is None
        await publisher.send("weather/oslo", "rain")
        assert await reader.get(limit()) == ("weather/oslo", "rain")
        await kit.until(lambda: publisher.statistics()[0].is_direct)
        await kit.until(lambda: reader.statistics()[0].is_direct)
        await publisher.send("weather/oslo", "sun")
        assert await reader.get(limit()) == ("weather/oslo", "sun")
        channel = world.channel("weather/oslo")
        assert (channel.state, channel.publishers, channel.subscribers) == ("open", 1, 1)
        assert (channel.accepted, channel.delivered) == (2, 2)


async def test_the_tree_is_as_documented(kit):
    async with kit.world() as world, world.publisher() as publisher, world.subscriber() as reader:
        await reader.subscribe("a")
        await publisher.send("a", 1)
        await kit.until(lambda: publisher.statistics()[0].is_direct)
        await kit.until(lambda: reader.statistics()[0].is_direct)
        read = world.registry.read
        receiver, sender = world.channel("a").ports
        assert await read("/topics/a") == "null"
        assert await read("/topics/a/pub") == f"127.0.0.1:{receiver}"
        assert await read("/topics/a/sub") == f"127.0.0.1:{sender}"
        default = parse_addresses(await read("/topics"))
        assert default.receiver != default.sender
        for path, client in (("/topics/a/pub", publisher), ("/topics/a/sub", reader)):
            await world.members(path, client)
            host, _, port = (await read(f"{path}/{client.id.hex()}")).partition(":")
            assert (host, port.isdigit()) == ("127.0.0.1", True)


async def test_the_first_messages_of_200_topics_at_once_lose_double_and_reorder_nothing(kit):
    """Three publishers and two subscribers, under load, across the hand-over of every topic."""
    topics = [f"topic {number}" for number in range(200)]
    each, load = 20, 3

    async def publish(publisher: Publisher, name: int) -> None:
        for number in range(each):
            for topic in topics:
                await publisher.send(topic, (name, number))

    async with kit.world(seconds=300) as world, trio.open_nursery() as nursery:
        readers = [await nursery.start(_open, world.subscriber()) for _ in range(2)]
        async with trio.open_nursery() as subscribing:  # One after the other takes 400 turns.
            for reader in readers:
                for topic in topics:
                    subscribing.start_soon(reader.subscribe, topic)
        for name in range(load):
            publisher = await nursery.start(_open, world.publisher())
            nursery.start_soon(publish, publisher, name)
        for reader in readers:
            got = {(topic, name): [] for topic in topics for name in range(load)}
            for topic, (name, number) in await kit.take(reader, each * load * len(topics)):
                got[topic, name].append(number)
            assert all(numbers == list(range(each)) for numbers in got.values())
        await kit.until(
            lambda: (
                all(s.is_direct for r in readers for s in r.statistics())
                and {channel.state for channel in world.broker.statistics().channels} == {"open"}
            ),
            limit(240),
        )
        assert not any(reader.available() for reader in readers)
        nursery.cancel_scope.cancel()


async def _open(client, task_status=trio.TASK_STATUS_IGNORED):
    async with client:
        task_status.started(client)
        await trio.sleep_forever()


async def test_a_reader_that_has_much_to_read_lets_others_run(kit) -> None:
    """What it reads comes from tasks that also show the broker its life."""
    steps = 0

    async def step() -> None:
        nonlocal steps
        while True:
            steps += 1
            await trio.lowlevel.checkpoint()

    async with kit.world() as world, trio.open_nursery() as nursery:
        async with world.subscriber() as reader, world.publisher() as publisher:
            await reader.subscribe("t")
            for number in range(2 * YIELD_COUNT):
                await publisher.send("t", number)
            await kit.until(lambda: reader.available() == 2 * YIELD_COUNT)
            nursery.start_soon(step)
            for number in range(2 * YIELD_COUNT):
                assert (await reader.get()).data == number
            assert steps >= 1
            nursery.cancel_scope.cancel()


async def test_a_client_opens_so_many_connections_at_once_and_no_more(kit, monkeypatch) -> None:
    """A channel's port that greets late gets few connections; the default channel serves."""
    monkeypatch.setattr(client, "OPENING_MAX", 2)
    topics = [f"t{number}" for number in range(5)]
    [late] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = late.socket.getsockname()[1]
    async with kit.world() as world, world.subscriber() as reader:
        for topic in topics:
            await world.registry.write(sender_path(topic), f"127.0.0.1:{port}")
            assert await reader.subscribe(topic)
        opened = [await late.accept() for _ in range(2)]
        for _ in range(10):  # The other clients' turns, if they had a connection to open.
            await world.registry.read("/topics")
        assert select.select([late.socket.fileno()], [], [], 0)[0] == []
        await opened[0].aclose()
        opened.append(await late.accept())
    for stream in (*opened, late):
        await stream.aclose()


async def test_publishers_and_subscribers_wait_while_there_is_no_broker(kit, free_port):
    with trio.fail_after(limit(60)):
        async with RemoteRegistry([("127.0.0.1", free_port)]) as registry:
            async with (
                Publisher(registry, buffer_size=3) as publisher,
                Subscriber(registry) as reader,
            ):
                assert not await reader.subscribe("a", timeout=0.01)
                for number in range(3):
                    await publisher.send("a", number)
                with trio.move_on_after(0.05) as scope:
                    await publisher.send("a", "does not fit")
                assert scope.cancelled_caught
                assert not await publisher.flush(0.01)
                async with kit.world(registry_port=free_port):
                    assert await reader.subscribe("a")
                    # What came before the subscription was known may be gone: this is not.
                    await publisher.send("a", 3)
                    while (await reader.get(limit()))[1] != 3:
                        pass
                    assert await publisher.flush(limit())


async def test_a_channel_that_nobody_uses_is_closed_and_its_ports_are_reused(kit, free_ports):
    async def use(world, topic: str) -> set[int]:
        async with world.publisher() as publisher, world.subscriber() as reader:
            await reader.subscribe(topic)
            await publisher.send(topic, topic)
            assert await reader.get(limit()) == (topic, topic)
            await kit.until(lambda: world.state(topic) == "open")
            ports = world.channel(topic).ports
        await kit.until(lambda: world.channel(topic) is None)
        assert await world.registry.read(f"/topics/{topic}") is None
        assert await world.registry.children("/topics") == []
        assert world.broker.statistics().ports_free == 2
        return set(ports)

    async with kit.world(ports=free_ports(2), idle_seconds=0.1) as world:
        assert await use(world, "first") == await use(world, "second")


async def test_a_topic_without_ports_is_served_by_the_default_channel_until_some_are_free(
    kit, free_ports
):
    async with kit.world(ports=free_ports(2), idle_seconds=0.1) as world:
        async with world.subscriber() as reader, world.publisher() as publisher:
            async with world.publisher() as other:
                await other.send("first", 1)
                await kit.until(lambda: world.state("first") == "open")
                await reader.subscribe("second")
                for number in range(100):
                    await publisher.send("second", number)
                got = [data for _, data in await kit.take(reader, 100)]
                assert got == list(range(100))
                assert world.channel("second").state == "waiting"
            await kit.until(lambda: world.state("second") == "open")
            await kit.until(lambda: publisher.statistics()[0].is_direct)
            await publisher.send("second", "direct")
            assert await reader.get(limit()) == ("second", "direct")


async def test_lost_connections_lose_double_and_reorder_nothing(kit):
    count = 3000

    async def publish(publisher: Publisher) -> None:
        for number in range(count):
            await publisher.send("a", number)

    async with kit.world() as world, world.publisher() as publisher, world.subscriber() as reader:
        await reader.subscribe("a")
        got = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, publisher)
            while len(got) < count:
                if len(got) % 500 == 250:
                    for client in (publisher, reader):
                        for line in list(client._lines.values()):
                            line._transport.close()
                got.append((await reader.get(limit()))[1])
        assert got == list(range(count))
        assert not reader.available()


async def test_a_subscriber_that_does_not_read_is_dropped_is_told_and_holds_nobody_up(
    kit, monkeypatch
):
    for module in (incoming, outgoing, relay, subscription):
        monkeypatch.setattr(module, "WINDOW", 64)
    monkeypatch.setattr(subscription, "STALL_SECONDS", 0.5)
    async with kit.world() as world, world.publisher() as publisher, world.subscriber() as reader:
        async with world.subscriber() as sleeper, trio.open_nursery() as nursery:
            await reader.subscribe("a")
            await sleeper.subscribe("a")

            async def publish() -> None:
                for number in range(1000):
                    await publisher.send("a", number)

            nursery.start_soon(publish)
            assert [data for _, data in await kit.take(reader, 1000)] == list(range(1000))
            await kit.until(lambda: world.channel("a").subscribers == 1)
            held = sleeper.available()  # It does not come back for more than it has room for.
            assert 64 <= held <= 3 * 64
            got = await kit.take(sleeper, held)
            assert await sleeper.get(limit()) == (MISSED_TOPIC, Missed(1000 - held))
            assert [data for _, data in got] == list(range(held))
            await publisher.send("a", "after")
            assert await sleeper.get(limit()) == ("a", "after")


async def _serve(broker, ends: trio.Event, task_status=trio.TASK_STATUS_IGNORED) -> None:
    async with broker:
        await broker.active()
        task_status.started()
        await ends.wait()


@asynccontextmanager
async def open_unread(kit, monkeypatch):
    """A broker that is about to end: of twelve messages four wait there for the reader."""
    for module in (incoming, outgoing, relay, subscription):
        monkeypatch.setattr(module, "WINDOW", 4)
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(Endpoint())
        tree = await stack.enter_async_context(EmbeddedTree(endpoint))
        registry, ends = tree.session(), trio.Event()
        broker = EdgeBroker(registry)
        await nursery.start(_serve, broker, ends)
        publisher = await stack.enter_async_context(Publisher(registry))
        reader = await stack.enter_async_context(Subscriber(registry))
        await reader.subscribe("a")
        for number in range(12):
            await publisher.send("a", number)
        await kit.until(lambda: reader.available() == 8)
        yield SimpleNamespace(
            registry=registry, broker=broker, ends=ends, publisher=publisher, reader=reader
        )
        nursery.cancel_scope.cancel()


async def test_a_broker_that_ends_takes_no_more_and_waits_for_what_it_took(kit, monkeypatch):
    async with open_unread(kit, monkeypatch) as at:
        default = parse_addresses(await at.registry.read("/topics"))
        at.ends.set()
        await kit.until(lambda: at.broker._is_leaving)
        async with await trio.open_tcp_stream(*default.sender) as late:
            assert await late.receive_some() == b""
        assert await at.registry.read("/topics") != "null"
        assert [data for _, data in await kit.take(at.reader, 8)] == list(range(8))
        await kit.until(lambda: at.publisher.statistics()[0].count == 8)
        await kit.until(lambda: not at.broker.is_active)
        while await at.registry.read("/topics") != "null":
            pass
        assert (at.publisher.statistics()[0].waiting, at.reader.available()) == (4, 0)


async def test_a_broker_that_ends_waits_no_longer_than_its_bound(kit, monkeypatch, caplog):
    monkeypatch.setattr(subscription, "STALL_SECONDS", math.inf)
    monkeypatch.setattr("peermesh.brokers.edge.broker.LEAVE_SECONDS", 0.05)
    async with open_unread(kit, monkeypatch) as at:
        at.ends.set()
        await kit.until(lambda: "waited 0.05 s for subscribers to take" in caplog.text)
        await kit.until(lambda: not at.broker.is_active)
        with trio.fail_after(limit()):
            while await at.registry.read("/topics") != "null":
                pass
            while await at.registry.children("/topics"):
                pass
        assert (at.publisher.statistics()[0].waiting, at.reader.available()) == (8, 8)
        async with EdgeBroker(at.registry) as second:
            await second.active()
            assert [data for _, data in await kit.take(at.reader, 12)] == list(range(12))
            assert await at.publisher.flush(limit())
        assert not at.reader.available()


async def test_a_client_that_is_cut_off_leaves_the_registry(kit, free_port):
    """Its lease is its connection to the registry, which goes when its process is killed."""
    async with kit.world(idle_seconds=60) as world, world.publisher() as keeper:
        await keeper.send("a", 1)
        await world.members("/topics/a/pub", keeper)
        async with open_link(*world.host.registry_address) as link:
            address = (link.host, link.port)
            async with RemoteRegistry([address]) as other, Subscriber(other) as reader:
                await reader.subscribe("a")
                await world.members("/topics/a/sub", reader)
                link.target = ("127.0.0.1", free_port)
                await link.apply(Reset())
                await world.members("/topics/a/sub")
                await world.members("/topics/a/pub", keeper)


async def test_senders_are_stopped_and_topics_unsubscribed(kit):
    async with kit.world(idle_seconds=0.1) as world, world.publisher() as publisher:
        async with world.subscriber() as reader:
            for again in range(2):
                await reader.subscribe("a")
                await publisher.send("a", again)
                assert await reader.get(limit()) == ("a", again)
                await publisher.stop("a")
                await reader.unsubscribe("a")
                assert publisher.statistics() == reader.statistics() == []
                await kit.until(lambda: world.channel("a") is None)


async def test_what_is_sent_after_a_stop_is_new_to_a_broker_that_knows_the_topic(kit):
    async with kit.world() as world, world.publisher() as publisher:
        async with world.subscriber() as reader:
            await reader.subscribe("a")
            for number in range(6):
                await publisher.send("a", number)
                assert await reader.get(limit()) == ("a", number)
                if number % 2:
                    await publisher.stop("a")


async def test_tasks_that_stop_one_topic_at_once_have_all_stopped_it(kit):
    async with kit.world() as world, world.publisher() as publisher:
        async with world.subscriber() as reader:
            await reader.subscribe("a")
            await publisher.send("a", 1)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(publisher.stop, "a")
            assert publisher.statistics() == []
            assert await reader.get(limit()) == ("a", 1)


async def test_tasks_that_subscribe_to_one_topic_at_once_have_all_subscribed(kit):
    async with kit.world() as world, world.publisher() as publisher:
        async with world.subscriber() as reader:
            async with trio.open_nursery() as nursery:
                for seconds in (0, None, None):
                    nursery.start_soon(partial(reader.subscribe, "a", timeout=seconds))
            await publisher.send("a", 1)
            assert await reader.get(limit()) == ("a", 1)


async def test_there_is_an_end_to_stopped_topics(kit, monkeypatch):
    monkeypatch.setattr("peermesh.brokers.edge.publisher.STOPPED_MAX", 2)
    async with kit.world() as world, world.publisher() as publisher:
        for topic in "abab":  # A topic that is stopped again is no further one.
            await publisher.send(topic, 1)
            await publisher.stop(topic)
        async with world.subscriber() as reader:
            await reader.subscribe("c")
            await publisher.send("c", 1)
            with pytest.raises(EdgeError, match=r"'c' is not stopped.* 2 stopped.* new publisher"):
                await publisher.stop("c")
            await publisher.send("c", 2)
            assert [await reader.get(limit()) for _ in range(2)] == [("c", 1), ("c", 2)]


async def test_bad_calls_are_refused_and_cost_nothing(kit):
    async with kit.world() as world, world.publisher() as publisher, world.subscriber() as reader:
        with pytest.raises(InvalidTopic, match="reserved"):
            await publisher.send("a/<$>/b", 1)
        with pytest.raises(InvalidTopic, match="a topic is text, not list"):
            await publisher.send(["a"], 1)
        with pytest.raises(RegistryError, match="1 to 1024 bytes"):
            await reader.subscribe("")
        with pytest.raises(RegistryError, match="does not know how to"):
            await world.registry.ask("sing", "/topics")
        await reader.subscribe("a")
        await publisher.send("a", 1)
        assert await reader.get(limit()) == ("a", 1)
    with pytest.raises(EdgeClosed, match="make a new one"):
        await publisher.send("a", 2)
    with pytest.raises(EdgeClosed):
        await reader.get()


async def test_strangers_at_a_port_are_told_apart(kit):
    async with kit.world() as world, world.publisher() as publisher:
        default = parse_addresses(await world.registry.read("/topics"))
        for port in (default.receiver.port, default.sender.port, world.host.registry_address[1]):
            for first in (b"GET / HTTP/1.1\r\n\r\n", b"PMSH\x00\x02\x00\x02" + bytes(20), b""):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                await stream.send_all(first)
                await stream.send_eof()
                async for _ in stream:
                    pass
                await stream.aclose()
        await publisher.send("a", 1)
        assert await publisher.flush(limit())
