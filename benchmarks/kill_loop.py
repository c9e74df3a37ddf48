"""Kill -9, round after round: ``python -m benchmarks.kill_loop --rounds 200``.

A master on disk and two clones, each a process, write without pause: every write is a key of its
own and an increment. In each round one of the three is killed and started again. What was
acknowledged is written down by the writers' parent, which is not killed. In the end all replicas
have to be equal, and hold exactly what was acknowledged, and maybe what nobody heard of.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import trio

from peermesh import Backend, Endpoint, MeshError, Store

NAME: Final = "kill-loop"
ROLES: Final = ("master", "first clone", "second clone")
WINDOW: Final = 64
"""Writes that a writer has under way."""
PATIENCE_SECONDS: Final = 60.0


# -- the processes that are killed -----------------------------------------------------------------


async def live(role: str, port: int, path: str, life: int) -> None:
    """Be one of the three: attach, and write until the end; tell the parent of every answer."""
    async with Endpoint() as endpoint:
        await endpoint.peer("127.0.0.1", port)
        if role == "master":
            store = await endpoint.attach_master(NAME, Backend.SQLite, path=path)
        else:
            store = await endpoint.attach_clone(NAME)
            await store.await_idle(timeout=PATIENCE_SECONDS)
        say({"event": "up"})
        room = trio.CapacityLimiter(WINDOW)
        async with trio.open_nursery() as nursery:
            number = 0
            while True:
                number += 1
                await room.acquire_on_behalf_of(number)
                nursery.start_soon(write, store, f"{role}/{life}/{number}", number, room)


async def write(store: Store, key: str, number: int, room: trio.CapacityLimiter) -> None:
    """Write one key and one increment; say when each was asked for, and acknowledged."""
    say({"event": "asked", "key": key})
    put, increment = await store.put(key, number), await store.increment("count")
    try:
        await put.applied()
        await increment.applied()
    except MeshError:
        pass  # The parent counts it among those of which nobody knows.
    else:
        say({"event": "done", "key": key})
    room.release_on_behalf_of(number)


def say(message: dict[str, object]) -> None:
    """Tell the parent, which outlives the kill: a pipe keeps what was written."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


# -- the parent ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Record:
    """What the writers said."""

    asked: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    news: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)


class Actor:
    """One of the three processes, in one life after the other."""

    def __init__(self, role: str, port: int, path: Path, record: Record) -> None:
        """Be not started yet."""
        self.role = role
        self._port = port
        self._path = path
        self._record = record
        self._life = 0
        self._process: trio.Process | None = None
        self._up = trio.Event()
        self._drained = trio.Event()

    async def start(self, nursery: trio.Nursery) -> None:
        """Start it, and wait until it writes."""
        self._life += 1
        self._up, self._drained = trio.Event(), trio.Event()
        arguments = (self.role, str(self._port), str(self._path), str(self._life))
        command = [sys.executable, "-m", "benchmarks.kill_loop", "--live", *arguments]
        self._process = await trio.lowlevel.open_process(command, stdout=-1)
        nursery.start_soon(self._read, self._process)
        with trio.fail_after(PATIENCE_SECONDS):
            await self._up.wait()

    async def kill(self) -> None:
        """Kill it, and hear all that it had said."""
        assert self._process is not None, self.role
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        await self._drained.wait()

    async def _read(self, process: trio.Process) -> None:
        assert process.stdout is not None, self.role
        buffer = b""
        async for data in process.stdout:
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if message["event"] == "up":
                    self._up.set()
                elif message["event"] == "asked":
                    self._record.asked.add(message["key"])
                else:
                    self._record.done.add(message["key"])
                    self._record.news.unpark_all()
        self._drained.set()


async def kill_in_rounds(rounds: int, seed: int, directory: Path) -> str:
    """Do it; gives a sentence about what was found, or raises ``AssertionError``."""
    chance, record = Random(seed), Record()
    async with Endpoint() as hub:
        port = await hub.listen()
        async with trio.open_nursery() as nursery:
            found = [Actor(role, port, directory / "store.db", record) for role in ROLES]
            for actor in found:
                await actor.start(nursery)
            for number in range(rounds):
                goal = len(record.done) + chance.randrange(1, 200)
                with trio.fail_after(PATIENCE_SECONDS):
                    while len(record.done) < goal:
                        await record.news.park()
                victim = found[number % len(found)]
                await victim.kill()
                await victim.start(nursery)
            for actor in reversed(found):
                await actor.kill()
        return await compare(hub, directory / "store.db", record)


async def compare(hub: Endpoint, path: Path, record: Record) -> str:
    """Start the master and two clones anew, in this process, and look at what they hold."""
    async with Endpoint() as there, Endpoint() as elsewhere:
        port = await there.listen()
        await elsewhere.peer("127.0.0.1", port)
        await hub.peer("127.0.0.1", port)
        master = await there.attach_master(NAME, Backend.SQLite, path=path)
        clones = [await each.attach_clone(NAME) for each in (hub, elsewhere)]
        for clone in clones:
            assert await clone.await_idle(timeout=PATIENCE_SECONDS)
        verification = await clones[0].verify(timeout=PATIENCE_SECONDS)
        assert verification, str(verification)
        assert len(verification.replicas) == 1 + len(clones), str(verification)
        keys = {str(key) for key in await master.keys()} - {"count"}
        count = await master.get("count")
    lost, invented = record.done - keys, keys - record.asked
    assert not lost, f"{len(lost)} acknowledged writes are lost, such as {min(lost)}"
    assert not invented, f"{len(invented)} keys were never asked for, such as {min(invented)}"
    assert isinstance(count, int), count
    least, most = len(record.done), len(record.asked)
    assert least <= count <= most, f"{count} increments; {least} were acknowledged, {most} asked"
    unknown = len(keys) - len(record.done)
    return f"{least} acknowledged writes, all there once; {unknown} more of which nobody had heard"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_loop", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--live", nargs=4, metavar=("ROLE", "PORT", "PATH", "LIFE"), help="internal"
    )
    options = parser.parse_args()
    if options.live:
        role, port, path, life = options.live
        trio.run(live, role, int(port), path, int(life))
        return
    with tempfile.TemporaryDirectory() as directory:
        found = trio.run(kill_in_rounds, options.rounds, options.seed, Path(directory))
    print(f"{options.rounds} rounds: {found}")


if __name__ == "__main__":
    main()
