"""Locks between processes: a holder that is stopped, and leaders that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import trio

from tests.endpoint.replicas.groups.test_replica_processes import ROOT, Voters, open_voters


async def line_of(process: trio.Process) -> str:
    assert process.stdout is not None
    said = b""
    while not said.endswith(b"\n"):
        piece = await process.stdout.receive_some()
        assert piece, said
        said += piece
    return said.decode().strip()


async def start_holder(voters: Voters, ttl: float) -> trio.Process:
    command = [sys.executable, "-m", "tests.endpoint.replicas.groups.holder", str(ttl)]
    return await trio.lowlevel.open_process(
        [*command, *map(str, voters.ports.values())],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def test_who_was_stopped_for_too_long_learns_that_another_one_holds(tmp_path: Path) -> None:
    async with open_voters(tmp_path) as voters:
        holder = await start_holder(voters, 2)
        try:
            first = tuple(map(int, (await line_of(holder)).split()))
            holder.send_signal(signal.SIGSTOP)
            async with voters.store.lock("it", ttl=20) as lock:
                assert tuple(lock.token) > first
                holder.send_signal(signal.SIGCONT)
                assert await line_of(holder) == "lost"
                assert lock.is_alive
        finally:
            holder.kill()
            await holder.wait()


async def test_a_lock_is_held_through_killed_leaders_and_freed_by_a_killed_holder(
    tmp_path: Path,
) -> None:
    async with open_voters(tmp_path) as voters:
        holder = await start_holder(voters, 5)
        first = tuple(map(int, (await line_of(holder)).split()))
        for _ in range(2):
            leader = await voters.leader()
            await voters.kill(leader)
            await voters.put()
            await voters.start(leader)
        prefix = ("peermesh/lock", "it")
        page = await voters.store.read("linear").scan(prefix=prefix)
        assert [entry.revision for entry in page] == [first[2]]
        holder.kill()
        await holder.wait()
        async with voters.store.lock("it") as lock:
            assert tuple(lock.token) > first
