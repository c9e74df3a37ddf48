"""Broker, publisher and consumer are processes, and are killed at their persistence points.

``QOS2_KILLS=1000 pytest tests/peermesh/brokers/qos2/test_killed.py`` is the long run.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from peermesh.brokers.qos2 import DeadLetters, Place, open_shelf
from peermesh.testing.processes import Program, open_program
from tests.ports import free_port

ROUNDS = int(os.environ.get("QOS2_KILLS", "50" if os.environ.get("CI") == "true" else "9"))
POINTS_MAX = 40
"""Persistence points that a process passes at most before it is killed."""

VICTIM = str(Path(__file__).with_name("victim.py"))
TOPICS = ("orders", "audit")


class Stage:
    """Three processes, and the files that outlive them."""

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        self.folder = folder
        self.topics = folder / "topics"
        self.published = folder / "published"
        self.consumed = folder / "consumed"
        self.ports = [str(free_port()), str(free_port())]  # the same in all lives of the broker
        self.running: dict[str, Program] = {}
        self.ended: dict[str, trio.Event] = {}
        self.nursery = nursery

    async def start(self, role: str, deadly: int) -> None:
        where = {
            "broker": [str(self.topics), *self.ports],
            "publisher": [str(self.published), self.ports[0]],
            "consumer": [str(self.consumed), self.ports[1]],
        }[role]
        command = [sys.executable, VICTIM, role, str(deadly), *where]
        self.ended[role] = trio.Event()
        self.running[role] = await self.nursery.start(self._live, command, self.ended[role])

    @staticmethod
    async def _live(command, ended: trio.Event, task_status) -> None:
        async with open_program(command) as program:
            task_status.started(program)
            assert await program.wait() == -9, "it was to be killed, and ended by itself"
        ended.set()

    async def end(self, role: str) -> None:
        await self.running[role].kill()
        await self.ended[role].wait()

    def has_all(self, wanted: dict[str, int]) -> bool:
        lines = self.lines(self.consumed)
        return all(len(numbers(lines, topic)) >= count for topic, count in wanted.items())

    def lines(self, path: Path) -> list[str]:
        return path.read_text().splitlines() if path.exists() else []


def numbers(lines: list[str], topic: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.split()[0] == topic]


@pytest.mark.long
@pytest.mark.timeout(600 + 10 * ROUNDS)
async def test_kills_at_persistence_points_lose_and_double_nothing(tmp_path):
    chance = random.Random(ROUNDS)
    async with trio.open_nursery() as nursery:
        stage = Stage(tmp_path, nursery)
        for role in ("broker", "publisher", "consumer"):
            await stage.start(role, 0)
        for number in range(ROUNDS):
            role = ("broker", "consumer", "broker", "publisher")[number % 4]
            await stage.end(role)
            await stage.start(role, chance.randint(1, POINTS_MAX))
            await stage.ended[role].wait()
            await stage.start(role, 0)
        # Nobody is killed any more: what was published arrives.
        await stage.end("publisher")
        count = len(stage.lines(stage.published))
        wanted = dict.fromkeys(TOPICS, count - count // 7)
        while not stage.has_all(wanted):
            await stage.running["consumer"].hear()
        await stage.end("consumer")
        await stage.end("broker")
    assert count > ROUNDS / 4
    await check(stage, count)


async def check(stage: Stage, count: int) -> None:
    """Read what the processes left: each message once, at the consumer or as a dead letter."""
    lines = stage.lines(stage.consumed)
    async with Endpoint() as endpoint, open_shelf(endpoint, Place(folder=stage.topics)) as shelf:
        letters = await DeadLetters(shelf).list()
        for topic in TOPICS:
            entries = (await (await shelf.log(topic)).offsets())[0].end
            # The last one may have been stored without its publisher knowing.
            assert count <= entries <= count + 1
            eaten = numbers(lines, topic)
            dead = [letter.message for letter in letters if letter.topic == topic]
            assert eaten == sorted(set(eaten)), "a message came twice, or out of order"
            assert dead == [n for n in range(1, max(dead, default=0) + 1) if n % 7 == 0]
            good = [number for number in range(1, entries + 1) if number % 7]
            assert eaten == good[: len(eaten)], "a message was lost"
            assert len(eaten) >= count - count // 7
