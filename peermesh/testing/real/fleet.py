"""Workers in processes of their own, writers that keep them busy, and the look at what is left.

What was acknowledged has to be there; what was never asked for must not be; and once all is quiet
every worker shows the same.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import trio

from endpoint.shielding import shielded
from peermesh.testing.nurseries import open_serving_nursery
from peermesh.testing.processes import REAP_SECONDS, Program, ProgramEnded
from peermesh.testing.real.worker import Assignment
from peermesh.testing.time_limits import limit

PATIENCE_SECONDS: Final = 60.0
"""How long a truth may take to come about, on a machine with other things to do. What takes longer
does not happen."""

WRITERS: Final = 3
"""Puts under way at each worker, so that there is always something to lose."""

ROOT: Final = Path(__file__).resolve().parent.parent.parent.parent
"""Where this package was imported from: the workers have to import the same."""

Command = Callable[[list[str]], list[str]]
"""Puts something in front of a worker's command, such as the way into a namespace."""


class Violation(Exception):
    """A promise was broken: the text says what is lost, or what does not happen."""


@dataclass(slots=True)
class Record:
    """What was asked for, and what became of it."""

    acknowledged: dict[str, str]
    """Puts that were confirmed. They are for ever."""
    unsure: dict[str, str]
    """Puts of which nobody knows: under way in a crash, or refused by a disk that fails."""


class Worker:
    """One process with an endpoint and a store."""

    def __init__(self, name: str, assignment: Assignment, wrap: Command) -> None:
        """Start nothing yet."""
        self.name = name
        self.assignment = assignment
        self.endpoint_id = ""
        self.statuses: list[tuple[str, str | None]] = []
        """The status events of this life: what, and about whom."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PEERMESH_ALLOW_PLAIN": "true"}
        self._wrap = wrap
        self.program = Program(self._command(), environment)
        self._numbers = count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._news = trio.lowlevel.ParkingLot()
        self._is_heard = False
        self._deaths = 0

    def _command(self) -> list[str]:
        module = "peermesh.testing.real.worker"
        return self._wrap([sys.executable, "-m", module, self.assignment.to_json()])

    async def live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start, and hear what the process says until it ends."""
        self.program.command = tuple(self._command())
        await self.program.start()
        self.statuses, self._answers, self._is_heard = [], {}, True
        try:
            while True:
                words = json.loads(await self.program.hear())
                if words.get("event") == "ready":
                    self.endpoint_id = words["id"]
                    self.assignment = replace(self.assignment, port=words["port"])
                    task_status.started()
                elif words.get("event") == "status":
                    self.statuses.append((words["status"], words["endpoint"]))
                else:
                    self._answers[words["number"]] = words
                self._news.unpark_all()
        except ProgramEnded:
            pass
        finally:
            self._is_heard = False
            self._deaths += 1
            self._news.unpark_all()

    async def kill(self) -> None:
        """Kill the process with SIGKILL, and hear what it said last."""
        await self.program.kill()
        while self._is_heard:
            await self._news.park()

    async def ask(self, do: str, **words: object) -> dict[str, Any]:
        """Have something done, and give the answer; raises ``ProgramEnded``."""
        number = next(self._numbers)
        await self.program.say(json.dumps({"number": number, "do": do, **words}))
        await self.until(lambda: number in self._answers)
        return self._answers.pop(number)

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait for a truth about what was heard; raises ``ProgramEnded``."""
        deaths = self._deaths
        while not is_true():
            if not self._is_heard or self._deaths > deaths:
                raise ProgramEnded(f"{self.name} has ended")
            await self._news.park()


class Fleet:
    """Some workers, the writers at each, and the record."""

    def __init__(self, nursery: trio.Nursery, workers: Mapping[str, Worker]) -> None:
        """Start nothing yet; ``open_fleet`` does."""
        self.workers = workers
        self.record = Record({}, {})
        self._nursery = nursery
        self._keys = count(1)
        self._is_writing = False
        self._under_way = 0
        self._changed = trio.lowlevel.ParkingLot()

    async def start(self, name: str) -> None:
        """Start a worker, and its writers."""
        with patience(f"{name} does not start"):
            await self._nursery.start(self.workers[name].live)
        for _ in range(WRITERS):
            self._nursery.start_soon(self._write, self.workers[name])

    async def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL."""
        await self.workers[name].kill()

    # Writing.

    async def _write(self, worker: Worker) -> None:
        """Put one key after the other until the worker ends."""
        life = worker.program.lives
        while worker.program.lives == life:
            while not self._is_writing:
                await self._changed.park()
            try:
                await self.put(worker.name)
            except ProgramEnded:
                return

    async def put(self, name: str, *, size: int = 10) -> str | None:
        """Put a new key; give the error, if there is one. Raises ``ProgramEnded``."""
        number = next(self._keys)
        key, value = f"{name}-{number}", str(number).ljust(size, ".")
        self.record.unsure[key] = value
        self._under_way += 1
        try:
            answer = await self.workers[name].ask("put", key=key, value=value)
        finally:
            self._under_way -= 1
            self._changed.unpark_all()
        if "error" in answer:
            return f"{answer['error']}: {answer['text']}"
        self.record.acknowledged[key] = self.record.unsure.pop(key)
        return None

    def write(self) -> None:
        """Let the writers go on."""
        self._is_writing = True
        self._changed.unpark_all()

    async def acknowledged(self, more: int, *, at: str | None = None) -> None:
        """Wait until so many more puts are acknowledged; at one worker, if it is named."""

        def number() -> int:
            if at is None:
                return len(self.record.acknowledged)
            return sum(key.startswith(f"{at}-") for key in self.record.acknowledged)

        goal = number() + more
        with patience(f"puts {'' if at is None else f'at {at} '}are not acknowledged any more"):
            while number() < goal:
                await self._changed.park()

    async def rest(self) -> None:
        """Have the writers stop, and wait for what they have under way."""
        self._is_writing = False
        with patience(f"{self._under_way} puts are neither acknowledged nor refused"):
            while self._under_way:
                await self._changed.park()

    # Looking.

    async def check(self) -> None:
        """Rest, wait for idleness, and look; raises ``Violation``."""
        await self.rest()
        tables = {name: await self._table(worker) for name, worker in self.workers.items()}
        for name, table in tables.items():
            self.check_table(name, table)
        first, *others = tables
        for other in others:
            if tables[other] != tables[first]:
                raise Violation(f"{first} and {other} are idle, and show different tables")

    def check_table(self, name: str, table: dict[str, str]) -> None:
        """Compare a table with the record; raises ``Violation``."""
        for key, value in self.record.acknowledged.items():
            if table.get(key) != value:
                raise Violation(
                    f"{key} was acknowledged with {value!r}; {name} has {table.get(key)!r}"
                )
        known = self.record.acknowledged | self.record.unsure
        invented = [key for key, value in table.items() if known.get(key) != value]
        if invented:
            raise Violation(f"{name} has {invented[0]}, which nobody has asked for like this")

    async def _table(self, worker: Worker) -> dict[str, str]:
        idle = await worker.ask("idle", timeout=limit(PATIENCE_SECONDS))
        if not idle.get("reached"):
            reason = idle.get("reason") or idle.get("text")
            raise Violation(f"{worker.name} does not become idle: {reason}")
        answer = await worker.ask("items")
        if "error" in answer:
            raise Violation(f"{worker.name} cannot be read: {answer['text']}")
        items: dict[str, str] = answer["items"]
        return items


