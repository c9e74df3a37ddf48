"""The keeper of a log is killed in mid-append, and its follower promoted: all that was acknowledged
is there, once, in its place."""  # noqa: D205, D209 - one thought

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint

ROUNDS = int(os.environ.get("LOG_PROMOTIONS", "2"))
"""Kills; ``LOG_PROMOTIONS=200``, with this file alone, is a long run."""

NODE = """
import sys
import trio
from peermesh import Backend, Endpoint

async def main():
    role, path, port, other = sys.argv[1:]
    async with Endpoint() as endpoint:
        place = {"backend": Backend.SQLite, "path": path}
        if role == "keeper":
            log = await endpoint.attach_log("log", (), 2, replicas=1, **place)
        else:
            log = await endpoint.attach_log_clone("log", **place)
        print(await endpoint.listen("127.0.0.1", int(port)), flush=True)
        if int(other):
            await endpoint.peer("127.0.0.1", int(other), retry=0.1)
        while True:
            words = (await trio.to_thread.run_sync(sys.stdin.readline)).split()
            if words == ["level"]:
                while log.is_keeper():
                    await log.runner.changed.park()
                assert await log.await_idle(timeout=600)
            elif words == ["lead"]:
                await log.promote(replicas=1, force=True)
            print("done", flush=True)

trio.run(main)
"""


class Node:
    """A real process with a file of its own, which keeps the log or follows it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.port = 0

    @contextmanager
    def run(self, role: str, other: int) -> Iterator[Node]:
        arguments = [sys.executable, "-c", NODE, role, str(self.path), str(self.port), str(other)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(arguments, text=True, **pipes) as self.process:
            try:
                self.port = int(self.process.stdout.readline())
                yield self
            finally:
                self.process.kill()

    def start(self, role: str, other: int) -> None:
        self.running = self.run(role, other)
        self.running.__enter__()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.running.__exit__(None, None, None)

    async def do(self, word: str) -> None:
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        answer = await trio.to_thread.run_sync(self.process.stdout.readline)
        assert answer == "done\n"


@pytest.mark.timeout(600 + 20 * ROUNDS)
async def test_acknowledged_appends_survive_kills_of_the_keeper_and_promotions(kit, tmp_path):
    chance = random.Random(ROUNDS)
    keeper, heir = Node(tmp_path / "one.db"), Node(tmp_path / "two.db")
    keeper.start("keeper", 0)
    heir.start("follower", keeper.port)
    try:
        async with Endpoint() as endpoint, trio.open_nursery() as nursery:
            log = await endpoint.attach_log_proxy("log", patience=120)
            for node in (keeper, heir):
                assert await endpoint.peer("127.0.0.1", node.port, retry=0.1)
            producers = [kit.Producer(log, None), kit.Producer(log, "named")]
            for producer in producers:
                nursery.start_soon(producer.run)
            for _ in range(ROUNDS):
                target = sum(each.acknowledged for each in producers) + chance.randint(1, 400)
                await kit.until(lambda: sum(each.acknowledged for each in producers) >= target)  # noqa: B023 - it is over before the next round
                keeper.kill()
                await heir.do("lead")
                keeper.start("keeper", heir.port)  # it knows nothing, and is told
                await keeper.do("level")
                keeper, heir = heir, keeper
            await kit.check_appended(log, producers)
            await producers[1].repeat_all()
            nursery.cancel_scope.cancel()
    finally:
        keeper.kill()
        heir.kill()
