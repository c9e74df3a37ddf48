"""Replicas over a long way: a word and its answer take about a second, as by two satellites."""

from __future__ import annotations

import pytest

from peermesh import Start
from peermesh.testing.faults import Delay
from peermesh.testing.simulation import Simulation, elapse
from tests.endpoint.replicas.groups.test_counted_voters import Mesh, result_of

WAY_SECONDS = (0.1, 0.3, 0.5)


async def make_far(mesh: Mesh, way_seconds: float) -> None:
    """Have every byte take so long from any host to any other one."""
    for name, host in mesh.hosts.items():
        for other, another in mesh.hosts.items():
            if other < name:
                await mesh.simulation.link(host, another).apply(Delay(way_seconds))


@pytest.mark.parametrize("way_seconds", WAY_SECONDS)
def test_a_learner_that_is_far_away_joins_and_writes(way_seconds: float) -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "ab")
        await make_far(mesh, way_seconds)
        mesh.start("a", voters=["a"])
        await elapse(1)
        for number in range(20):
            await (await mesh.stores["a"].put(number, number)).applied()
        mesh.start("b", voters=["a"])
        await elapse(10)
        store = mesh.stores["b"]
        await (await store.put("b", 1)).applied()
        assert await store.read("linear").get("b") == 1
        assert len(await store.keys()) == 21
        async with store.lock("it", ttl=30):
            pass

    result_of(main)


@pytest.mark.parametrize("way_seconds", WAY_SECONDS)
def test_voters_that_are_far_away_elect_and_agree(way_seconds: float) -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "abc")
        await make_far(mesh, way_seconds)
        for name in "abc":
            mesh.start(name, voters=["a", "b", "c"])
        await elapse(30)
        for name in "abc":
            await (await mesh.stores[name].put(name, 1)).applied()
        for name in "abc":
            assert sorted(await mesh.stores[name].read("linear").keys()) == ["a", "b", "c"]

    result_of(main)


@pytest.mark.parametrize("way_seconds", WAY_SECONDS)
def test_a_clone_and_a_proxy_that_are_far_away_read_and_write(way_seconds: float) -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "abc")
        await make_far(mesh, way_seconds)
        for name, kind in zip(
            "abc", ("attach_master", "attach_clone", "attach_proxy"), strict=True
        ):
            mesh.kind = kind
            mesh.start(name)
            await elapse(10)
        for name in "bc":
            await (await mesh.stores[name].put(name, 1)).applied()
            assert await mesh.stores[name].get(name) == 1
        assert await mesh.stores["b"].await_idle(timeout=20)
        assert sorted(await mesh.stores["b"].keys()) == ["b", "c"]

    result_of(main)


@pytest.mark.parametrize("way_seconds", WAY_SECONDS)
def test_a_log_that_is_far_away_takes_entries_and_gives_them(way_seconds: float) -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "abcd")
        await make_far(mesh, way_seconds)
        mesh.kind = "attach_log_replica"
        for name in "abc":
            mesh.start(name, voters=["a", "b", "c"])
        await elapse(30)
        mesh.kind = "attach_log_proxy"
        mesh.start("d")
        await elapse(10)
        for name in "abcd":
            await (await mesh.stores[name].append(name)).applied()
        for name in "abcd":
            async with mesh.stores[name].consume(start=Start.EARLIEST) as consumer:
                assert [(await consumer.get(timeout=20)).value for _ in "abcd"] == [*"abcd"]

    result_of(main)
