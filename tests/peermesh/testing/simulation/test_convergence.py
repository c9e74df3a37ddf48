"""A ring of endpoints under drawn faults: afterwards everybody hears everybody, and once."""

from __future__ import annotations

from random import Random

import pytest
import trio

from peermesh import Endpoint
from peermesh.testing.simulation import Host, Options, Schedule, Simulation, draw, elapse, simulate

NAMES = ("alpha", "beta", "gamma", "delta")
PORT = 6_000


class Member:
    """One endpoint of the ring, started anew whenever its host is."""

    def __init__(self, host: Host, neighbour: Host) -> None:
        self.host = host
        self.neighbour = neighbour
        self.endpoint: Endpoint | None = None
        self.lives = 0
        self.heard: dict[tuple[str, int], list[int]] = {}
        self.changed = trio.lowlevel.ParkingLot()
        host.start(self.live)

    async def live(self) -> None:
        self.lives += 1
        life = (self.host.name, self.lives)
        async with Endpoint() as endpoint, trio.open_nursery() as nursery:
            self.heard = {}
            subscriber = endpoint.subscribe("said")
            await endpoint.listen(self.host.address, PORT)
            nursery.start_soon(endpoint.peer, self.neighbour.address, PORT)
            self.endpoint = endpoint
            nursery.start_soon(self.say, endpoint, life)
            async for _, data in subscriber:
                name, lives, number = data
                self.heard.setdefault((name, lives), []).append(number)
                self.changed.unpark_all()

    async def say(self, endpoint: Endpoint, life: tuple[str, int]) -> None:
        number = 0
        while True:
            await endpoint.publish("said", (*life, number))
            number += 1
            await elapse(0.25)

    def last_heard(self, other: Member) -> int:
        return max(self.heard.get((other.host.name, other.lives), [-1]))


async def ring(simulation: Simulation) -> None:
    hosts = [simulation.host(name) for name in NAMES]
    members = [
        Member(host, neighbour)
        for host, neighbour in zip(hosts, [*hosts[1:], hosts[0]], strict=True)
    ]
    await simulation.carry_out()
    await simulation.heal()
    await converge(members)
    for member in members:
        for numbers in member.heard.values():
            assert len(numbers) == len(set(numbers)), "at most once"


async def converge(members: list[Member]) -> None:
    """Wait until everybody has heard something of everybody that was said after the healing."""
    last = max(member.last_heard(other) for member in members for other in members)
    with trio.fail_after(150):
        for member in members:
            for other in members:
                while member is not other and member.last_heard(other) <= last:
                    await member.changed.park()


def faults(chance: Random) -> Schedule:
    return draw(chance, NAMES, seconds=20, count=8)


@pytest.mark.parametrize("seed", range(10))
def test_after_any_faults_everybody_hears_everybody_again(seed: int):
    simulate(ring, seed=seed, options=Options(faults=faults))
