"""A log's follower is promoted, over real sockets: who leads, what is kept, what is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log import Log
from peermesh.testing.time_limits import limit
from stores.log.runs import Position
from wire.errors import (
    InvalidData,
    MasterExists,
    OffsetOutOfRange,
    PromotionRefused,
    ReplicaRegressed,
)


class Line:
    """Two endpoints whose link a test cuts and mends."""

    def __init__(self, left: Endpoint, right: Endpoint, until: Callable) -> None:
        self.left, self.right, self._until = left, right, until
        self._port = 0

    async def join(self) -> None:
        self._port = self._port or await self.left.listen()
        assert await self.right.peer("127.0.0.1", self._port, retry=0)
        assert await self.right.await_peer(self.left.node_id(), timeout=limit(60))
        assert await self.left.await_peer(self.right.node_id(), timeout=limit(60))

    async def part(self) -> None:
        await self.right.unpeer("127.0.0.1", self._port)
        await self._until(lambda: not self.left.peers() and not self.right.peers())

    async def is_lost(self, log: Log) -> None:
        """Wait until a follower has noticed."""
        await self._until(lambda: not log.runner.is_in_touch)


@asynccontextmanager
async def open_line(kit) -> AsyncIterator[Line]:
    with trio.fail_after(limit(60)):
        async with Endpoint() as left, Endpoint() as right:
            line = Line(left, right, kit.until)
            await line.join()
            yield line


@pytest.fixture(params=["memory", "sqlite"])
def place(request, tmp_path):
    """Say where a log is: backend and options for the file of that name."""

    def options(name: str) -> dict:
        if request.param == "memory":
            return {"backend": Backend.Memory}
        return {"backend": Backend.SQLite, "path": tmp_path / f"{name}.db"}

    return options


async def values(log: Log, partition: int = 0) -> list:
    return [entry.value for entry in await log.read(partition, 0)]


async def test_a_promoted_follower_leads_and_the_old_keeper_follows_when_it_returns(kit, place):
    async with open_line(kit) as line:
        old = await line.left.attach_log("log", **place("left"))
        heir = await line.right.attach_log_clone("log", **place("right"))
        first = await old.append("first", producer="till", sequence=1)
        await first.applied()
        consumer = heir.consume("billing")
        assert (await consumer.get()).value == "first"
        await (await consumer.commit()).applied()
        assert await heir.await_idle(timeout=limit())
        await line.part()
        await line.is_lost(heir)
        waiting = await heir.append("asked of nobody")
        late = await old.append("late", producer="till", sequence=2)
        assert (await late.applied()).offset == 1
        with line.left.subscribe_status() as status:
            promotion = await heir.promote()
            assert (promotion.term, promotion.ends) == (1, (1,))
            assert heir.is_keeper()
            assert (await waiting.applied()).offset == 1
            again = await heir.append("first", producer="till", sequence=1)
            assert (await again.applied(), again.is_repeated()) == (await first.applied(), True)
            assert (await consumer.get()).value == "asked of nobody", "it reads on where it was"
            await line.join()
            *_, deposed = await kit.events_until(status, StatusCode.STORE_DEPOSED)
            assert "deposed at 2 entries" in deposed.reason
        assert not old.is_keeper()
        assert (await (await old.append("through it")).applied()).offset == 2
        assert await old.await_idle(timeout=limit())
        assert await values(heir) == await values(old) == ["first", "asked of nobody", "through it"]
        assert await old.consumers() == {"billing": {0: 1}}
        with pytest.raises(MasterExists, match="here already"):
            await heir.promote()


async def test_readers_are_told_where_entries_that_they_had_read_are_lost(kit):
    async with open_line(kit) as line, Endpoint() as far:
        old = await line.left.attach_log("log")
        heir = await line.right.attach_log_clone("log")
        await (await old.append("kept")).applied()
        assert await heir.await_idle(timeout=limit())
        await line.part()
        await line.is_lost(heir)
        assert await far.peer("127.0.0.1", await line.left.listen())
        proxy = await far.attach_log_proxy("log")
        for value in ("late", "later"):
            await (await old.append(value)).applied()
        readers = [each.consume() for each in (old, proxy, old, proxy)]
        for reader in readers:
            found = await reader.get_batch(timeout=limit())
            assert [entry.value for entry in found] == ["kept", "late", "later"]
        marks = [(await each.marked_offsets())[1] for each in (old, proxy)]
        await heir.promote()
        with line.left.subscribe_status() as status:
            await line.join()
            await kit.events_until(status, StatusCode.STORE_DEPOSED)
        for reader in readers[:2]:
            with pytest.raises(OffsetOutOfRange, match="those from 1 on are lost") as caught:
                await reader.get(timeout=limit())
            assert (caught.value.offset, caught.value.start) == (3, 1)
            reader.seek(0, caught.value.start)
        for number in range(3):
            await (await heir.append(number)).applied()
        assert [(await reader.get(timeout=limit())).value for reader in readers[:2]] == [0, 0]
        for log, mark in zip((old, proxy), marks, strict=True):
            assert [run.end for run in await log.runs({0: 1}, after=mark)] == [2, 3, 4]
            with pytest.raises(OffsetOutOfRange, match="those from 1 on are lost"):
                await log.runs({0: 3}, after=mark)
            _, now = await log.marked_offsets()
            assert [run.end for run in await log.runs({0: 3}, after=now)] == [4]
        await (await heir.append(3)).applied()
        assert await old.await_idle(timeout=limit())
        for reader in readers[2:]:
            with pytest.raises(OffsetOutOfRange, match="partition 0 goes on at offset 1"):
                await reader.get(timeout=limit())
            reader.seek(0, 2)
            assert (await reader.get(timeout=limit())).value == 1, "who seeks, says what it wants"


async def test_a_bookmark_of_a_log_of_which_all_was_let_go_knows_what_was_read(kit, place):
    async with open_line(kit) as line:
        old = await line.left.attach_log("log", **place("left"))
        heir = await line.right.attach_log_clone("log", **place("right"))
        await (await old.append("kept")).applied()
        assert await heir.await_idle(timeout=limit())
        await line.part()
        await line.is_lost(heir)
        await (await old.append_batch(["late", "later"])).applied()
        await (await old.trim(0, 3)).applied()
        spans, mark = await old.marked_offsets()
        assert (spans[0].start, spans[0].end) == (3, 3)
        await heir.promote()
        with line.left.subscribe_status() as status:
            await line.join()
            await kit.events_until(status, StatusCode.STORE_DEPOSED)
        await (await heir.append_batch(list(range(3)))).applied()
        with pytest.raises(OffsetOutOfRange, match="those from 1 on are lost"):
            await heir.runs({0: 3}, after=mark)


async def test_a_copy_that_is_behind_says_nothing_against_a_reader_that_is_not(kit, monkeypatch):
    monkeypatch.setattr("endpoint.replicas.logs.part.WORD_SECONDS", 0.1)
    async with open_line(kit) as line:
        keeper = await line.left.attach_log("log")
        copy = await line.right.attach_log_clone("log")
        await (await keeper.append("kept")).applied()
        assert await copy.await_idle(timeout=limit())
        await line.part()
        await line.is_lost(copy)
        await (await keeper.append("late")).applied()
        consumer = copy.consume(start={0: 2})
        assert await copy.read(0, 2) == await consumer.get_batch(timeout=0) == []
        await line.join()
        await (await keeper.append("later")).applied()
        assert (await consumer.get(timeout=limit())).value == "later"


async def test_a_follower_does_not_take_over_from_a_keeper_that_lives(kit):
    async with open_line(kit) as line:
        old = await line.left.attach_log("log")
        heir = await line.right.attach_log_clone("log")
        await (await old.append(1)).applied()
        assert await heir.await_idle(timeout=limit())
        with pytest.raises(PromotionRefused, match="its keeper is alive"):
            await heir.promote()
        with pytest.raises(InvalidData, match="no option 'keep'"):
            await heir.promote(keep=1)
        with line.left.subscribe_status() as status:
            await heir.promote(force=True)
            await kit.events_until(status, StatusCode.STORE_DEPOSED)
        assert (await (await old.append(2)).applied()).offset == 1
        assert await values(heir) == [1, 2]
        await old.close()
        proxy = await line.left.attach_log_proxy("log")
        await proxy.partition_count()
        with pytest.raises(PromotionRefused, match="has no copy"):
            await proxy.promote(force=True)


async def test_a_deposed_keeper_leaves_its_file_and_leads_with_it_no_more(kit, tmp_path):
    async with open_line(kit) as line:
        left, right = tmp_path / "left.db", tmp_path / "right.db"
        old = await line.left.attach_log("log", backend=Backend.SQLite, path=left)
        heir = await line.right.attach_log_clone("log", Backend.SQLite, path=right)
        await (await old.append("kept")).applied()
        assert await heir.await_idle(timeout=limit())
        await line.part()
        await (await old.append("late")).applied()
        await line.is_lost(heir)
        await heir.promote()
        with line.left.subscribe_status() as status:
            await line.join()
            await kit.events_until(status, StatusCode.STORE_DEPOSED)
        assert await old.await_idle(timeout=limit())
        assert await values(old) == ["kept"]
        await old.close()
        # As a script would that knows nothing of the promotion.
        with pytest.raises(MasterExists, match="has its keeper at"):
            await line.left.attach_log("log", backend=Backend.SQLite, path=left)
        await line.part()
        with pytest.raises(ReplicaRegressed, match="another master took over"):
            await line.left.attach_log("log", backend=Backend.SQLite, path=left)
        # It is the only copy of what was lost: to look into it one says so.
        aside = await line.left.attach_log("log", backend=Backend.SQLite, path=left, fresh=True)
        assert await values(aside) == ["kept", "late"]


async def test_a_promoted_followers_file_is_the_keepers_from_then_on(kit, tmp_path):
    path = tmp_path / "heir.db"
    async with open_line(kit) as line:
        old = await line.left.attach_log("log", partitions=2)
        heir = await line.right.attach_log_clone("log", Backend.SQLite, path=path)
        await (await old.append("first", partition=1, producer="till", sequence=1)).applied()
        assert await heir.await_idle(timeout=limit())
        await old.close()
        await line.is_lost(heir)
        assert (await heir.promote()).ends == (0, 1)
        await (await heir.append("second", partition=1)).applied()
        await heir.close()
        again = await line.right.attach_log("log", backend=Backend.SQLite, path=path)
        assert await values(again, 1) == ["first", "second"]
        repeated = await again.append("first", partition=1, producer="till", sequence=1)
        assert (await repeated.applied(), repeated.is_repeated()) == (Position(1, 0), True)


async def test_what_is_asked_while_a_follower_is_promoted_is_done_by_the_heir(kit, tmp_path):
    async with open_line(kit) as line:
        old = await line.left.attach_log("log")
        heir = await line.right.attach_log_clone("log", Backend.SQLite, path=tmp_path / "heir.db")
        await (await old.append(0)).applied()
        assert await heir.await_idle(timeout=limit())
        await old.close()
        asked = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(heir.promote, force=True))
            while not heir.is_keeper():
                asked.append(await heir.append(len(asked) + 1))
                await trio.lowlevel.checkpoint()
        for number, receipt in enumerate(asked, 1):
            assert (await receipt.applied()).offset == number
        with pytest.raises(MasterExists):
            await heir.promote()


async def test_a_promoted_log_collects_what_it_is_told_to(kit):
    async with open_line(kit) as line:
        old = await line.left.attach_log("news", ["news/"], keep_count=10)
        heir = await line.right.attach_log_clone("news")
        assert await heir.await_idle(timeout=limit())
        await old.close()
        await line.is_lost(heir)
        await heir.promote(["news/"], keep_count=2)
        await kit.until(lambda: heir.is_keeper())
        reader = await line.left.attach_log_proxy("news")
        await reader.partition_count()
        consumer = reader.consume()
        for number in range(4):
            await line.left.publish("news/today", number)
        assert [(await consumer.get()).value for _ in range(4)] == [0, 1, 2, 3]
        spans = await reader.offsets()
        while spans[0].start < 2:
            spans = await reader.offsets()
        assert spans[0].start == 2
