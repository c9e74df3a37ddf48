"""Spark with checkpoints at a gateway, beside ``file://``: ``python -m benchmarks.checkpoints``.

One session of Spark runs the same small jobs with checkpoints in a local directory, at a gateway
whose store is on disk, and at one whose store is on disk and has two clones that have to have each
change before it is answered. Places take turns. Told is the median time of a batch, as Spark itself
measures it, without the first batches of each run; ratios are of the rounds' medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final

from pyspark.sql import SparkSession

from peermesh.spark import trial
from peermesh.spark.configuration import spark_conf
from peermesh.spark.local import LocalSpark
from peermesh.spark.trial import Kind

KINDS: Final = (Kind.STATELESS, Kind.HDFS, Kind.ROCKSDB)
BATCHES: Final = 25
WARM_UP: Final = 5
GOALS: Final = {"on disk": 1.0, "on three replicas": 1.5}
"""Times of ``file://`` that a batch may take (issue 5)."""

COMMAND: Final = (sys.executable, "-m", "peermesh.cli")


@contextmanager
def running(*arguments: str) -> Iterator[IO[str]]:
    """Run a command of ours, and give what it writes."""
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def await_event(output: IO[str], name: str) -> dict[str, str]:
    """Read on until something has happened."""
    return next(event for event in map(json.loads, output) if event["event"] == name)


@contextmanager
def gateway(path: Path, replicas: int) -> Iterator[str]:
    """Serve a store on disk, with so many clones; gives the address."""
    with ExitStack() as stack:
        output = stack.enter_context(
            running(
                "serve", "webhdfs", "--store", f"checkpoints:{path}", "--http", "127.0.0.1:0",
                "--listen", "127.0.0.1:0", "--json", "--replicas", str(replicas),
            )
        )  # fmt: skip
        mesh = f"127.0.0.1:{await_event(output, 'listening')['port']}"
        address = await_event(output, "serving")["address"]
        for _ in range(replicas):
            clone = stack.enter_context(
                running("node", "--clone", "checkpoints", "--peer", mesh, "--json")
            )
            await_event(clone, "clone")
        yield address


def measure(spark: SparkSession, kind: Kind, source: Path, place: str, output: Path) -> float:
    """Run a job to its end; give the median of its batches, in milliseconds."""
    query = trial.start(spark, kind, source, place, output)
    query.awaitTermination()
    assert trial.counts_of(kind, output) == trial.recount(source), "it has to be exact, too"
    taken = [progress.durationMs["triggerExecution"] for progress in query.recentProgress]
    return statistics.median(taken[WARM_UP:])


def main() -> int:
    """Measure, and tell; the code is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description="Measure batches of Spark beside file://.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="peermesh-checkpoints-") as name, ExitStack() as stack:
        base = Path(name)
        trial.write_source(base / "source", (f"words of text {n}" for n in range(BATCHES)))
        disk = stack.enter_context(gateway(base / "disk.db", 0))
        replicated = stack.enter_context(gateway(base / "replicated.db", 2))
        places = {
            "file://": (base / "local").as_uri(),
            "on disk": f"webhdfs://{disk}",
            "on three replicas": f"webhdfs://{replicated}",
        }
        folder = base / "spark"
        folder.mkdir()
        local = stack.enter_context(LocalSpark("checkpoints", folder, spark_conf(disk)))
        found: dict[tuple[Kind, str], list[float]] = {}
        for number in range(rounds):
            for kind in KINDS:
                for place, url in places.items():
                    run = f"{kind}{number}"
                    output = base / f"output-{run}-{place.partition(':')[0]}"
                    median = measure(local.session(), kind, base / "source", f"{url}/{run}", output)
                    found.setdefault((kind, place), []).append(median)
    return tell(found)


def tell(found: dict[tuple[Kind, str], list[float]]) -> int:
    """Write a table; give 1 if a goal is missed."""
    missed = 0
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| job | place | median of a batch | beside file:// | goal |\n|---|---|---:|---:|---:|")
    for (kind, place), medians in found.items():
        median = statistics.median(medians)
        if place not in GOALS:
            print(f"| {kind} | {place} | {median:.0f} ms | 1.00 | |")
            continue
        ratio = median / statistics.median(found[kind, "file://"])
        missed += ratio > GOALS[place]
        print(f"| {kind} | {place} | {median:.0f} ms | {ratio:.2f} | {GOALS[place]:.1f} |")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
