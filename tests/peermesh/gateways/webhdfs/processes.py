"""Gateways in processes of their own, on disk: three that elect their leader, or one alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from peermesh.testing.time_limits import limit
from peermesh.testing.webhdfs import WebHDFSClient

NAMES = ("a", "b", "c")
T = TypeVar("T")


class Gateway:
    """``peermesh serve webhdfs`` in a process of its own: of the group, or with a master."""

    def __init__(self, name: str, folder: Path, *, is_alone: bool = False) -> None:
        of_group = ["--voters", ",".join(NAMES)] if name in NAMES else ["--replica"]
        self._role = [] if is_alone else of_group
        self._name = name
        self._store = f"files:{folder / name}.db"
        self.address = self.mesh = "127.0.0.1:0"

    def start(self, peers: list[str]) -> None:
        """Start it, or start it again where it was."""
        ways = [argument for peer in peers for argument in ("--peer", peer)]
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "peermesh.cli", "serve", "webhdfs", "--json",
                "--store", self._store, *self._role, "--node", self._name,
                "--http", self.address, "--listen", self.mesh, *ways,
            ],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        told = {found["event"]: found for found in map(json.loads, self._lines(2))}
        self.mesh = f"127.0.0.1:{told['listening']['port']}"
        self.address = told["serving"]["address"]

    def _lines(self, count: int) -> list[str]:
        assert self.process.stdout is not None
        return [self.process.stdout.readline() for _ in range(count)]

    def ask(self, what: Callable[[WebHDFSClient], T]) -> T:
        host, _, port = self.address.rpartition(":")
        with WebHDFSClient(host, int(port)) as client:
            return what(client)

    def end(self) -> None:
        """Kill it, unless that was done."""
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def three_gateways(folder: Path) -> Iterator[dict[str, Gateway]]:
    """Run them for a block's length."""
    with ExitStack() as stack:
        found: dict[str, Gateway] = {}
        for name in NAMES:
            gateway = Gateway(name, folder)
            gateway.start([each.mesh for each in found.values()])
            found[name] = gateway
            stack.callback(gateway.end)
        yield found


def leader_of(gateways: dict[str, Gateway]) -> str:
    """Ask the group, from outside, which of its members leads; while it elects one, ask again."""
    ways = [argument for each in gateways.values() for argument in ("--peer", each.mesh)]
    asking = ["store", "members", "files", "--json", "--wait", str(limit()), *ways]
    while True:
        command = [sys.executable, "-m", "peermesh", *asking]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
        for member in map(json.loads, told.splitlines()):
            if member.get("leader"):
                return str(member["name"])
