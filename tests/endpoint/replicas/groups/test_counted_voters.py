"""Groups that are given a number of voters instead of their names, in virtual time."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.stores.store import ReplicaStore
from peermesh.testing.faults import Partition
from peermesh.testing.simulation import Simulation, elapse, run
from wire.errors import InvalidData, NoQuorum

PORT = 9_000
SETTLED = 15.0
"""Seconds after which all that are level have become voters: ten in touch, and some more."""


class Mesh:
    """Hosts with a replica each, all of them peers."""

    def __init__(self, simulation: Simulation, names: str) -> None:
        self.simulation = simulation
        self.hosts = {name: simulation.host(name) for name in names}
        self.stores: dict[str, ReplicaStore] = {}
        self.conflicts: list[str] = []
        self.kind = "attach_replica"

    def start(self, name: str, **options: object) -> None:
        self.hosts[name].start(self._live, name, options)

    async def _live(self, name: str, options: dict[str, object]) -> None:
        async with Endpoint(name=name) as endpoint, trio.open_nursery() as nursery:
            await endpoint.listen(self.hosts[name].address, PORT)
            for other, host in self.hosts.items():
                if other < name:
                    nursery.start_soon(endpoint.peer, host.address, PORT)
            with endpoint.subscribe_status() as status:
                self.stores[name] = await getattr(endpoint, self.kind)("s", **options)
                async for event in status:
                    if event.status is StatusCode.STORE_CONFLICT:
                        self.conflicts.append(name)

    async def voters(self, asked: str) -> set[str]:
        return {each.name for each in await self.stores[asked].members() if each.is_voter}

    async def part(self, alone: str) -> None:
        for name, host in self.hosts.items():
            if name != alone:
                await self.simulation.link(self.hosts[alone], host).apply(Partition())


def result_of(main):
    result = run(1, main)
    if result.error is not None:
        raise result.error
    return result.value


def test_a_founder_makes_those_that_ask_voters_up_to_the_number() -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "abcde")
        mesh.start("a", voters=3, found=True)
        mesh.start("b")
        await elapse(5)
        assert await mesh.voters("a") == {"a"}
        await (await mesh.stores["b"].put("k", 1)).applied()
        for name in "cde":
            mesh.start(name, voters=3)
            await elapse(2)
        await elapse(SETTLED)
        # The fourth that asks is a learner, and so is the one that never asked.
        assert await mesh.voters("e") == {"a", "c", "d"}
        await mesh.hosts["a"].kill()
        await elapse(3)
        await (await mesh.stores["b"].put("k", 2)).applied()
        assert await mesh.stores["e"].read("linear").get("k") == 2

    result_of(main)


def test_nobody_founds_who_was_not_told_to() -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "ab")
        mesh.start("a", voters=2)
        mesh.start("b", voters=2)
        await elapse(SETTLED)
        with pytest.raises(NoQuorum, match=r"2 of 2 replicas have answered .* found=True"):
            await mesh.stores["a"].await_leader(timeout=1)

    result_of(main)


def test_a_founder_that_waits_for_others_is_not_told_to_be_one() -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "a")
        mesh.start("a", voters=2, found=True)
        await elapse(SETTLED)
        with pytest.raises(NoQuorum, match=r"1 of 2 replicas have answered .* elsewhere") as told:
            await mesh.stores["a"].await_leader(timeout=1)
        assert "found=True" not in str(told.value)

    result_of(main)


def test_a_founder_that_comes_back_without_its_memory_joins_what_is_there() -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "abc")
        mesh.start("a", voters=3, found=True)
        for name in "bc":
            mesh.start(name, voters=3)
        await elapse(2 * SETTLED)
        await (await mesh.stores["b"].put("k", 1)).applied()
        await mesh.hosts["a"].kill()
        await elapse(3)
        await mesh.hosts["a"].restart()
        await elapse(3 * SETTLED)
        assert await mesh.stores["a"].read("linear").get("k") == 1
        assert await mesh.voters("a") == {"a", "b", "c"}
        assert not mesh.conflicts

    result_of(main)


def test_a_log_may_have_a_number_of_voters_too() -> None:
    async def main(simulation: Simulation) -> None:
        mesh = Mesh(simulation, "abc")
        mesh.kind = "attach_log_replica"
        mesh.start("a", voters=3, found=True)
        for name in "bc":
            mesh.start(name, voters=3)
        await elapse(2 * SETTLED)
        assert await mesh.voters("a") == {"a", "b", "c"}
        await (await mesh.stores["b"].append("entry")).applied()
        await mesh.hosts["a"].kill()
        await elapse(3)
        await (await mesh.stores["c"].append("next")).applied()

    result_of(main)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"voters": ("a",), "found": True}, InvalidData, "the first one founds"),
        ({"voters": 0}, ValueError, "voters"),
        ({"voters": 32}, InvalidData, "up to 31"),
        ({"voters": "abc"}, TypeError, "a list of names, or a number"),
        ({"voters": True}, TypeError, "voters"),
    ],
)
async def test_voters_that_make_no_sense_are_refused(options, error, text) -> None:
    async with Endpoint(name="a") as endpoint:
        with pytest.raises(error, match=text):
            await endpoint.attach_replica("s", **options)


async def test_an_endpoint_without_a_name_is_no_voter() -> None:
    async with Endpoint() as endpoint:
        with pytest.raises(InvalidData, match="give Endpoint"):
            await endpoint.attach_replica("s", voters=3, found=True)
