"""Meshes of endpoints under simulation: as they are, with stores, with everything going wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest
import trio

from peermesh import Backend, Endpoint, Store
from peermesh.testing.faults import Delay, Direction, Loss, Partition, Reset
from peermesh.testing.simulation import (
    Happen,
    Host,
    Options,
    Schedule,
    Simulation,
    draw,
    elapse,
    run,
    simulate,
)

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")


@asynccontextmanager
async def line(simulation: Simulation, count: int) -> AsyncIterator[list[Endpoint]]:
    """Give endpoints on hosts of their own, each peered with the one before."""
    hosts = [simulation.host(name) for name in NAMES[:count]]
    endpoints: list[Endpoint] = []
    async with trio.open_nursery() as nursery:
        for host in hosts:
            with host:
                endpoints.append(Endpoint())
        async with endpoints[0]:
            async with _others(endpoints, hosts):
                yield endpoints
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _others(endpoints: list[Endpoint], hosts: list[Host]) -> AsyncIterator[None]:
    if len(endpoints) == 1:
        yield
        return
    port = await endpoints[0].listen(hosts[0].address)
    async with endpoints[1]:
        assert await endpoints[1].peer(hosts[0].address, port)
        async with _others(endpoints[1:], hosts[1:]):
            yield


async def hear_of_subscriptions(endpoints: list[Endpoint]) -> None:
    """Wait until the first endpoint knows what the last wants: a command comes behind that."""
    async with endpoints[0].attach_master("x"), endpoints[-1].attach_clone("x") as clone:
        await (await clone.put(0, 0)).applied()


async def publish_over_a_line(simulation: Simulation) -> list[object]:
    async with line(simulation, 5) as endpoints:
        subscriber = endpoints[-1].subscribe("news")
        assert await endpoints[0].await_peer(endpoints[-1].node_id())
        assert await endpoints[-1].await_peer(endpoints[0].node_id())
        async with endpoints[0].attach_master("numbers") as master:
            async with endpoints[-1].attach_clone("numbers") as clone:
                for number in range(10):
                    await (await clone.put(number, number)).applied()
                    await endpoints[0].publish("news/today", number)
                assert await master.await_idle()
        return [(await subscriber.get())[1] for _ in range(10)]


def test_messages_and_stores_cross_a_line_of_five():
    for seed in range(10):
        assert simulate(publish_over_a_line, seed=seed) == list(range(10))


def test_a_fresh_process_with_another_hash_seed_gives_the_same_runs():
    program = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('mesh', sys.argv[1])\n"
        "mesh = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(mesh)\n"
        "print([mesh.run(seed, mesh.publish_over_a_line).digest for seed in range(5)])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, __file__],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{[run(seed, publish_over_a_line).digest for seed in range(5)]}\n"}


async def heal_a_partition(simulation: Simulation) -> None:
    async with line(simulation, 2) as (first, second):
        subscriber = second.subscribe("news")
        statuses = first.subscribe_status()
        link = simulation.link("alpha", "beta")
        await link.apply(Partition())
        async for event in statuses:
            if event.status.name == "PEER_LOST":
                break
        assert not first.peers()
        await link.heal()
        assert await first.await_peer(second.node_id(), timeout=60)
        await first.publish("news", "again")
        assert (await subscriber.get(timeout=10))[1] == "again"


def test_a_partition_is_noticed_and_healed():
    for seed in range(10):
        simulate(heal_a_partition, seed=seed)


async def lossy_links_lose_nothing(simulation: Simulation) -> list[object]:
    async with line(simulation, 3) as endpoints:
        subscriber = endpoints[-1].subscribe("news")
        await hear_of_subscriptions(endpoints)
        for near, far in (("alpha", "beta"), ("beta", "gamma")):
            await simulation.link(near, far).apply(Loss(0.2))
            await simulation.link(near, far).apply(Delay(0.05, jitter=0.04), Direction.FORTH)
        assert await endpoints[0].await_peer(endpoints[-1].node_id())
        for number in range(50):
            await endpoints[0].publish("news", number)
        return [(await subscriber.get())[1] for _ in range(50)]


def test_lossy_and_slow_links_make_messages_late_and_lose_none():
    for seed in range(10):
        assert simulate(lossy_links_lose_nothing, seed=seed) == list(range(50))


async def survive_a_reset(simulation: Simulation) -> None:
    async with line(simulation, 2) as (first, second):
        statuses = first.subscribe_status()
        await simulation.link("beta", "alpha").apply(Reset())
        async for event in statuses:
            if event.status.name == "PEER_LOST":
                break
        assert await first.await_peer(second.node_id())


def test_a_reset_is_followed_by_a_new_peering():
    for seed in range(10):
        simulate(survive_a_reset, seed=seed)


async def write_to_a_master_that_dies(simulation: Simulation) -> None:
    """Whatever happens to its host, a master keeps what it has acknowledged, and the clone too."""
    server = simulation.host("server")
    ports: list[int] = [5_000]
    stores: list[Store] = []

    async def serve() -> None:
        async with Endpoint() as endpoint:
            await endpoint.listen(server.address, ports[0])
            async with endpoint.attach_master("s", Backend.SQLite, path="s.db") as store:
                stores.append(store)
                await trio.sleep_forever()

    server.start(serve)
    acknowledged: set[int] = set()
    with simulation.host("client"):
        client = Endpoint()
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(client.peer, server.address, ports[0])
        nursery.start_soon(simulation.carry_out)
        async with client.attach_clone("s", stale_interval=None) as clone:
            for number in range(20):
                receipt = await clone.put(number, number)
                with trio.move_on_after(2):
                    await receipt.applied()
                    acknowledged.add(number)
                await elapse(1)
            await simulation.heal()
            assert await clone.await_idle(timeout=300)
            keys = await clone.keys()
            assert acknowledged <= set(keys)
            assert set(keys) == set(await stores[-1].keys())
        nursery.cancel_scope.cancel()


def draw_for_server(chance: Random) -> Schedule:
    """Draw faults of which none befalls the client's own host, which asks and remembers."""
    drawn = draw(chance, ["server", "client"], seconds=20)
    return tuple(
        step for step in drawn if not isinstance(step.act, Happen) or step.act.host == "server"
    )


