"""Voters of a log in processes of their own, on disk: killed and restarted under a writer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from peermesh.testing.time_limits import limit
from tests.endpoint.replicas.groups.test_replica_processes import NAMES, Voters, open_voters
from tests.waiting import until
from wire.errors import NoQuorum


class LogVoters(Voters):
    """Three processes, and this one's replica, which has no vote."""

    program = "tests.endpoint.replicas.group_logs.voter"

    is_on_disk = True

    def arguments(self, name: str) -> list[str]:
        return super().arguments(name) if self.is_on_disk else []

    async def attach(self) -> None:
        self.store = await self.endpoint.attach_log_replica("l", voters=NAMES)

    async def put(self) -> float:
        """Append the next number, until that is acknowledged; gives the seconds that it took."""
        began = trio.current_time()
        self.asked += 1
        while True:
            receipt = await self.store.append(self.asked, producer="writer", sequence=self.asked)
            try:
                await receipt.applied()
            except NoQuorum:
                continue
            self.acknowledged.append(self.asked)
            return trio.current_time() - began

    async def check(self) -> None:
        """See that all that was acknowledged is there, once and in order."""
        while True:
            try:
                await self.store.catch_up()
            except NoQuorum:
                continue
            entries = await self.store.read(0, 0, limit=100_000)
            assert [entry.value for entry in entries] == self.acknowledged
            return


class MemoryVoters(LogVoters):
    """Voters without files: of those that are killed nothing is left."""

    is_on_disk = False


@pytest.mark.parametrize(("kind", "kills"), [(LogVoters, 3), (MemoryVoters, 1)])
async def test_leaders_that_are_killed_lose_no_append_and_repeat_none(
    tmp_path: Path, kind: type[LogVoters], kills: int
) -> None:
    async with open_voters(tmp_path, kind) as voters:
        consumed: list[int] = []

        async def consume() -> None:
            async with voters.store.consume("worker") as consumer:
                async for entry in consumer:
                    consumed.append(entry.value)
                    await consumer.commit()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            seconds = []
            for _ in range(kills):
                for _ in range(20):
                    await voters.put()
                leader = await voters.leader()
                began = trio.current_time()
                await voters.kill(leader)
                await voters.put()
                seconds.append(trio.current_time() - began)
                await voters.start(leader)
            await voters.check()
            await until(lambda: consumed == voters.acknowledged)
            nursery.cancel_scope.cancel()
        sys.stdout.write(f"fail-over: {sorted(seconds)} s\n")


async def test_when_all_are_killed_and_started_anew_all_entries_are_there(tmp_path: Path) -> None:
    async with open_voters(tmp_path, LogVoters) as voters:
        for _ in range(50):
            await voters.put()
        await (await voters.store.commit("worker", {0: 30})).applied()
        await voters.kill(*NAMES)
        for name in NAMES:
            await voters.start(name)
        await voters.put()
        await voters.check()
        await voters.store.await_leader(limit())
        assert await voters.store.committed("worker") == {0: 30}
