"""The processes that a job stands on: three keepers of logs and a store, and three gateways."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.spark_kills.keeper import EVENTS, NAMES, RESULTS

CLI = (sys.executable, "-m", "peermesh.cli")


def free_port() -> int:
    """Find a port for a process that has to come back where it was."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Member:
    """A process that is killed, and started again on its files."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[str] | None = None

    def command(self, peers: list[int]) -> list[str]:
        raise NotImplementedError

    def is_up(self, line: str) -> bool:
        raise NotImplementedError

    def start(self, others: list[Member]) -> None:
        """Start it, and wait until it says that it serves."""
        command = self.command([each.port for each in others])
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        if not any(map(self.is_up, self.process.stdout)):
            raise RuntimeError(f"{type(self).__name__} {self.name} ended before it served")

    def kill(self) -> None:
        """End it at once, if it was started."""
        if self.process is not None:
            assert self.process.stdout is not None
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


class Keeper(Member):
    """One with a replica of each log and of the store."""

    def command(self, peers: list[int]) -> list[str]:
        where = [self.name, str(self.folder), str(self.port), *map(str, peers)]
        return [sys.executable, "-m", "tests.spark_kills.keeper", *where]

    def is_up(self, line: str) -> bool:
        return line == "ready\n"


class Gateway(Member):
    """One that serves checkpoints from a replica of their store."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder)
        self.http = free_port()

    def command(self, peers: list[int]) -> list[str]:
        ways = [word for peer in peers for word in ("--peer", f"127.0.0.1:{peer}")]
        return [
            *CLI, "serve", "webhdfs", "--store", f"files:{self.folder / self.name}-files.db",
            "--voters", ",".join(NAMES), "--node", self.name, "--json", *ways,
            "--http", f"127.0.0.1:{self.http}", "--listen", f"127.0.0.1:{self.port}",
        ]  # fmt: skip

    def is_up(self, line: str) -> bool:
        return bool(json.loads(line)["event"] == "serving")


class Machines:
    """All of them, and who is killed."""

    def __init__(self, folder: Path) -> None:
        self.keepers = [Keeper(name, folder) for name in NAMES]
        self.gateways = [Gateway(name, folder) for name in NAMES]

    @property
    def peers(self) -> str:
        """Where a job finds logs and store: the option ``peers``."""
        return ",".join(f"127.0.0.1:{each.port}" for each in self.keepers)

    @property
    def http(self) -> list[str]:
        """Where a job finds its checkpoints."""
        return [f"127.0.0.1:{each.http}" for each in self.gateways]

    def kill(self, victim: str) -> None:
        """Kill what leads, and start it again; the others elect meanwhile."""
        match victim:
            case "log":
                self._again(self.keepers, self._leader("log", EVENTS, self.keepers))
            case "store":
                self._again(self.keepers, self._leader("store", RESULTS, self.keepers))
            case "gateway":
                self._again(self.gateways, self._leader("store", "files", self.gateways))
            case _:
                raise ValueError(victim)

    @staticmethod
    def _again(group: list[Keeper] | list[Gateway], name: str) -> None:
        killed = next(each for each in group if each.name == name)
        killed.kill()
        killed.start([each for each in group if each is not killed])

    @staticmethod
    def _leader(kind: str, name: str, group: list[Keeper] | list[Gateway]) -> str:
        """Ask a group from outside which member leads; while it elects one, ask again."""
        ways = [word for each in group for word in ("--peer", f"127.0.0.1:{each.port}")]
        command = [*CLI, kind, "members", name, "--json", "--wait", "60", *ways]
        while True:
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            for member in map(json.loads, done.stdout.splitlines()):
                if member.get("leader"):
                    return str(member["name"])


@contextmanager
def machines(folder: Path) -> Iterator[Machines]:
    """Run them for a block's length."""
    found = Machines(folder)
    with ExitStack() as stack:
        for group in (found.keepers, found.gateways):
            for number, member in enumerate(group):
                stack.callback(member.kill)
                member.start(list(group[:number]))
        yield found