def test_what_a_master_acknowledged_survives_kills_power_cuts_and_bad_links():
    options = Options(faults=draw_for_server)
    for seed in range(10):
        simulate(write_to_a_master_that_dies, seed=seed, options=options)


@pytest.mark.parametrize("way", ["kill", "cut_power"])
def test_a_host_that_is_gone_is_lost_sooner_or_later(way: str):
    async def main(simulation: Simulation) -> float:
        async with line(simulation, 2) as (first, second):
            statuses = first.subscribe_status()
            began = simulation.now
            await getattr(simulation.host("beta"), way)()
            async for event in statuses:
                if event.status.name == "PEER_LOST":
                    assert event.endpoint == second.node_id()
                    return simulation.now - began
        return -1

    seconds = simulate(main, seed=3)
    assert 0 <= seconds < 60
    assert (seconds < 1) == (way == "kill")


async def pause_the_reader_then_the_writer(simulation: Simulation) -> None:
    async with line(simulation, 2) as (first, second):
        subscriber = second.subscribe("news")
        await hear_of_subscriptions([first, second])
        for name in ("beta", "alpha"):
            host = simulation.host(name)
            await host.pause()
            await first.publish("news", name)
            await elapse(1)
            assert subscriber.available() == 0
            await host.resume()
            assert (await subscriber.get(timeout=10))[1] == name


def test_an_endpoint_on_a_paused_host_reads_and_sends_nothing_though_the_test_uses_it():
    for seed in range(10):
        simulate(pause_the_reader_then_the_writer, seed=seed)


async def expire_by_a_wrong_clock(simulation: Simulation) -> list[object]:
    async with line(simulation, 1) as (endpoint,), endpoint.attach_master("s") as store:
        await (await store.put("key", "value", expiry=timedelta(minutes=1))).applied()
        await simulation.host("alpha").skew_clock(100)
        await elapse(50)
        kept = await store.keys()
        await elapse(11)
        return [kept, await store.keys()]


def test_entries_expire_when_their_time_has_passed_whatever_the_clock_of_their_host_says():
    assert simulate(expire_by_a_wrong_clock, seed=1) == [["key"], []]
