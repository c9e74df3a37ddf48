"""Brokers that keep their topics together: any of three serves, and the leader may be killed.

``QOS2_LEADER_KILLS=50 pytest --timeout 3600 -k killed PATH`` is the long run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from peermesh.brokers.qos2 import (
    Consumer,
    DeadLetters,
    Pace,
    Place,
    Ports,
    Publisher,
    QoS2Broker,
    TakenOver,
    Topics,
    open_broker,
    open_shelf,
)
from peermesh.testing.processes import Program, open_program
from peermesh.testing.time_limits import limit
from tests.ports import free_port
from tests.waiting import until

LEADER_KILLS = int(os.environ.get("QOS2_LEADER_KILLS", "2"))
VOTERS = ("a", "b", "c")
ANY_PORTS = Ports(publishers=0, consumers=0)
QUICK = Pace(resend_seconds=0.001)


@asynccontextmanager
async def three(folder: Path, **place: object) -> AsyncIterator[dict[str, QoS2Broker]]:
    """Run three brokers on endpoints that are peered; the first one's is at a port, too."""
    async with AsyncExitStack() as stack:
        ports: list[int] = []
        found: dict[str, QoS2Broker] = {}
        for name in VOTERS:
            endpoint = await stack.enter_async_context(Endpoint(name=name))
            for port in ports:
                assert await endpoint.peer("127.0.0.1", port, timeout=limit())
            ports.append(await endpoint.listen())
            where = Place(folder=folder / name, voters=VOTERS, **place)
            found[name] = await stack.enter_async_context(
                open_broker(endpoint, where, ANY_PORTS, QUICK)
            )
        for broker in found.values():
            await broker.shelf.table.await_leader(timeout=limit())
        found["port"] = ports[0]
        yield found


async def test_a_consumer_comes_back_at_any_broker(tmp_path: Path) -> None:
    async with three(tmp_path, retention={"keep_count": 100}) as brokers:
        async with Publisher("till", brokers["b"].publisher_port) as out:
            for number in (1, 2, 3):
                await out.publish(number, "tea", str(number).encode())
                await out.publish(number, "tea", str(number).encode())
        taken = []
        for name in "cab":
            async with Consumer("billing", "tea", brokers[name].consumer_port) as source:
                taken.append((await source.get()).payload)
                await source.done()
        assert taken == [b"1", b"2", b"3"]
        assert brokers["b"].statistics()["entries"] == 3


async def test_a_login_at_another_broker_fences_the_earlier_one(tmp_path: Path) -> None:
    async with (
        three(tmp_path) as brokers,
        Publisher("till", brokers["a"].publisher_port) as out,
        Consumer("billing", "tea", brokers["b"].consumer_port) as first,
        Consumer("billing", "tea", brokers["c"].consumer_port) as second,
    ):
        await out.publish(1, "tea", b"green")
        await first.get()
        await second.get()
        with pytest.raises(TakenOver):
            await first.done()
        await second.done()


async def test_dead_letters_are_shared_and_reached_from_outside(tmp_path: Path) -> None:
    async with three(tmp_path) as brokers, Endpoint() as outside:
        async with (
            Publisher("till", brokers["a"].publisher_port) as out,
            Consumer("billing", "tea", brokers["b"].consumer_port) as source,
        ):
            await out.publish(1, "tea", b"green")
            await source.get()
            await source.refuse("it is cold", is_final=True)
            await out.publish(2, "tea", b"black")
            await source.get()
        for name in VOTERS:
            await brokers[name].shelf.level()
            (letter,) = await DeadLetters(brokers[name].shelf).list()
            assert letter.payload == b"green"
        assert await outside.peer("127.0.0.1", brokers["port"], timeout=limit())
        with trio.fail_after(limit()):
            await until(lambda: "qos2" in outside.known_groups())
        async with open_shelf(outside, Place(is_follower=True)) as shelf:
            await shelf.level()
            letters = DeadLetters(shelf)
            assert [each.payload for each in await letters.list()] == [b"green"]
            await letters.purge(1)
            assert await letters.list() == []


async def test_a_topic_is_deleted_at_any_broker_and_made_anew(tmp_path: Path) -> None:
    async with three(tmp_path) as brokers:
        async with Publisher("till", brokers["a"].publisher_port) as out:
            await out.publish(1, "tea", b"old")
        follower = next(brokers[name] for name in VOTERS if not brokers[name].shelf.decides)
        await follower.shelf.level()
        await Topics(follower.shelf).delete("tea")
        async with (
            Publisher("till", brokers["c"].publisher_port) as out,
            Consumer("billing", "tea", brokers["b"].consumer_port) as source,
        ):
            await out.publish(1, "tea", b"new")
            found = await source.get()
            assert (found.payload, found.number) == (b"new", 2)


