"""The registry on a real ZooKeeper server, which is started, killed, and made to lose sessions."""

from __future__ import annotations

import subprocess
import sys

import pytest
import trio

from peermesh.brokers.edge import Options, Publisher, Subscriber, open_edge_broker
from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.edge.rounds import start
from tests.peermesh.brokers.edge.seed_client import zookeeper_reader
from tests.waiting import a_moment, until

pytestmark = pytest.mark.zookeeper
SESSION_SECONDS = 2.0


@pytest.fixture
def registry_at(zookeeper):
    from peermesh.brokers.edge.zookeeper import ZooKeeperRegistry

    return lambda: ZooKeeperRegistry(zookeeper.hosts, session_seconds=SESSION_SECONDS)


async def until_members(registry, path: str, *clients) -> None:
    wanted = sorted(client.id.hex() for client in clients)
    with trio.fail_after(limit()):
        while await registry.children(path) != wanted:
            await a_moment()


async def expire(registry) -> None:
    """Have a session end as if ZooKeeper had not heard of it: another client closes it."""
    from kazoo.client import KazooClient

    ((host, port),) = registry._client.hosts
    twin = KazooClient(f"{host}:{port}", client_id=registry._client.client_id)
    await trio.to_thread.run_sync(twin.start)
    await trio.to_thread.run_sync(twin.stop)
    await trio.to_thread.run_sync(twin.close)


def claim_of(*hosts) -> str:
    """Say by what claim the one broker serves that does; nothing if there are none or two."""
    claims = [host.broker._reign._claim for host in hosts if host.broker.is_active]
    return claims[0] if len(claims) == 1 else ""


async def test_the_tree_is_as_documented_and_ends_with_the_broker(kit, registry_at):
    with trio.fail_after(limit(60)):
        async with registry_at() as own, registry_at() as registry:
            async with open_edge_broker(registry=own, options=Options(idle_seconds=0.1)) as host:
                async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                    await reader.subscribe("a/b")
                    for number in range(100):
                        await publisher.send("a/b", number)
                    got = [data for _, data in await kit.take(reader, 100)]
                    assert got == list(range(100))
                    await kit.until(lambda: host.broker.statistics().channels[0].ports)
                    receiver, sender = host.broker.statistics().channels[0].ports
                    await until_members(registry, "/topics/a%2Fb/pub", publisher)
                    await until_members(registry, "/topics/a%2Fb/sub", reader)
                    assert await registry.read("/topics/a%2Fb") == "null"
                    assert await registry.read("/topics/a%2Fb/pub") == f"127.0.0.1:{receiver}"
                    assert await registry.read("/topics/a%2Fb/sub") == f"127.0.0.1:{sender}"
                    lines = (await registry.read("/topics")).split("\n")
                    assert [line.startswith("127.0.0.1:") for line in lines] == [True, True]
                await kit.until(lambda: not host.broker.statistics().channels)
                assert await registry.children("/topics") == []
            assert await registry.read("/topics") == "null"
            assert await registry.read("/broker") is None


async def test_a_restart_of_zookeeper_disturbs_no_message_and_heals(kit, registry_at, zookeeper):
    with trio.fail_after(limit(90)):
        async with registry_at() as own, registry_at() as registry:
            async with open_edge_broker(registry=own):
                async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                    await reader.subscribe("old")
                    await publisher.send("old", 1)
                    await kit.until(lambda: publisher.statistics()[0].is_direct)
                    zookeeper.kill()
                    await publisher.send("old", 2)
                    await publisher.send("new", 1)  # By the default channel, for now.
                    assert [data for _, data in await kit.take(reader, 2)] == [1, 2]
                    await trio.to_thread.run_sync(zookeeper.start)
                    await reader.subscribe("new")
                    await kit.until(lambda: publisher.statistics()[1].is_direct)
                    await publisher.send("new", 2)
                    while (await reader.get(limit()))[1] != 2:
                        pass
                    await until_members(registry, "/topics/old/pub", publisher)
                    await until_members(registry, "/topics/new/pub", publisher)


async def test_a_lost_session_of_broker_or_client_heals(kit, registry_at):
    with trio.fail_after(limit(90)):
        async with registry_at() as own, registry_at() as registry, registry_at() as observer:
            async with open_edge_broker(registry=own):
                async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                    await reader.subscribe("a")
                    await publisher.send("a", 1)
                    await until_members(observer, "/topics/a/pub", publisher)
                    await until_members(observer, "/topics/a/sub", reader)
                    held = await observer.read("/broker")
                    for lost in (registry, own):
                        session = lost._client.client_id
                        await expire(lost)
                        await kit.until(
                            lambda lost=lost, s=session: lost._client.client_id not in (None, s)
                        )
                        await until_members(observer, "/topics/a/pub", publisher)
                        await until_members(observer, "/topics/a/sub", reader)
                        with trio.fail_after(limit()):
                            while await observer.read("/broker") != held:
                                await a_moment()
                    await publisher.send("a", 2)
                    assert [data for _, data in await kit.take(reader, 2)] == [1, 2]


