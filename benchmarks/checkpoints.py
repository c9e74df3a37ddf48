"""Spark with checkpoints at a gateway, beside ``file://``: ``python -m benchmarks.checkpoints``.

One session of Spark runs the same small jobs with checkpoints in a local directory, at a gateway
whose store is on disk, and at one of a group of three on disk, of which two have each change before
it is answered. Places take turns, and another one begins in each round. Told is the
median time of a batch, as Spark itself measures it, without the first batches of each run; ratios
are taken within a round, and told is their median. Beside it stands the processor time that a batch
took, of Spark with all that it starts, and of gateway and replicas: that depends less on what else
is running.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from peermesh.spark import trial
from peermesh.spark.configuration import spark_conf
from peermesh.spark.local import LocalSpark
from peermesh.spark.trial import Kind

KINDS: Final = (Kind.STATELESS, Kind.HDFS, Kind.ROCKSDB)
BATCHES: Final = 25
WARM_UP: Final = 5
GOALS: Final = {"on disk": 1.0, "on three replicas": 1.0}
"""Times of ``file://`` that a batch may take."""

COMMAND: Final = (sys.executable, "-m", "peermesh.cli")


class Command:
    """A command of ours that runs, and what it says."""

    def __init__(self, *arguments: str) -> None:
        """Start it."""
        self.process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True)

    def await_event(self, name: str) -> dict[str, str]:
        """Read on until something has happened."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, str] = json.loads(line)
            if event["event"] == name:
                return event
        raise RuntimeError(f"the command ended before {name}")

    def end(self) -> None:
        """Kill it, and wait for it."""
        self.process.kill()
        self.process.communicate()


@dataclass(frozen=True, slots=True)
class Place:
    """Where checkpoints are."""

    url: str
    processes: tuple[int, ...] = ()
    """Those that serve it."""


@contextmanager
def gateway(path: Path, voters: tuple[str, ...]) -> Iterator[Place]:
    """Serve a store on disk: a master's, or at the first of these replicas of a group."""
    with ExitStack() as stack:

        def start(*arguments: str) -> Command:
            command = Command(*arguments, "--listen", "127.0.0.1:0", "--json")
            stack.callback(command.end)
            return command

        place = ("--store", f"checkpoints:{path}", "--http", "127.0.0.1:0")
        group = ("--voters", ",".join(voters))
        role = (*group, "--node", voters[0]) if voters else ()
        first = start("serve", "webhdfs", *place, *role)
        mesh = f"127.0.0.1:{first.await_event('listening')['port']}"
        address = first.await_event("serving")["address"]
        others = [
            start(
                "node", "--name", name, "--replica", f"checkpoints:{path}.{name}", *group,
                "--peer", mesh,
            )
            for name in voters[1:]
        ]  # fmt: skip
        for other in others:
            other.await_event("store_master_found")
        served = tuple(each.process.pid for each in (first, *others))
        yield Place(f"webhdfs://{address}", served)


def processor_seconds(*processes: int) -> float:
    """Tell how long these processes have computed, with those that they started and outlived."""
    ticks = 0
    for process in processes:
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a job took, in milliseconds for each batch."""

    median: float
    spark: float
    """Processor time of Spark."""
    service: float
    """Processor time of those who serve the place."""


def measure(spark: SparkSession, kind: Kind, source: Path, place: Place, run: Path) -> Measured:
    """Run a job to its end."""
    java = SparkContext._gateway.proc.pid  # noqa: SLF001 - nobody else knows which process it is
    processes = ((java,), place.processes)
    before = [processor_seconds(*each) for each in processes]
    query = trial.start(spark, kind, source, f"{place.url}/{run.name}", run)
    query.awaitTermination()
    spent = [processor_seconds(*each) - was for each, was in zip(processes, before, strict=True)]
    assert trial.counts_of(kind, run) == trial.recount(source), "it has to be exact, too"
    taken = [progress.durationMs["triggerExecution"] for progress in query.recentProgress]
    median = statistics.median(taken[WARM_UP:])
    return Measured(median, *(1_000 * seconds / BATCHES for seconds in spent))


def main() -> int:
    """Measure, and tell; the code is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="Measure batches of Spark beside file://.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory(prefix="peermesh-checkpoints-") as folder_name,
        ExitStack() as stack,
    ):
        base = Path(folder_name)
        trial.write_source(base / "source", (f"words of text {n}" for n in range(BATCHES)))
        places = {
            "file://": Place((base / "local").as_uri()),
            "on disk": stack.enter_context(gateway(base / "disk.db", ())),
            "on three replicas": stack.enter_context(gateway(base / "a.db", ("a", "b", "c"))),
        }
        folder = base / "spark"
        folder.mkdir()
        settings = spark_conf(places["on disk"].url.removeprefix("webhdfs://"))
        local = stack.enter_context(LocalSpark("checkpoints", folder, settings))
        found: dict[tuple[Kind, str], list[Measured]] = {}
        names = list(places)
        for number, kind in itertools.product(range(rounds), KINDS):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                run = base / f"{kind}{number}-{names.index(name)}"
                measured = measure(local.session(), kind, base / "source", places[name], run)
                found.setdefault((kind, name), []).append(measured)
    return tell(found)


def tell(found: dict[tuple[Kind, str], list[Measured]]) -> int:
    """Write a table; give 1 if a goal is missed."""
    missed = 0
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| job | place | median of a batch | beside file:// | goal | Spark computes | service |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (kind, place), rounds in sorted(found.items()):
        pairs = zip(rounds, found[kind, "file://"], strict=True)
        ratio = statistics.median(here.median / there.median for here, there in pairs)
        median, spark, service = (
            statistics.median(getattr(each, name) for each in rounds)
            for name in ("median", "spark", "service")
        )
        goal = GOALS.get(place, "")
        missed += place in GOALS and ratio > GOALS[place]
        print(
            f"| {kind} | {place} | {median:.0f} ms | {ratio:.2f} | {goal}"
            f" | {spark:.0f} ms | {service:.0f} ms |"
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