def test_voters_go_with_no_follower_and_no_quota() -> None:
    for more in ({"is_follower": True}, {"quota": {"max_entries": 1}}):
        with pytest.raises(ValueError, match="voters="):
            Place(voters=VOTERS, **more)
    for voters in ("abc", 3):
        with pytest.raises(TypeError, match="a list of names"):
            Place(voters=voters)


class Processes:
    """Three brokers in processes of their own, whose topics are on disk."""

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        self._folder = folder
        self._nursery = nursery
        self.mesh = {name: free_port() for name in VOTERS}
        self.ports = {name: (free_port(), free_port()) for name in VOTERS}
        self.running: dict[str, Program] = {}

    async def start(self, name: str) -> None:
        publishers, consumers = self.ports[name]
        command = [
            sys.executable, "-m", "peermesh.cli", "broker", "qos2", "--json",
            "--voters", ",".join(VOTERS), "--node", name, "--path", str(self._folder / name),
            "--publisher-port", str(publishers), "--consumer-port", str(consumers),
            "--listen", f"127.0.0.1:{self.mesh[name]}",
            *self._peers(port for other, port in self.mesh.items() if other != name),
        ]  # fmt: skip
        self.running[name] = await self._nursery.start(self._live, command)

    @staticmethod
    def _peers(ports) -> list[str]:
        return [each for port in ports for each in ("--peer", f"127.0.0.1:{port}")]

    @staticmethod
    async def _live(command: list[str], task_status: trio.TaskStatus) -> None:
        async with open_program(command) as program:
            task_status.started(program)
            await program.wait()

    async def leader(self) -> str:
        """Ask the group, from outside, who leads the cursors; while it elects, ask again."""
        command = [
            sys.executable, "-m", "peermesh", "store", "members", "qos2", "--json",
            "--wait", str(limit()), *self._peers(self.mesh.values()),
        ]  # fmt: skip
        while True:
            told = await trio.run_process(command, capture_stdout=True, check=False)
            for member in map(json.loads, told.stdout.decode().splitlines()):
                if member.get("leader"):
                    return str(member["name"])


class Count:
    """What was published, and what came: each number once, in order."""

    def __init__(self) -> None:
        self.published = 0
        self.got: list[int] = []
        self._moved = trio.Event()

    async def publish(self, port: int) -> None:
        async with Publisher("till", port) as out:
            while True:
                number = self.published + 1
                await out.publish(number, "tea", str(number).encode())
                self.published = number
                self._move()

    async def consume(self, port: int) -> None:
        # What was taken before is known by its number; another life of the client begins.
        async with Consumer("billing", "tea", port, handled={"tea": len(self.got)}) as source:
            while True:
                self.got.append(int((await source.get()).payload))
                self._move()
                await source.done()

    def _move(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def until(self, published: int, got: int) -> None:
        while self.published < published or len(self.got) < got:
            await self._moved.wait()


async def test_nothing_is_lost_or_double_when_the_leader_is_killed(tmp_path: Path) -> None:
    count = Count()
    async with trio.open_nursery() as nursery:
        brokers = Processes(tmp_path, nursery)
        for name in VOTERS:
            await brokers.start(name)
        for _ in range(LEADER_KILLS):
            with trio.fail_after(limit(60)):
                leader = await brokers.leader()
                first, second = (brokers.ports[name] for name in VOTERS if name != leader)
                async with trio.open_nursery() as clients:
                    clients.start_soon(count.publish, first[0])
                    clients.start_soon(count.consume, second[1])
                    await count.until(count.published + 5, len(count.got) + 5)
                    await brokers.running[leader].kill()
                    await count.until(count.published + 10, len(count.got) + 10)
                    clients.cancel_scope.cancel()
                await brokers.start(leader)
        with trio.fail_after(limit(60)):
            async with trio.open_nursery() as clients:
                clients.start_soon(count.consume, brokers.ports[leader][1])
                await count.until(count.published, count.published)
                clients.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
    assert count.got[: count.published] == list(range(1, count.published + 1))
    assert len(count.got) <= count.published + 1, "the last one may have no answer"
