"""What is done to the group, one thing after the other, and how long it stands still for it."""

from __future__ import annotations

from collections import Counter
from random import Random

import trio

from peermesh import StatusCode
from peermesh.testing.disks import FailingWrite, SlowSync, probe_calls
from peermesh.testing.time_limits import limit
from tests.jepsen.clients import Clients
from tests.jepsen.group import LOG, NODES, STORE, VOTERS, Group
from tests.jepsen.logs import Appender

WRITES_MAX = 60
"""How many writes are acknowledged, at most, before a follower or a lost leader comes back."""

LONG_SYNC_SECONDS = 1.5
"""What a sync takes on a disk that is about to fail: longer than a leader may wait for it."""


class Nemesis:
    """Breaks one thing, waits until the group serves, mends it, and waits until all are level."""

    def __init__(self, group: Group, clients: Clients, appender: Appender, seed: int) -> None:
        self.group = group
        self.clients = clients
        self.appender = appender
        self.done: Counter[str] = Counter()
        self.fail_overs: Counter[str] = Counter()
        """By failure, how often another one led after it, or all had been killed."""
        self.seconds: dict[str, list[float]] = {}
        """By failure, how long no write was acknowledged after it."""
        self._chance = Random(seed)
        self._failures = [
            self.kill_the_leader,
            self.kill_the_leader,
            self.stop_the_leader,
            self.cut_the_leader_off,
            self.kill_a_follower,
            self.stop_a_follower,
            self.kill_all,
            self.restore_an_old_file,
        ]
        if probe_calls() is None:
            self._failures += [self.fill_the_leader_disk, self.slow_the_leader_disk]

    async def strike(self) -> None:
        """Do one thing, and wait until it is mended."""
        failure = self._chance.choice(self._failures)
        self.done[failure.__name__] += 1
        leader = await self.group.leader()
        await failure(leader)
        await self.clients.await_write()
        await self.appender.await_append()
        if failure == self.kill_all or await self.group.leader() != leader:
            self.fail_overs[failure.__name__] += 1

    # -- failures --------------------------------------------------------------------------------

    async def kill_the_leader(self, leader: str) -> None:
        await self.group.kill(leader)
        await self._measure("kill")
        await self.group.start(leader)

    async def kill_a_follower(self, leader: str) -> None:
        name = self._follower(leader)
        await self.group.kill(name)
        await self._measure("kill a follower")
        await self.group.start(name)

    async def kill_all(self, leader: str) -> None:
        await self.group.kill(*NODES)
        await self.group.start(*self._chance.sample(NODES, len(NODES)))

    async def stop_the_leader(self, leader: str) -> None:
        await self.group[leader].pause()
        await self._measure("stop")
        await self.group[leader].resume()
        self.group.moved.unpark_all()

    async def stop_a_follower(self, leader: str) -> None:
        name = self._follower(leader)
        await self.group[name].pause()
        await self._measure("stop a follower")
        await self._write_on()
        await self.group[name].resume()
        self.group.moved.unpark_all()

    async def cut_the_leader_off(self, leader: str) -> None:
        await self.group.cluster.partition([leader], [each for each in NODES if each != leader])
        await self._measure("cut")
        await self._write_on()
        await self.group.cluster.heal()

    async def fill_the_leader_disk(self, leader: str) -> None:
        """Have writes fail: the replica ends, and another one leads."""
        await self.group[leader].disturb_disk(FailingWrite("ENOSPC"))
        await self._measure("full disk")
        await self.group[leader].heal_disk()
        await self.group.kill(leader)
        await self.group.start(leader)

    async def slow_the_leader_disk(self, leader: str) -> None:
        await self.group[leader].disturb_disk(SlowSync(LONG_SYNC_SECONDS))
        await self._measure("slow disk")
        await self.group[leader].heal_disk()

    async def restore_an_old_file(self, leader: str) -> None:
        """Start a voter with files that lack what it has acknowledged: it has to notice."""
        name = self._follower(leader)
        await self.group.kill(name)
        old = self.group.keep(name)
        await self.group.start(name)
        await self.clients.await_write()
        await self.appender.await_append()
        await self._write_on()
        assert await self.group.handles[name].await_idle(limit(60))
        assert await self.group.logs[name].await_idle(limit(60))
        await self.group.kill(name)
        self.group.put_back(name, old)
        await self.group[name].restart()
        async with await self.group[name].subscribe_status() as events:
            await self.group.attach(name)
            told = 0
            async for event in events:
                told += event.status is StatusCode.REPLICA_REGRESSED
                # Each says that it lacks something, and then that it has it again.
                if told == 2 * len((STORE, LOG)):
                    break

    def _follower(self, leader: str) -> str:
        return self._chance.choice([each for each in VOTERS if each != leader])

    async def _write_on(self) -> None:
        for _ in range(self._chance.randrange(WRITES_MAX)):
            await self.clients.await_write()

    async def _measure(self, what: str) -> None:
        began = trio.current_time()
        await self.clients.await_write()
        self.seconds.setdefault(what, []).append(trio.current_time() - began)
