"""Kill -9 around a job of Spark, until it has done enough batches: ``python -m tests.spark_kills``.

A job drops duplicates, joins two streams and makes sessions. Its state is in files or in RocksDB,
its checkpoint at three gateways; its logs and its store are kept by groups of three, and it has
sinks into both. Every few batches, at a random moment, one of these is killed, and started again:

- the driver, with everything that belongs to it;
- an executor, of a driver with two executors in processes of their own;
- the gateway whose replica leads; what leads the log; what leads the store.

In the end of each job all that was written has to equal a plain recount. With ``--journal FILE``
every job that is done is noted there, and counts when the command is run again with the same
victims: so a long loop can be run in pieces.

``--nine`` runs one job through nine kills: the store's leader once, and two of each other.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import uuid
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.spark_kills.loop import VICTIMS, Done, Place, Plan, Run, place, random_plan
from tests.spark_kills.mesh import machines

JOB_BATCHES = 40
"""Batches of a job, of both queries, so that each kind of state gets its turn."""

NINE = ["log", "driver", "executor", "gateway", "store", "driver", "log", "executor", "gateway"]


class Journal:
    """The jobs that are done, in a file if one is named."""

    def __init__(self, path: Path | None, victims: list[str]) -> None:
        self.path, self.victims = path, victims
        self.jobs: list[Done] = []
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                found = json.loads(line)
                if found.pop("victims") == victims:
                    self.jobs.append(Done(**found))

    def note(self, done: Done) -> None:
        """Add a job."""
        self.jobs.append(done)
        line = json.dumps({"victims": self.victims, **asdict(done)})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(line + "\n")

    def tell(self) -> None:
        """Sum up."""
        kills = sum((Counter(job.kills) for job in self.jobs), Counter[str]())
        sys.stdout.write(
            f"{' and '.join(self.victims)}: {len(self.jobs)} jobs,"
            f" {sum(job.batches for job in self.jobs)} batches, {dict(kills)} killed,"
            f" {sum(job.starts for job in self.jobs)} starts of the driver,"
            f" {sum(len(job.failures) for job in self.jobs)} after an error,"
            f" {sum(job.rows for job in self.jobs):,} lines: exact\n"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batches", type=int, default=200, help="of both queries (default: 200)")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=list(VICTIMS))
    parser.add_argument("--nine", action="store_true", help="one job, killed around nine times")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--journal", type=Path, default=None, help="a file, to go on with later")
    options = parser.parse_args(arguments)
    victims = sorted({"nine"} if options.nine else set(options.victims))
    journal = Journal(options.journal, victims)
    chance = random.Random(len(journal.jobs) if options.seed is None else options.seed)
    with tempfile.TemporaryDirectory(prefix="peermesh-kills-") as name:
        folder = Path(name)
        with machines(folder) as found, place(found) as at:
            while True:
                job = f"job{uuid.uuid4().hex[:8]}"
                if options.nine:
                    plan = Plan(job, list(NINE), "changelog", batches=JOB_BATCHES)
                else:
                    plan = random_plan(job, victims, chance, JOB_BATCHES)
                journal.note(_run(at, plan, folder / job, chance))
                if options.nine or sum(each.batches for each in journal.jobs) >= options.batches:
                    break
    journal.tell()
    return 0


def _run(at: Place, plan: Plan, folder: Path, chance: random.Random) -> Done:
    """Run a job; what a wrong one leaves stays, and is named."""
    folder.mkdir()
    try:
        done = Run(at, plan, folder, chance)()
    except BaseException:
        kept = Path(tempfile.mkdtemp(prefix=f"peermesh-{plan.name}-"))
        for log in folder.glob("driver*.log"):
            shutil.copy(log, kept)
        sys.stderr.write(f"{plan.name} failed: the logs of its drivers are in {kept}\n")
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return done


if __name__ == "__main__":
    sys.exit(main())
