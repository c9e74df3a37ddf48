"""Sessions, locks and elections through killed leaders and paused holders, in virtual time.

What must hold at each instant: a holder that acts, and was alive by its own count just before, has
a token that is no lesser than any with which another one acted before.
"""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.stores.store import ReplicaStore
from peermesh.testing.faults import Partition
from peermesh.testing.simulation import Simulation, elapse, run
from wire.errors import NoQuorum, RequestTimeout, SessionExpired

VOTERS = ("a", "b", "c")
HOLDERS = ("d", "e", "f")
PORT = 9_000
TTL = 3.0


class Trial:
    """Three voters and three programs that want the same lock."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.hosts = {name: simulation.host(name) for name in VOTERS + HOLDERS}
        self.stores: dict[str, ReplicaStore] = {}
        self.tokens: list[tuple[int, int, int]] = []
        """Of all acts, in their order."""
        self.acts = dict.fromkeys(HOLDERS, 0)
        self.lost = 0
        for name in VOTERS:
            self.hosts[name].start(self.live, name, None)
        for name in HOLDERS:
            self.hosts[name].start(self.live, name, self.contend)

    async def live(self, name, work) -> None:
        async with Endpoint(name=name) as endpoint, trio.open_nursery() as nursery:
            await endpoint.listen(self.hosts[name].address, PORT)
            for other in self.hosts:
                if other != name:
                    address = self.hosts[other].address
                    nursery.start_soon(endpoint.peer, address, PORT)
            store = await endpoint.attach_replica("s", voters=VOTERS if name in VOTERS else ())
            self.stores[name] = store
            if work is None:
                await trio.sleep_forever()
            await work(name, store)

    async def contend(self, name: str, store: ReplicaStore) -> None:
        while True:
            try:
                await store.await_leader(30)
                async with store.lock("it", ttl=TTL, timeout=20) as lock:
                    for _ in range(self.simulation.random.randrange(1, 8)):
                        await elapse(self.simulation.random.uniform(0.05, 0.5))
                        self.act(name, lock)
            except SessionExpired:
                self.lost += 1
            except (NoQuorum, RequestTimeout):
                pass

    def act(self, name: str, lock) -> None:
        """Do something that only one at a time may do: no other task runs in here."""
        lock.check()
        assert not self.tokens or tuple(lock.token) >= self.tokens[-1], (name, lock.token)
        self.tokens.append(tuple(lock.token))
        self.acts[name] += 1

    def leader(self) -> str | None:
        return next((name for name in VOTERS if self.is_leading(name)), None)

    def is_leading(self, name: str) -> bool:
        return name in self.stores and self.stores[name].is_leader()

    async def fail(self) -> None:
        """Pause holders and leaders, and kill leaders, one after the other."""
        random = self.simulation.random
        drawn = random.random()
        if drawn < 0.2:
            alone = random.choice(HOLDERS)
            links = [
                self.simulation.link(self.hosts[alone], self.hosts[name])
                for name in self.hosts
                if name != alone
            ]
            for link in links:
                await link.apply(Partition())
            await elapse(random.uniform(0.5, 3 * TTL))
            for link in links:
                await link.heal()
        elif drawn < 0.5:
            host = self.hosts[random.choice(HOLDERS)]
            await host.pause()
            await elapse(random.uniform(0.5, 3 * TTL))
            await host.resume()
        elif (leader := self.leader()) is not None:
            host = self.hosts[leader]
            if drawn < 0.8:
                await host.pause()
                await elapse(random.uniform(0.5, 2 * TTL))
                await host.resume()
            else:
                await host.kill()
                await elapse(random.uniform(0.5, 3))
                await host.restart()
                await elapse(15)  # A voter in memory comes back as another one, which takes time.
        await elapse(random.uniform(1, 8))


@pytest.mark.parametrize("seed", range(3))
def test_no_two_holders_act_whatever_fails(seed: int) -> None:
    async def main(simulation: Simulation) -> Trial:
        trial = Trial(simulation)
        await elapse(8)
        for _ in range(10):
            await trial.fail()
        done = sum(trial.acts.values())
        await elapse(3 * TTL + 20)
        assert sum(trial.acts.values()) > done
        return trial

    result = run(seed, main)
    if result.error is not None:
        raise result.error
    trial = result.value
    assert all(trial.acts.values())
    assert trial.tokens == sorted(trial.tokens)
    assert len(set(trial.tokens)) > 10
