"""Voters in processes of their own, on disk: killed, stopped and restarted under a writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.stores.store import ReplicaStore
from peermesh.testing.time_limits import limit
from wire.errors import NoQuorum

NAMES = ("a", "b", "c")
ROOT = Path(__file__).parents[4]


class Voters:
    """Three processes, and this one's replica, which has no vote."""

    program = "tests.endpoint.replicas.groups.voter"

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self.store: ReplicaStore
        self.processes: dict[str, trio.Process] = {}
        self.ports: dict[str, int] = {}
        self.acknowledged: list[int] = []
        """Numbers that were put, and acknowledged."""
        self.asked = 0

    async def start(self, name: str) -> None:
        """Start a voter, peered with all others and with this process."""
        if name in self.ports:
            await self.endpoint.unpeer("127.0.0.1", self.ports[name])
        command = [sys.executable, "-m", self.program]
        process = await trio.lowlevel.open_process(
            [*command, name, *self.arguments(name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.processes[name] = process
        assert process.stdout is not None
        assert process.stdin is not None
        said = b""
        while not said.endswith(b"\n"):
            said += await process.stdout.receive_some()
        self.ports[name] = port = int(said)
        for other in NAMES:
            if other in self.processes and other != name:
                await process.stdin.send_all(b"%d\n" % self.ports[other])
        assert await self.endpoint.peer("127.0.0.1", port, timeout=limit())

    def arguments(self, name: str) -> list[str]:
        """Give what a voter's process is started with, besides its name."""
        return [str(self.folder / f"{name}.db")]

    async def attach(self) -> None:
        """Attach this process's replica."""
        self.store = await self.endpoint.attach_replica("s", voters=NAMES)

    async def kill(self, *names: str) -> None:
        """End voters without a word."""
        for name in names:
            self.processes[name].kill()
        for name in names:
            process = self.processes.pop(name)
            await process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    await pipe.aclose()

    def send(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    async def end(self) -> None:
        with trio.CancelScope(shield=True):
            await self.kill(*self.processes)

    async def put(self) -> float:
        """Put the next number, until that is acknowledged; gives the seconds that it took."""
        began = trio.current_time()
        self.asked += 1
        while True:
            receipt = await self.store.put(self.asked, self.asked)
            try:
                await receipt.applied()
            except NoQuorum:
                continue
            self.acknowledged.append(self.asked)
            return trio.current_time() - began

    async def leader(self) -> str:
        await self.store.await_leader(limit())
        found = self.store.leader()
        return found if found is not None else await self.leader()

    async def check(self) -> None:
        """See that all that was acknowledged is there."""
        reader = self.store.read("linear")
        while True:
            try:
                found = set(await reader.keys())
            except NoQuorum:
                continue
            assert found >= set(self.acknowledged)
            return


@asynccontextmanager
async def open_voters(folder: Path, kind: type[Voters] = Voters) -> AsyncIterator[Voters]:
    with trio.fail_after(limit(60)):
        async with Endpoint(name="reader") as endpoint:
            voters = kind(folder, endpoint)
            try:
                for name in NAMES:
                    await voters.start(name)
                await voters.attach()
                await voters.put()
                yield voters
            finally:
                await voters.end()


async def test_leaders_that_are_killed_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    async with open_voters(tmp_path) as voters:
        seconds = []
        for _ in range(4):
            for _ in range(20):
                await voters.put()
            leader = await voters.leader()
            began = trio.current_time()
            await voters.kill(leader)
            await voters.put()
            seconds.append(trio.current_time() - began)
            await voters.start(leader)
        sys.stdout.write(f"fail-over: {sorted(seconds)} s\n")
        await voters.check()


async def test_a_leader_that_is_stopped_is_replaced_and_follows_when_it_wakes(
    tmp_path: Path,
) -> None:
    async with open_voters(tmp_path) as voters:
        seconds = []
        for _ in range(2):
            leader = await voters.leader()
            voters.send(leader, signal.SIGSTOP)
            seconds.append(await voters.put())
            assert await voters.leader() != leader
            voters.send(leader, signal.SIGCONT)
            for _ in range(20):
                await voters.put()
        sys.stdout.write(f"fail-over: {sorted(seconds)} s\n")
        await voters.check()


async def test_a_stopped_follower_holds_nothing_up(tmp_path: Path) -> None:
    async with open_voters(tmp_path) as voters:
        leader = await voters.leader()
        follower = next(name for name in NAMES if name != leader)
        voters.send(follower, signal.SIGSTOP)
        for _ in range(50):
            await voters.put()
        assert await voters.leader() == leader
        voters.send(follower, signal.SIGCONT)
        await voters.check()


async def test_when_all_are_killed_and_started_anew_all_is_there(tmp_path: Path) -> None:
    async with open_voters(tmp_path) as voters:
        for _ in range(50):
            await voters.put()
        await voters.kill(*NAMES)
        with pytest.raises(NoQuorum, match="silent"):
            await (await voters.store.put("nowhere", 1)).applied()
        for name in NAMES:
            await voters.start(name)
        await voters.put()
        await voters.check()
