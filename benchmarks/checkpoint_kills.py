"""Kill -9 around Spark's checkpoints: ``python -m benchmarks.checkpoint_kills --batches 200``.

Jobs count words, with their checkpoints at three gateways, whose replicas of one store elect their
leader. Every few batches, at a random moment, one of these is killed, and the job is started again
if that ended it:

- the driver, with everything that belongs to it;
- an executor, of a driver with two executors in processes of their own;
- a gateway, whichever it is;
- the gateway that leads.

Gateways are started again on their files.

In the end of each job the result has to equal a plain recount, with no batch missing. With
``--journal FILE`` every job that is done is noted there, and counts when the command is run again
with the same victims: so a long loop can be run in pieces.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from peermesh.spark import trial
from peermesh.spark.configuration import spark_conf
from peermesh.spark.trial import Kind

JOB_BATCHES: Final = 20
"""Batches of a job, so that each kind of state gets its turn."""
VICTIMS: Final = ("driver", "executor", "gateway", "leader")
NAMES: Final = ("a", "b", "c")
COMMAND: Final = (sys.executable, "-m", "peermesh.cli")
STARTS_MAX: Final = 3 * JOB_BATCHES


def free_port() -> int:
    """Find a port for a gateway that has to come back where it was."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@dataclass
class Gateway:
    """One of the three, and how to start it."""

    name: str
    folder: Path
    http: int = field(default_factory=free_port)
    mesh: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None

    def start(self, others: list[Gateway]) -> None:
        """Serve, with a replica in the same file each time."""
        peers = [word for each in others for word in ("--peer", f"127.0.0.1:{each.mesh}")]
        self.process = subprocess.Popen(
            [
                *COMMAND, "serve", "webhdfs", "--store", f"kills:{self.folder / self.name}.db",
                "--voters", ",".join(NAMES), "--node", self.name, "--json", *peers,
                "--http", f"127.0.0.1:{self.http}", "--listen", f"127.0.0.1:{self.mesh}",
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.await_event("serving")

    def await_event(self, name: str) -> None:
        """Read on until something has happened."""
        assert self.process is not None
        assert self.process.stdout is not None
        if not any(json.loads(line)["event"] == name for line in self.process.stdout):
            raise RuntimeError(f"the gateway ended before {name}")

    def kill(self) -> None:
        """End it at once, if it was started."""
        if self.process is None:
            return
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Job:
    """One job, and what is done to it."""

    def __init__(
        self, folder: Path, gateways: list[Gateway], victims: list[str], chance: random.Random
    ) -> None:
        """Choose what state it keeps."""
        self.folder = folder
        self.source, self.output = folder / "source", folder / "output"
        self.gateways = gateways
        self.victims = victims
        self.chance = chance
        self.kind = chance.choice(list(Kind))
        self.checkpoint = f"webhdfs://mesh/{folder.name}"
        self.starts = 0
        self.kills = 0
        self.batches = 0

    def run(self) -> None:
        """Do all of it; raises ``AssertionError`` for a wrong result."""
        texts = (f"text {n} of a job\n" * (n + 1) for n in range(JOB_BATCHES))
        trial.write_source(self.source, texts)
        while self._drive() != 0:
            assert self.starts < STARTS_MAX, "it does not get on"
        found = trial.batches_of(self.output)
        # Spark's source may put two files into one batch, if it was killed when it had just
        # noted a file, and not yet in which batch that was.
        assert list(found) == list(range(len(found))), f"batches {list(found)}"
        assert trial.counts_of(self.kind, self.output) == trial.recount(self.source), "counts"
        self.batches = len(found)

    def _drive(self) -> int:
        """Start a driver, kill around it until it ends, and give its code."""
        driver = self._start()
        try:
            while self._await_moment(driver):
                self.kills += 1
                self._kill(driver, self.chance.choice(self.victims))
            return driver.wait()
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        settings = spark_conf(*(f"127.0.0.1:{gateway.http}" for gateway in self.gateways))
        if "executor" in self.victims:
            settings["spark.master"] = "local-cluster[2,1,600]"
            settings["spark.executor.memory"] = "600m"
        with (self.folder / f"driver{self.starts}.log").open("wb") as log:
            return subprocess.Popen(
                [
                    sys.executable, "-m", "peermesh.spark.trial", "--kind", self.kind,
                    "--source", str(self.source), "--output", str(self.output),
                    "--checkpoint", self.checkpoint, "--settings", json.dumps(settings),
                ],
                stderr=log,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.folder)},  # who is killed leaves files
            )  # fmt: skip

    def _told(self) -> int:
        return len(trial.batches_of(self.output)) if self.output.is_dir() else 0

    def _await_moment(self, driver: subprocess.Popen[bytes]) -> bool:
        """Wait for some batches, and a little longer; false if it ended before."""
        goal = self._told() + self.chance.randrange(1, 6)
        while self._told() < goal:
            if driver.poll() is not None:
                return False
            time.sleep(0.01)
        time.sleep(self.chance.random() * 0.3)
        return driver.poll() is None

    def _kill(self, driver: subprocess.Popen[bytes], victim: str) -> None:
        match victim:
            case "driver":
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
            case "executor":
                for executor in executors_of(driver.pid)[:1]:
                    os.kill(executor, signal.SIGKILL)
            case _:
                is_any = victim == "gateway"
                name = self.chance.choice(NAMES) if is_any else leader_of(self.gateways)
                killed = next(each for each in self.gateways if each.name == name)
                killed.kill()
                killed.start([each for each in self.gateways if each is not killed])