# Two of kazoo's clients take one session from each other, and leave a socket to the collector.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
async def test_two_brokers_share_the_tree_and_the_second_follows_the_first(kit, registry_at):
    with trio.fail_after(limit(90)):
        async with registry_at() as one, registry_at() as two, registry_at() as registry:
            async with Publisher(registry) as publisher, Subscriber(registry) as reader:
                async with open_edge_broker(registry=two) as second:
                    await second.broker.active()
                    await reader.subscribe("a")
                    await publisher.send("a", 1)
                    assert await reader.get(limit()) == ("a", 1)
                    await kit.until(lambda: publisher.statistics()[0].is_direct)
                    async with open_edge_broker(registry=one) as first:
                        address = await registry.read("/topics/a/pub")
                        assert address != "null"
                        assert not first.broker.is_active
                    assert await registry.read("/topics/a/pub") == address
                    await publisher.send("a", 2)
                    assert await reader.get(limit()) == ("a", 2)
                    async with open_edge_broker(registry=one) as first:
                        await expire(two)  # As if it were cut off: then serves who comes first.
                        with trio.fail_after(limit()):
                            while await registry.read("/broker") != claim_of(first, second):
                                await a_moment()
                        await publisher.send("b", 1)
                        assert await publisher.flush(limit())


async def until_read(read, path: str, *wanted: str | None) -> None:
    with trio.fail_after(limit()):
        while (await trio.to_thread.run_sync(read, path)) not in wanted:
            pass


async def serve_a_topic(registry) -> None:
    async with Publisher(registry) as publisher:
        await publisher.send("a", 1)
        with trio.fail_after(limit()):
            await until(lambda: publisher.statistics()[0].is_direct)


PATHS = ("/topics", "/topics/a/pub", "/topics/a/sub")


async def test_the_addresses_of_a_killed_broker_are_nulled_by_who_is_there(zookeeper, registry_at):
    with trio.fail_after(limit(90)), zookeeper_reader(zookeeper.hosts) as read:
        broker = await start(zookeeper.hosts, 0, None)
        async with registry_at() as registry, Subscriber(registry) as reader:
            await reader.subscribe("a")
            await serve_a_topic(registry)
            await until_members(registry, "/topics/a/sub", reader)
            assert "null" not in [read(path) for path in PATHS]
            await trio.to_thread.run_sync(broker.end, "kill")
            for path in PATHS:
                await until_read(read, path, "null")
            # Who subscribes outlives the broker: the next one waits for it.
            assert await registry.children("/topics/a/sub") == [reader.id.hex()]
            async with registry_at() as own, open_edge_broker(registry=own) as host:
                await host.broker.active()
                assert (await registry.read("/topics")).count(":") == 2
                async with Publisher(registry) as publisher:
                    await publisher.send("a", 2)
                    assert [await reader.get(limit()) for _ in range(2)] == [("a", 1), ("a", 2)]
        assert await trio.to_thread.run_sync(read, "/topics") == "null"


async def test_the_addresses_of_a_broker_killed_alone_are_nulled_by_the_next_visitor(
    zookeeper, registry_at
):
    with trio.fail_after(limit(90)), zookeeper_reader(zookeeper.hosts) as read:
        broker = await start(zookeeper.hosts, 0, None)
        async with registry_at() as registry:
            await serve_a_topic(registry)
        await trio.to_thread.run_sync(broker.end, "kill")
        await until_read(read, "/broker", None)
        assert "null" not in [read(path) for path in PATHS]
        async with registry_at() as registry, Publisher(registry):
            for path in PATHS:
                await until_read(read, path, "null")


async def test_what_a_new_reign_has_written_is_not_nulled(zookeeper, registry_at):
    """A member that saw the old broker vanish is slower than the new one."""
    with trio.fail_after(limit(60)):
        async with registry_at() as late, registry_at() as own:
            await late.write("/topics", "127.0.0.1:1\n127.0.0.1:2")
            await late.write("/topics/a/pub", "127.0.0.1:3")
            _, seen = await late._call(late._client.get_async, "/topics")
            async with open_edge_broker(registry=own) as host:
                await host.broker.active()
                there = await own.read("/topics")
                await own.write("/topics/a/pub", "127.0.0.1:4")  # Of the version that was seen.
                guard = ("/topics", seen.version)
                assert not await late._null(guard, [("/topics/a/pub", 0)])
                assert not await late._null(guard, [guard])
                await late.clear()
                assert await own.read("/topics") == there
                assert await own.read("/topics/a/pub") == "127.0.0.1:4"


def test_kazoo_says_nothing_at_a_terminal(free_port):
    command = [sys.executable, "-m", "peermesh.cli", "broker", "edge-sub", "a", "--wait", "1.5"]
    found = subprocess.run(
        [*command, "--zookeeper", f"127.0.0.1:{free_port}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 4
    why = (
        f"no broker within 1.5 s: the registry: ZooKeeper at 127.0.0.1:{free_port} does not answer"
    )
    assert why in found.stderr
    assert "onnection" not in found.stderr
    assert found.stderr.count("\n") <= 2