@contextmanager
def patience(text: str) -> Iterator[None]:
    """Wait for a truth as long as is sensible; then ``text`` says what does not happen."""
    with trio.move_on_after(seconds := limit(PATIENCE_SECONDS)) as scope:
        yield
    if scope.cancelled_caught:
        raise Violation(f"{text}, for {seconds:.3g} s")


def unwrapped(command: list[str]) -> list[str]:
    """Put nothing in front of a command."""
    return command


@asynccontextmanager
async def open_fleet(
    path: Path,
    *,
    hosts: Mapping[str, str] | None = None,
    wraps: Mapping[str, Command] | None = None,
) -> AsyncIterator[Fleet]:
    """Start a master, ``a``, and two clones, ``b`` and ``c``, all peers of each other.

    ``path`` is that of the master's file. ``hosts`` gives the address of each worker, ``wraps``
    what stands in front of their commands.
    """
    async with open_serving_nursery() as nursery:
        workers: dict[str, Worker] = {}
        fleet = Fleet(nursery, workers)
        try:
            for name in "abc":
                host = "127.0.0.1" if hosts is None else hosts[name]
                peers = [(each.assignment.host, each.assignment.port) for each in workers.values()]
                assignment = Assignment(host, 0, str(path) if name == "a" else None, peers)
                workers[name] = Worker(
                    name, assignment, unwrapped if wraps is None else wraps[name]
                )
                await fleet.start(name)
            yield fleet
        finally:
            with shielded("all workers to be gone", REAP_SECONDS):
                for worker in workers.values():
                    await worker.program.close()