def leader_of(gateways: list[Gateway]) -> str:
    """Ask the group which of them leads."""
    peers = [word for each in gateways for word in ("--peer", f"127.0.0.1:{each.mesh}")]
    asking = ["store", "members", "kills", "--json", "--wait", "60", *peers]
    while True:  # it may be electing one just now
        done = subprocess.run([*COMMAND, *asking], stdout=subprocess.PIPE, text=True, check=False)
        for member in map(json.loads, done.stdout.splitlines()):
            if member.get("leader"):
                return str(member["name"])


def executors_of(session: int) -> list[int]:
    """Find the executors of a driver: they are in its session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # It has ended meanwhile.
        if int(words[3]) == session and b"CoarseGrainedExecutorBackend" in command:
            found.append(int(folder.name))
    return found


@dataclass
class Journal:
    """The jobs that are done, in a file if one is named."""

    path: Path | None
    victims: list[str]
    jobs: list[dict[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read what was done before with the same victims."""
        if self.path is not None and self.path.exists():
            noted = map(json.loads, self.path.read_text().splitlines())
            self.jobs = [job for job in noted if job["victims"] == self.victims]

    def note(self, job: dict[str, object]) -> None:
        """Add a job."""
        self.jobs.append(job)
        print(json.dumps(job), flush=True)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(job) + "\n")

    def total(self, name: str) -> int:
        """Sum up over all jobs."""
        return sum(int(str(job[name])) for job in self.jobs)


def main() -> int:
    """Run jobs until there were so many batches; the code is 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description="Kill -9 around Spark's checkpoints.")
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=list(VICTIMS))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--journal", type=Path, default=None, help="a file, to go on with later")
    options = parser.parse_args()
    victims = sorted(set(options.victims))
    journal = Journal(options.journal, victims)
    chance = random.Random(len(journal.jobs) if options.seed is None else options.seed)
    with tempfile.TemporaryDirectory(prefix="peermesh-kills-") as name:
        gateways = [Gateway(each, Path(name)) for each in NAMES]
        try:
            for number, gateway in enumerate(gateways):
                gateway.start(gateways[:number])
            while journal.total("batches") < options.batches:
                folder = Path(name) / f"job{len(journal.jobs)}"
                folder.mkdir()
                job = Job(folder, gateways, victims, chance)
                began = time.monotonic()
                job.run()
                journal.note(
                    {
                        "victims": victims, "kind": job.kind, "batches": job.batches,
                        "kills": job.kills, "starts": job.starts,
                        "seconds": round(time.monotonic() - began),
                    }
                )  # fmt: skip
                shutil.rmtree(folder)
        finally:
            for gateway in gateways:
                gateway.kill()
    totals = {word: journal.total(word) for word in ("batches", "kills", "starts", "seconds")}
    print(f"{' and '.join(victims)}: {len(journal.jobs)} jobs, {totals}, exact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
