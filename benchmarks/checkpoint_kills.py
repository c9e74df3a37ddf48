"""Kill -9 around Spark's checkpoints, in rounds: ``python -m benchmarks.checkpoint_kills``.

Each round is a job of its own, which counts words, with its checkpoint at a pair of gateways: one
in front of a store's master, one in front of a clone that has all that is answered. While the job
runs, one of these dies at a random moment, and the job is started again until it is done:

- the driver, with everything that belongs to it;
- an executor, of a driver with two executors in processes of their own;
- the gateway with the master, which is started again on its file;
- the gateway with the master, whose clone is promoted; a new clone takes its place.

In the end the result has to equal a plain recount, with each batch told once.
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

import pyspark

from peermesh.spark import trial
from peermesh.spark.configuration import spark_conf
from peermesh.spark.trial import Kind

FILES: Final = 12
VICTIMS: Final = ("driver", "executor", "gateway", "master")
COMMAND: Final = (sys.executable, "-m", "peermesh.cli")
STARTS_MAX: Final = 10


def free_port() -> int:
    """Find a port for a gateway that has to come back where it was."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@dataclass
class Gateway:
    """One of the pair, and how to start it."""

    folder: Path
    http: int = field(default_factory=free_port)
    mesh: int = field(default_factory=free_port)
    generation: int = 0
    process: subprocess.Popen[str] | None = None

    def start(self, peer: Gateway | None) -> None:
        """Serve: as the master on its file, or with a clone of the peer's."""
        self.generation += peer is not None
        path = self.folder / f"{self.http}-{self.generation}.db"
        role = [] if peer is None else ["--clone", "--peer", f"127.0.0.1:{peer.mesh}"]
        self.process = subprocess.Popen(
            [
                *COMMAND, "serve", "webhdfs", "--store", f"kills:{path}", "--json", *role,
                "--replicas", "1",
                "--http", f"127.0.0.1:{self.http}", "--listen", f"127.0.0.1:{self.mesh}",
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.await_event("serving" if peer is None else "store_master_found")

    def await_event(self, name: str) -> None:
        """Read on until something has happened."""
        assert self.process is not None
        assert self.process.stdout is not None
        if not any(json.loads(line)["event"] == name for line in self.process.stdout):
            raise RuntimeError(f"the gateway ended before {name}")

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Round:
    """One job, and what is done to it."""

    def __init__(self, folder: Path, pair: list[Gateway], chance: random.Random) -> None:
        """Choose a victim and a moment."""
        self.folder = folder
        self.pair = pair
        self.victim = chance.choice(VICTIMS)
        self.kind = chance.choice(list(Kind))
        self.told = chance.randrange(1, FILES - 2)
        self.delay = chance.random() * 0.3
        self.checkpoint = f"webhdfs://mesh/{folder.name}"
        self.starts = 0

    def run(self) -> None:
        """Do all of it; raises ``AssertionError`` for a wrong result."""
        source, output = self.folder / "source", self.folder / "output"
        texts = (f"text {n} of a round\n" * (n + 1) for n in range(FILES))
        trial.write_source(source, texts)
        has_killed = False
        while True:
            driver = self._start(source, output)
            try:
                if not has_killed and self._await_moment(driver, output):
                    has_killed = True
                    self._kill(driver)
                driver.communicate()
            finally:
                self._end(driver)
            if driver.returncode == 0:
                break
            assert self.starts < STARTS_MAX, "it does not get on"
        found = trial.batches_of(output)
        assert list(found) == list(range(FILES)), f"batches {list(found)}"
        assert trial.counts_of(self.kind, output) == trial.recount(source), "the counts differ"

    def _start(self, source: Path, output: Path) -> subprocess.Popen[bytes]:
        self.starts += 1
        settings = spark_conf(*(f"127.0.0.1:{gateway.http}" for gateway in self.pair))
        if self.victim == "executor":
            settings["spark.master"] = "local-cluster[2,1,600]"
            settings["spark.executor.memory"] = "600m"
        with (self.folder / f"driver{self.starts}.log").open("wb") as log:
            return subprocess.Popen(
                [
                    sys.executable, "-m", "peermesh.spark.trial", "--kind", self.kind,
                    "--source", str(source), "--output", str(output),
                    "--checkpoint", self.checkpoint, "--settings", json.dumps(settings),
                ],
                stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _await_moment(self, driver: subprocess.Popen[bytes], output: Path) -> bool:
        """Wait until enough is told, and a little longer; false if it ended before."""
        while not output.is_dir() or len(trial.batches_of(output)) < self.told:
            if driver.poll() is not None:
                return False
            time.sleep(0.01)
        time.sleep(self.delay)
        return driver.poll() is None

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        active, standby = self.pair
        match self.victim:
            case "driver":
                os.killpg(driver.pid, signal.SIGKILL)
            case "executor":
                os.kill(executors_of(driver.pid)[0], signal.SIGKILL)
            case "gateway":
                active.kill()
                active.start(None)
            case _:
                active.kill()
                promotion = ["store", "promote", "kills", "--force"]
                peer = ["--peer", f"127.0.0.1:{standby.mesh}"]
                subprocess.run([*COMMAND, *promotion, *peer], check=True, capture_output=True)
                self.pair.reverse()
                active.start(standby)

    def _end(self, driver: subprocess.Popen[bytes]) -> None:
        """Leave nothing of it behind."""
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


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


def main() -> int:
    """Run the rounds; the code is 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description="Kill -9 around Spark's checkpoints.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="peermesh-kills-") as name:
        pair = [Gateway(Path(name)), Gateway(Path(name))]
        try:
            pair[0].start(None)
            pair[1].start(pair[0])
            for number in range(options.rounds):
                folder = Path(name) / f"round{number}"
                folder.mkdir()
                job = Round(folder, pair, chance)
                began = time.monotonic()
                job.run()
                print(
                    f"{number}: {job.kind}, {job.victim} killed after {job.told} batches;"
                    f" {job.starts} starts, {time.monotonic() - began:.0f} s, exact",
                    flush=True,
                )
                shutil.rmtree(folder)
        finally:
            for gateway in pair:
                gateway.kill()
            # Where the workers of a local cluster keep their logs, whatever they are told.
            shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
