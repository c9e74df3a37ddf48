"""Who leads a store: promotion, fencing, second masters, replicas, and writes without a master."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.mesh.status import StatusEvent
from endpoint.pubsub.stream import StatusSubscriber
from endpoint.replicas.attaching import Backend
from peermesh.testing.time_limits import limit
from tests.waiting import until
from wire.errors import (
    BackendFailure,
    InvalidData,
    MasterExists,
    NoSuchMaster,
    PromotionRefused,
    StoreClosed,
)


class Pair:
    """Two endpoints whose link a test cuts and mends."""

    def __init__(self, left: Endpoint, right: Endpoint) -> None:
        self.left, self.right = left, right
        self._port = 0

    async def join(self) -> None:
        self._port = self._port or await self.left.listen()
        assert await self.right.peer("127.0.0.1", self._port, retry=0)
        assert await self.right.await_peer(self.left.node_id(), timeout=limit())
        assert await self.left.await_peer(self.right.node_id(), timeout=limit())

    async def part(self) -> None:
        with self.left.subscribe_status() as status:
            assert await self.right.unpeer("127.0.0.1", self._port)
            await told(status, StatusCode.ENDPOINT_UNREACHABLE)


@asynccontextmanager
async def two_endpoints() -> AsyncIterator[Pair]:
    with trio.fail_after(limit()):
        async with Endpoint() as left, Endpoint() as right:
            yield Pair(left, right)


async def told(status: StatusSubscriber, code: StatusCode) -> StatusEvent:
    async for event in status:
        if event.status is code:
            return event
    raise AssertionError("the endpoint closed")


async def test_a_promoted_clone_leads_and_the_old_master_follows_when_it_returns() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await old.put("shared", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        with pair.right.subscribe_status() as right_status, pair.left.subscribe_status() as status:
            await pair.part()
            lost = await told(right_status, StatusCode.STORE_MASTER_LOST)
            assert lost.store == "s"
            waiting = await clone.put("asked of nobody", 1)
            late = await old.put("late", 1)
            assert await late.applied() == 2
            promotion = await clone.promote()
            assert (promotion.term, promotion.revision) == (1, 1)
            assert clone.is_master()
            revision = await waiting.applied()
            assert revision > 1
            await pair.join()
            deposed = await told(status, StatusCode.STORE_DEPOSED)
            assert "revision 2" in deposed.reason
            await told(status, StatusCode.STORE_MASTER_FOUND)
        assert not old.is_master()
        assert await old.await_idle(timeout=limit())
        assert await old.get("late") is None
        assert await (await old.put("through it", 3)).applied() == revision + 1
        assert await clone.await_idle(timeout=limit())
        assert dict(await clone.items()) == {"shared": 1, "asked of nobody": 1, "through it": 3}
        assert sorted(await old.items()) == sorted(await clone.items())


async def test_a_clone_does_not_take_over_from_a_master_that_lives() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await old.put("a", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        with pytest.raises(PromotionRefused, match="its master is alive"):
            await clone.promote()
        with pair.left.subscribe_status() as status:
            await clone.promote(force=True)
            await told(status, StatusCode.STORE_DEPOSED)
        assert await (await old.put("b", 2)).applied() > 1
        assert await clone.get("b") == 2
        with pytest.raises(MasterExists):
            await clone.promote()


async def test_a_clone_without_data_is_not_promoted_even_by_force() -> None:
    async with two_endpoints() as pair:
        clone = await pair.left.attach_clone("s")
        with pytest.raises(PromotionRefused, match="never had a snapshot"):
            await clone.promote(force=True)


async def test_a_promoted_store_on_disk_survives_its_master(tmp_path: Path) -> None:
    async with two_endpoints() as pair:
        await pair.join()
        path = tmp_path / "old.db"
        old = await pair.left.attach_master("s", Backend.SQLite, path=path)
        clone = await pair.right.attach_clone("s")
        await (await clone.put("a", 1, 1000.0)).applied()
        await old.close()
        with pytest.raises(BackendFailure, match="a file of its own"):
            await clone.promote(Backend.SQLite, path=path)
        assert await clone.get("a") == 1, "it goes on as a clone"
        await clone.promote(Backend.SQLite, path=tmp_path / "new.db")
        await (await clone.put("b", 2)).applied()
        await clone.close()
        again = await pair.right.attach_master("s", Backend.SQLite, path=tmp_path / "new.db")
        assert sorted(await again.items()) == [("a", 1), ("b", 2)]
        follower = await pair.left.attach_clone("s")
        assert await follower.await_idle(timeout=limit())
        await again.close()
        assert (await follower.promote()).term == 2


async def test_a_promotion_says_how_many_the_store_has_seen(tmp_path: Path) -> None:
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    for before, path, term in ((None, first, 1), (first, second, 2)):
        options = {} if before is None else {"backend": Backend.SQLite, "path": before}
        async with two_endpoints() as pair:
            await pair.join()
            old = await pair.left.attach_master("s", **options)
            clone = await pair.right.attach_clone("s")
            assert await clone.await_idle(timeout=limit())
            await old.close()
            assert (await clone.promote(Backend.SQLite, path=path)).term == term


async def test_what_is_asked_while_a_clone_is_promoted_is_done_by_the_heir(tmp_path: Path) -> None:
    async with two_endpoints() as pair:
        await pair.join()
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        assert await clone.await_idle(timeout=limit())
        await old.close()
        asked = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(clone.promote, Backend.SQLite, path=tmp_path / "s.db"))
            while not clone.is_master():
                asked.append(await clone.put(len(asked), 1))
                await trio.lowlevel.checkpoint()
        for receipt in asked:
            await receipt.applied()
        assert len(await clone.keys()) == len(asked)


async def test_a_master_with_an_old_file_becomes_a_clone_and_leaves_the_file(
    tmp_path: Path,
) -> None:
    async with two_endpoints() as pair:
        await pair.join()
        path = tmp_path / "old.db"
        old = await pair.left.attach_master("s", Backend.SQLite, path=path)
        clone = await pair.right.attach_clone("s")
        await (await clone.put("a", 1)).applied()
        await pair.part()
        await (await old.put("late", 1)).applied()
        await old.close()
        await clone.promote(force=True)
        back = await pair.left.attach_master("s", Backend.SQLite, path=path)
        assert await back.get("late") == 1
        with pair.left.subscribe_status() as status:
            await pair.join()
            await told(status, StatusCode.STORE_DEPOSED)
        assert await back.await_idle(timeout=limit())
        assert await back.items() == [("a", 1)]
        await back.close()
        await clone.close()
        await pair.part()
        found = await pair.left.attach_master("s", Backend.SQLite, path=path, fresh=True)
        assert await found.get("late") == 1, "what was lost can be looked at"


async def test_a_promotion_takes_no_file_that_was_a_store_once(tmp_path: Path) -> None:
    async with two_endpoints() as pair:
        await pair.join()
        async with pair.left.attach_master("other", Backend.SQLite, path=tmp_path / "s.db"):
            pass
        old, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        assert await clone.await_idle(timeout=limit())
        await old.close()
        with pytest.raises(BackendFailure):
            await clone.promote(Backend.SQLite, path=tmp_path / "s.db")


async def test_a_handle_that_was_closed_promotes_nothing() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        for store in (master, clone):
            await store.close()
            for is_forced in (False, True):
                with pytest.raises(StoreClosed):
                    await store.promote(force=is_forced)


async def test_two_masters_that_meet_keep_what_each_has_and_tell() -> None:
    async with two_endpoints() as pair:
        early = await pair.left.attach_master("s")
        later = await pair.right.attach_master("s")
        for number, master in enumerate((early, later)):
            await (await master.put("of", number)).applied()
        with pair.left.subscribe_status() as status, pair.right.subscribe_status() as others:
            await pair.join()
            for each in (status, others):
                event = await told(each, StatusCode.STORE_CONFLICT)
                assert "another group of this name" in event.reason
        assert [await each.get("of") for each in (early, later)] == [0, 1]


async def test_a_master_that_has_nothing_yet_ends_where_another_one_has_something() -> None:
    async with two_endpoints() as pair:
        old, idle = await pair.left.attach_master("s"), await pair.right.attach_master("s")
        await (await old.put("a", 1)).applied()
        await pair.join()
        await until(lambda: not idle.is_master())
        with pytest.raises(MasterExists, match="a master that lives"):
            await idle.get("a")
        assert await (await old.put("b", 1)).applied() == 2


async def test_copies_are_not_counted_any_more() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        with pytest.raises(InvalidData, match=r"replicas=1: .* attach_replica\(name, voters="):
            await pair.left.attach_master("s", replicas=1)
        await pair.left.attach_master("s")
        clone = await pair.right.attach_clone("s")
        with pytest.raises(InvalidData, match=r"replicas=2: .* attach_replica\(name, voters="):
            await clone.promote(replicas=2, force=True)


async def test_a_write_that_finds_no_master_fails_after_the_buffer_interval() -> None:
    async with two_endpoints() as pair:
        clone = await pair.left.attach_clone("s", mutation_buffer_interval=0.2)
        with pytest.raises(NoSuchMaster, match=r"was not (sent|applied)"):
            await (await clone.put("a", 1)).applied()
        master = await pair.right.attach_master("s")
        await pair.join()
        assert await clone.await_idle(timeout=limit())
        await (await clone.put("b", 2)).applied()
        assert await master.items() == [("b", 2)]


async def test_a_clone_that_came_first_finds_its_master_without_waiting_for_a_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("endpoint.loop.TICK_SECONDS", 3_600)
    async with two_endpoints() as pair:
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await master.put("a", 1)).applied()
        await pair.join()
        assert await clone.get("a") == 1
