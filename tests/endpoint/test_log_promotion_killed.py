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
from endpoint.log import Log
from endpoint.log_receipts import AppendReceipt

ROUNDS = int(os.environ.get("LOG_PROMOTIONS", "2"))
"""Kills; ``LOG_PROMOTIONS=200 pytest tests/endpoint/test_log_promotion_killed.py`` is long."""

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
                while log.is_keeper() or not await log.await_idle(timeout=60):
                    await trio.sleep(0.05)
            elif words == ["lead"]:
                while not log.runner.log.contact.is_lost:
                    await trio.sleep(0.01)
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


class Producer:
    """Appends without a pause, and remembers what was acknowledged."""

    def __init__(self, log: Log, name: str | None) -> None:
        self.log = log
        self.name = name
        self.asked: list[tuple[int, AppendReceipt]] = []
        self.is_over = False

    @property
    def acknowledged(self) -> int:
        return sum(receipt.is_resolved for _, receipt in self.asked)

    async def run(self) -> None:
        number = 0
        while not self.is_over:
            number += 1
            sequence = None if self.name is None else number
            value = f"{self.name} {number}"
            receipt = await self.log.append(value, producer=self.name, sequence=sequence)
            self.asked.append((number, receipt))
            if number % 64 == 0:
                await receipt.applied()

    async def repeat_all(self) -> None:
        """Ask again for what is remembered, as after a restart: it is all there already."""
        for number, receipt in self.asked[-1_000:]:
            again = await self.log.append(
                f"{self.name} {number}", producer=self.name, sequence=number
            )
            assert await again.applied() == await receipt.applied()
            assert again.is_repeated()


@pytest.mark.timeout(180 + 20 * ROUNDS)
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
            producers = [Producer(log, None), Producer(log, "named")]
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
            for producer in producers:
                producer.is_over = True
            places = {}
            for producer in producers:
                for number, receipt in producer.asked:
                    places[await receipt.applied()] = f"{producer.name} {number}"
            assert len(places) == sum(len(each.asked) for each in producers)
            await producers[1].repeat_all()
            await check(log, places)
            nursery.cancel_scope.cancel()
    finally:
        keeper.kill()
        heir.kill()


async def check(log: Log, places: dict[object, str]) -> None:
    """Read the whole log: everything acknowledged is in its place, and nothing is there twice."""
    found = {}
    for partition, span in (await log.offsets()).items():
        offset = 0
        while offset < span.end:
            for entry in await log.read(partition, offset):
                found[(partition, entry.offset)] = entry.value
                offset = entry.offset + 1
    assert {(place.partition, place.offset): value for place, value in places.items()} == found
    assert len(set(found.values())) == len(found)
