"""Jobs, one after the other: each is fed, killed around until it ends, and counted again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from peermesh.blocking import Endpoint, Log, StoreProxy
from peermesh.spark.configuration import spark_conf
from tests.spark_kills.counting import Event, make_events, recount, to_line
from tests.spark_kills.job import STATES, Job, command, settings_of
from tests.spark_kills.keeper import CLEAN, EVENTS, PARTITIONS, RESULTS
from tests.spark_kills.mesh import Machines

VICTIMS = ("driver", "executor", "gateway", "log", "store")
STARTS_MAX = 60
"""Starts of a driver in one job: it has to get on."""

ANSWER_SECONDS = 120


class Place:
    """What a job reads and writes, as the loop sees it."""

    def __init__(self, endpoint: Endpoint, machines: Machines) -> None:
        for keeper in machines.keepers:
            endpoint.peer("127.0.0.1", keeper.port, 0.2, timeout=ANSWER_SECONDS)
        self.machines = machines
        self.events: Log = endpoint.attach_log_proxy(EVENTS, patience=ANSWER_SECONDS)
        self.clean: Log = endpoint.attach_log_proxy(CLEAN, patience=ANSWER_SECONDS)
        self.results: StoreProxy = endpoint.attach_proxy(RESULTS)

    def feed(self, events: list[Event]) -> str:
        """Append events in turns to all partitions; give the offsets from which on they are."""
        before = {str(number): span.end for number, span in self.events.offsets().items()}
        receipts = [
            self.events.append_batch(
                list(map(to_line, events[number::PARTITIONS])), partition=number
            )
            for number in range(PARTITIONS)
        ]
        for receipt in receipts:
            receipt.result(ANSWER_SECONDS)
        return json.dumps(before)

    def copied(self, since: dict[int, int]) -> list[str]:
        """Read what the copying query has written, from these offsets on."""
        found: list[str] = []
        for partition, span in self.clean.offsets().items():
            at = since.get(partition, 0)
            while at < span.end:
                entries = self.clean.read(partition, at, 4_096)
                found += [str(entry.value) for entry in entries]
                at = entries[-1].offset + 1
        return sorted(found)

    def check(self, name: str, events: list[Event], since: dict[int, int]) -> None:
        """Count again; raises ``AssertionError`` that tells what is missing or too much."""
        expected = recount(events)
        found: dict[tuple[str, datetime], object] = {}
        for entry in self.results.at_master().entries(prefix=(name,)):
            _, user, start = entry.key
            value = entry.value
            found[user, start] = (value["n"], Decimal(value["total"]), value["last"])
        wrong = {key for key in found.keys() | expected.sessions.keys()
                 if found.get(key) != expected.sessions.get(key)}  # fmt: skip
        assert not wrong, f"{len(wrong)} of {len(expected.sessions)} sessions: {sorted(wrong)[:3]}"
        lines = self.copied(since)
        odd = Counter(lines), Counter(expected.lines)
        assert lines == expected.lines, f"lost {odd[1] - odd[0]}, too many {odd[0] - odd[1]}"


@contextmanager
def place(machines: Machines) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(stack.enter_context(Endpoint(forwarding=False)), machines)


@dataclass
class Plan:
    """How a job is run, and who is killed meanwhile."""

    name: str
    victims: list[str]
    """In this order; when all were killed, the job runs to its end."""
    state: str
    rows_max: int = 60
    batches: int = 20
    every: tuple[int, int] = (1, 4)
    """Batches between two kills, from and to."""


@dataclass
class Done:
    """What became of a job."""

    name: str
    state: str
    batches: int
    kills: dict[str, int]
    starts: int
    seconds: int
    rows: int = 0
    failures: list[str] = field(default_factory=list)
    """With what a driver ended that was not killed."""


class Run:
    """One job."""

    def __init__(self, at: Place, plan: Plan, folder: Path, chance: random.Random) -> None:
        self.at, self.plan, self.folder, self.chance = at, plan, folder, chance
        self.progress = folder / "progress"
        self.left = list(plan.victims)
        self.kills: Counter[str] = Counter()
        self.starts = 0
        self.failures: list[str] = []

    def __call__(self) -> Done:
        """Do all of it; raises ``AssertionError`` for a wrong result."""
        began = time.monotonic()
        plan = self.plan
        since = {number: span.end for number, span in self.at.clean.offsets().items()}
        events = make_events(plan.name, plan.rows_max * plan.batches // 2, self.chance)
        starting = self.at.feed(events)
        job = Job(
            plan.name, self.at.machines.peers, f"webhdfs://mesh/{plan.name}", str(self.progress),
            starting, plan.rows_max,
        )  # fmt: skip
        while self._drive(job) != 0:
            assert self.starts < STARTS_MAX, f"it does not get on: {self.failures[-3:]}"
        self.at.check(plan.name, events, since)
        seconds = round(time.monotonic() - began)
        batches = self.told()
        return Done(
            plan.name, plan.state, batches, dict(self.kills), self.starts, seconds, len(events),
            self.failures,
        )  # fmt: skip

    def told(self) -> int:
        """Count the batches of both queries: those that are told, and those of lower numbers."""
        last: dict[str, int] = {}
        if self.progress.exists():
            for line in self.progress.read_text().splitlines():
                found = json.loads(line)
                last[found["query"]] = max(last.get(found["query"], -1), found["batch"])
        return sum(number + 1 for number in last.values())

    def _drive(self, job: Job) -> int:
        """Start a driver, kill around it until it ends, and give its code."""
        self.starts += 1
        log = self.folder / f"driver{self.starts}.log"
        settings = settings_of(self.plan.state) | spark_conf(*self.at.machines.http)
        is_cluster = "executor" in self.plan.victims
        settings["spark.master"] = "local-cluster[2,1,600]" if is_cluster else "local[2,4]"
        if is_cluster:
            settings["spark.executor.memory"] = "600m"
        with log.open("wb") as file:
            driver = subprocess.Popen(
                command(job, self.folder, settings), stdout=file, stderr=file,
                start_new_session=True, env={**os.environ, "TMPDIR": str(self.folder)},
            )  # fmt: skip
        was_killed = False
        try:
            while self.left and self._await_moment(driver):
                victim = self.left.pop(0)
                was_killed = victim == "driver"
                self.kills[victim] += 1
                self._kill(driver, victim)
            code = driver.wait()
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
        if code and not was_killed:
            self.failures.append(_reason(log))
        return code

    def _await_moment(self, driver: subprocess.Popen[bytes]) -> bool:
        """Wait for some batches, and a little longer; false if it ended before."""
        goal = self.told() + self.chance.randint(*self.plan.every)
        while self.told() < goal:
            if has_ended(driver, 0.02):
                return False
        return not has_ended(driver, self.chance.random())

    def _kill(self, driver: subprocess.Popen[bytes], victim: str) -> None:
        match victim:
            case "driver":
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
            case "executor":
                found = executors_of(driver.pid)
                while not found and not has_ended(driver, 0.05):  # both may be starting again
                    found = executors_of(driver.pid)
                for executor in found[:1]:
                    os.kill(executor, signal.SIGKILL)
            case _:
                self.at.machines.kill(victim)


def has_ended(driver: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait so long for a driver to end; tell whether it did."""
    try:
        driver.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _reason(log: Path) -> str:
    """Find the line that says why a driver ended."""
    lines = log.read_text("utf-8", "replace").splitlines()
    said = [line for line in lines if not line.startswith("\tat ")]  # no frames of Java
    told = [line for line in said if "Error" in line or "Exception" in line]
    return (told or lines or ["nothing was told"])[-1][:200]


def executors_of(session: int) -> list[int]:
    """Find the executors of a driver: they are in its session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if int(words[3]) == session and b"CoarseGrainedExecutorBackend" in line:
            found.append(int(folder.name))
    return found


def random_plan(name: str, victims: list[str], chance: random.Random, batches: int) -> Plan:
    """Kill one of ``victims`` after every few batches, as long as there are any."""
    killed = [chance.choice(victims) for _ in range(batches)]
    return Plan(name, killed, chance.choice(list(STATES)), batches=batches)
