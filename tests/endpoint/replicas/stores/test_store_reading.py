"""Reads, events and watches of stores at endpoints, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

from endpoint import Endpoint
from endpoint.pubsub.messages import Missed
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.events import YIELD_COUNT, StoreEvent
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.store import Store
from endpoint.replicas.stores.watching import Commit
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from stores.history import ChangeOf
from stores.scanning import PAGE_COUNT
from stores.watches import TAKE_COUNT, Bookmark, Gap
from tests.waiting import until
from wire.decoding import decode
from wire.errors import (
    GuardFailed,
    InvalidData,
    RequestTimeout,
    RevisionGone,
    StaleData,
    StoreClosed,
    TypeClash,
)


def mark_of(item: object) -> int:
    """Give the revision of a bookmark."""
    assert isinstance(item, Bookmark)
    return item.revision


def undated(event: object) -> object:
    """Leave the expiry out: two members of a group know its epoch to some microseconds."""
    assert isinstance(event, StoreEvent)
    return replace(event, expires_at=None)


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[Endpoint, Endpoint, Store, Store]]:
    """A master and a clone at two endpoints."""
    with trio.fail_after(limit()):
        async with Endpoint() as left, Endpoint() as right:
            assert await right.peer("127.0.0.1", await left.listen(), retry=0)
            async with left.attach_master("s") as master, right.attach_clone("s") as clone:
                assert await clone.await_idle(timeout=limit())
                yield left, right, master, clone


# Reads.


async def test_a_read_not_before_a_receipt_sees_that_write() -> None:
    async with pair() as (_, _, master, clone):
        for number in range(100):
            mine = await clone.put("mine", number)
            assert await clone.not_before(mine).get("mine") == number
            others = await (await master.put("others", number)).applied()
            assert await clone.not_before(others).get("others") == number
            assert await master.not_before(mine).get("mine") == number


async def test_a_read_at_the_master_sees_what_anybody_was_told() -> None:
    async with pair() as (_, _, master, clone):
        for number in range(100):
            await (await master.put("k", number)).applied()
            assert await clone.at_master().get("k") == number
        assert await master.at_master().get("k") == 99


async def test_pages_are_of_one_revision_whatever_is_written_meanwhile() -> None:
    async with pair() as (left, _, master, clone), Endpoint() as third:
        assert await third.peer("127.0.0.1", await left.listen(), retry=0)
        proxy = await third.attach_proxy("s")
        for store in (master, master.at_master(), clone, clone.at_master(), proxy):
            await (await master.clear()).applied()
            for number in range(7):
                receipt = await master.put(("k", number), "old")
            await (await master.put("other", 1)).applied()
            found, revisions = list[Entry](), set[int]()
            reader = store.not_before(receipt) if isinstance(store, Store) else store
            async for page in reader.pages(prefix=("k",), limit=2):
                found += page.entries
                revisions.add(page.revision)
                await master.put(("k", 6), "new")
                await master.put(("k", len(found), "more"), "new")
                await (await master.erase(("k", 5))).applied()
            assert [each.key for each in found] == [("k", number) for number in range(7)]
            assert {each.value for each in found} == {"old"}
            assert len(revisions) == 1
        assert [len(page) async for page in master.pages("none", "nono")] == [0]
        page = await master.scan(prefix=("k",), limit=2)
        raw = await master.scan_encoded(prefix=("k",), limit=2)
        assert (raw.revision, raw.continuation) == (page.revision, page.continuation)
        assert [(decode(key), decode(each.value), each.revision) for key, each in raw.entries] == [
            (each.key, each.value, each.revision) for each in page
        ]


async def test_others_have_their_turn_between_two_pages_of_a_copy() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with Endpoint() as endpoint, endpoint.attach_master("s") as master:
        for begin in range(0, 4 * PAGE_COUNT, PAGE_COUNT):
            batch = Batch()
            for number in range(begin, begin + PAGE_COUNT):
                batch.put(number, "some")
            await (await master.batch(batch)).applied()
        await master.scan()  # The keys are in order.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            pages = [len(page) async for page in master.pages(limit=PAGE_COUNT // 2)]
            of_pages, turns = turns, 0
            entries = [entry.key async for entry in master.entries()]
            nursery.cancel_scope.cancel()
    assert pages == 8 * [PAGE_COUNT // 2]
    assert entries == list(range(4 * PAGE_COUNT))
    assert (of_pages >= 4, turns >= 2) == (True, True)


async def test_a_page_has_what_entries_are_whether_or_not_any_of_them_expires() -> None:
    async with pair() as (_, _, master, _):
        for number in range(3):
            await master.put(number, str(number))
        await (await master.erase(1)).applied()
        page = await master.scan()
        assert [*page] == [await master.entry(0), await master.entry(2)]
        assert {each.expires_at for each in page} == {None}
        await (await master.put(1, "1", expiry=3_600)).applied()
        page = await master.scan()
        assert [*page] == [await master.entry(number) for number in range(3)]
        assert [each.expires_at is None for each in page] == [True, False, True]


async def test_a_revision_that_nobody_keeps_is_an_error_that_says_what_to_do() -> None:
    async with pair() as (_, _, master, clone):
        await master.put(1, 1)
        await (await master.put(2, 2)).applied()
        assert await clone.await_idle(timeout=limit())  # Until then it may be at that revision.
        for store in (master, clone.at_master()):
            with pytest.raises(RevisionGone, match="read from the start again"):
                await store.scan(revision=1)
        with pytest.raises(ValueError, match="revision=-1"):
            await master.scan(revision=-1)
        await master.close()
        with pytest.raises(StoreClosed):
            await master.scan(revision=1)


async def test_a_closed_clone_is_not_read() -> None:
    async with pair() as (_, _, master, clone):
        await (await master.put("k", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        assert await clone.get("k") == 1
        await clone.close()
        with pytest.raises(StoreClosed):
            await clone.get("k")


async def test_a_clone_that_was_promoted_sees_its_own_writes_at_once(tmp_path: Path) -> None:
    async with pair() as (_, _, _, clone):
        await clone.promote(Backend.SQLite, path=tmp_path / "s.db", force=True)
        for number in range(100):
            await clone.put("k", number)
            assert await clone.get("k") == number


async def test_a_read_that_cannot_be_as_fresh_as_it_has_to_says_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with Endpoint() as alone, alone.attach_master("s") as store:
        await (await store.put("k", 1)).applied()
        with pytest.raises(StaleData, match="revision 7 in 5 s: it is at revision 1"):
            await store.not_before(7).get("k")
        wrong = await store.append("k", "text")
        with pytest.raises(TypeClash):
            await store.not_before(wrong).get("k")
        with pytest.raises(InvalidData, match="a receipt or a revision"):
            store.not_before("k")  # type: ignore[arg-type]  # what users may do


async def test_pages_of_a_clone_while_its_master_is_written_to() -> None:
    async with pair() as (_, _, master, clone):
        for number in range(2_500):
            await master.put(f"key{number:04}", number)
        assert await master.await_idle(timeout=limit())
        async with trio.open_nursery() as nursery:

            async def disturb() -> None:
                for number in range(2_000):
                    await master.put(f"key{number:04}/new", number)

            nursery.start_soon(disturb)
            found = [entry.value async for entry in clone.entries(prefix="key")]
        assert [value for value in found if found.count(value) == 1][-1] == 2_499
        assert set(found) == set(range(2_500))
        page = await clone.at_master().scan("key0001", "key0003", limit=2)
        assert [entry.key for entry in page] == ["key0001", "key0001/new"]
        assert page.continuation is not None
        last = await clone.scan("key0001", "key0003", after=page.continuation)
        assert [entry.key for entry in last] == ["key0002", "key0002/new"]
        assert (last.continuation, len(last)) == (None, 2)
        with pytest.raises(InvalidData, match="another scan"):
            await clone.scan("x", after=page.continuation)


async def test_one_of_those_who_compare_and_set_wins() -> None:
    async with pair() as (_, _, master, clone):
        await (await master.put("count", 0)).applied()
        tries = 0

        async def add(store: Store, times: int) -> None:
            nonlocal tries
            for _ in range(times):
                while True:
                    tries += 1
                    entry = await store.at_master().entry("count")
                    assert entry is not None
                    assert isinstance(entry.value, int)
                    receipt = await store.compare_and_set("count", entry.value + 1, entry.revision)
                    try:
                        await receipt.applied()
                    except GuardFailed:
                        continue
                    break

        async with trio.open_nursery() as nursery:
            for store in (master, clone, clone):
                nursery.start_soon(add, store, 20)
        assert await master.get("count") == 60
        assert tries >= 60
        revision = await (await clone.compare_and_set("new", 1, None)).applied()
        with pytest.raises(GuardFailed):
            await (await clone.compare_and_set("new", 2, None)).applied()
        await (await clone.compare_and_erase("new", revision)).applied()
        assert not await clone.exists("new")


async def test_a_batch_may_do_something_else_if_its_guards_do_not_hold() -> None:
    async with pair() as (_, _, _, clone):
        batch = Batch().if_absent("lock").put("lock", "mine").otherwise().increment("losers", 1)
        results = []
        for _ in range(3):
            receipt = await clone.batch(batch)
            await receipt.applied()
            results.append(receipt.has_held())
        assert results == [True, False, False]
        assert await clone.items() == [("lock", "mine"), ("losers", 2)]
        nothing = await clone.batch(Batch().if_absent("lock").put("lock", 1).otherwise())
        await nothing.applied()
        assert not nothing.has_held()
        with pytest.raises(InvalidData, match="one otherwise"):
            batch.otherwise()


# Events.


async def test_events_tell_old_and_new_and_who_did_it_on_both_sides() -> None:
    async with pair() as (left, right, master, clone):
        with master.events() as at_master, clone.events() as at_clone:
            await master.put("k", 1)
            assert await master.await_idle(timeout=limit())
            await clone.put("k", 2)
            await clone.put("x", None)
            await clone.erase("k")
            await clone.erase("missing")
            await (await clone.put("y", 1, expiry=0.05)).applied()
            assert await clone.await_idle(timeout=limit())
            here, there = left.node_id(), right.node_id()
            events = [await at_clone.get() for _ in range(6)]
            await (await clone.clear()).applied()
            events.append(await at_clone.get())
            others = [await at_master.get() for _ in range(7)]
            assert list(map(undated, others)) == list(map(undated, events))
        assert not any(isinstance(event, Missed) for event in events)
        told = [(e.kind.value, e.key, e.before, e.after, e.revision, e.writer) for e in events]  # type: ignore[union-attr]  # none was missed
        assert told == [
            ("insert", "k", None, 1, 1, here),
            ("update", "k", 1, 2, 2, there),
            ("insert", "x", None, None, 3, there),
            ("erase", "k", 2, None, 4, there),
            ("insert", "y", None, 1, 6, there),
            ("expire", "y", 1, None, 7, None),
            ("clear", "x", None, None, 8, there),
        ]


async def test_a_reader_of_events_that_is_behind_finds_how_many_it_missed() -> None:
    async with pair() as (_, _, master, _):
        with master.events(prefix="k", queue_size=3) as events:
            for number in range(10):
                await master.put("k", number)
                await master.put("other", number)
            assert await master.await_idle(timeout=limit())
            missed, *rest = events.poll()
            assert missed == Missed(7)
            assert [event.after for event in rest] == [7, 8, 9]  # type: ignore[union-attr]  # the rest are events
            with pytest.raises(TimeoutError):
                await events.get(timeout=0)
        with pytest.raises(StoreClosed):
            await events.get()
        with pytest.raises(ValueError, match="queue_size="):
            master.events(queue_size=0)


async def test_a_reader_of_many_events_lets_other_tasks_run() -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with pair() as (_, _, master, _), trio.open_nursery() as nursery:
        with master.events() as events:
            for number in range(8 * YIELD_COUNT):
                await master.put(number, number)
            assert await master.await_idle(timeout=limit())
            nursery.start_soon(take_turns)
            for number in range(8 * YIELD_COUNT):
                event = await events.get()
                assert isinstance(event, StoreEvent)
                assert event.key == number
        nursery.cancel_scope.cancel()
    assert turns >= 2


# Watches.


async def test_a_watch_gives_what_there_is_a_mark_and_then_whole_commits() -> None:
    async with pair() as (left, right, master, clone):
        await (await master.put("job/1", "new")).applied()
        await (await master.put("other", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        with clone.watch(prefix="job/") as watch:
            seen = [await watch.get(), await watch.get()]
            assert seen[0] == Entry("job/1", "new", 1, None)
            assert mark_of(seen[1]) == 2
            batch = Batch().put("job/1", "done").put("job/2", "new").put("other", 2)
            await (await clone.batch(batch)).applied()
            await master.erase("job/1")
            first, second = await watch.get(), await watch.get()
        assert isinstance(first, Commit)
        assert isinstance(second, Commit)
        assert (first.revision, first.writer) == (3, right.node_id())
        assert [(each.kind, each.key) for each in first.changes] == [
            (ChangeOf.PUT, "job/1"),
            (ChangeOf.PUT, "job/2"),
        ]
        assert (second.revision, second.writer) == (4, left.node_id())
        assert (second.changes[0].kind, second.changes[0].entry) == (ChangeOf.ERASE, None)
        assert watch.revision == 4


async def test_watches_that_fell_behind_decode_each_commit_once() -> None:
    count = 3 * TAKE_COUNT
    seen: list[list[object]] = [[], []]

    async def follow(items: list[object]) -> None:
        with master.watch(from_revision=1) as watch:
            items += [await watch.get() for _ in range(count)]

    async with pair() as (_, _, master, _):
        for number in range(count):
            await master.put("k", number)
        assert await master.await_idle(timeout=limit())
        async with trio.open_nursery() as nursery:
            for items in seen:
                nursery.start_soon(follow, items)
    assert all(one is other for one, other in zip(*seen, strict=True))


async def test_a_watch_gives_what_is_there_whatever_its_limit_is() -> None:
    async with pair() as (_, _, master, _):
        await (await master.put("k", 1)).applied()
        with master.watch() as watch:
            assert await watch.get(timeout=limit()) == Entry("k", 1, 1, None)
            assert mark_of(await watch.get(timeout=0)) == 1
            with pytest.raises(RequestTimeout):
                await watch.get(timeout=0)


async def test_a_watch_is_resumed_at_another_replica() -> None:
    async with pair() as (_, _, master, clone):
        with master.watch(keys=["a"]) as watch:
            assert mark_of(await watch.get()) == 0
            await master.put("a", 1)
            assert isinstance(await watch.get(), Commit)
        await master.put("a", 2)
        await master.put("b", 2)
        assert await master.await_idle(timeout=limit())
        with clone.watch(keys=["a"], from_revision=watch.revision + 1) as resumed:
            item = await resumed.get()
            assert isinstance(item, Commit)
            assert [change.entry and change.entry.value for change in item.changes] == [2]
            assert mark_of(await resumed.get()) == 3


async def test_a_watch_goes_on_at_a_clone_that_was_not_there_before() -> None:
    async with pair() as (left, _, master, _), Endpoint() as third:
        for number in range(3_000):
            await master.put("k", number)
        assert await third.peer("127.0.0.1", await left.listen(), retry=0)
        async with third.attach_clone("s") as late:
            with late.watch(from_revision=11) as watch:
                seen = [await watch.get() for _ in range(2_991)]
            assert [getattr(item, "revision", None) for item in seen] == [*range(11, 3_001), 3_000]
            with late.watch(from_revision=5) as watch:
                assert isinstance(await watch.get(), Commit)


async def test_a_watch_at_a_clone_misses_nothing_that_its_master_did_out_of_its_sight(
    tmp_path: Path,
) -> None:
    options = {"path": tmp_path / "s.db"}
    with trio.fail_after(limit()):
        async with Endpoint() as left, Endpoint() as right, right.attach_clone("s") as clone:
            assert await right.peer("127.0.0.1", await left.listen(), retry=0)
            with clone.watch() as watch:
                async with left.attach_master("s", Backend.SQLite, **options) as master:
                    await (await master.put("k", 1)).applied()
                    assert await clone.await_idle(timeout=limit())
                    while watch.revision < 1:
                        await watch.get()
                async with Endpoint() as other:
                    async with other.attach_master("s", Backend.SQLite, **options) as master:
                        await master.put("k", 3)
                        await (await master.put("new", 4)).applied()
                async with left.attach_master("s", Backend.SQLite, **options):
                    items = [await watch.get() for _ in range(2)]
            commits = [item for item in items if isinstance(item, Commit)]
            assert [each.revision for each in commits] == [2, 3]
            assert [each.changes[0].key for each in commits] == ["k", "new"]


async def test_closing_a_watch_waits_for_nobody_and_ends_who_waits() -> None:
    async with pair() as (_, _, master, _):
        ended = []

        async def follow() -> None:
            async for _ in watch:
                pass
            ended.append(True)

        with master.watch() as watch:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                await until(lambda: watch.revision == 0 and not watch._part.moved.is_idle)
                watch.close()
        assert ended
        for bad in ({"prefix": "a", "keys": ["b"]}, {"keys": "abc"}, {"from_revision": 0}):
            with pytest.raises((TypeError, ValueError), match=r"prefix|keys|from_revision="):
                master.watch(**bad)  # type: ignore[arg-type]  # what users may do


async def test_a_watch_does_not_go_on_in_another_store_of_the_name() -> None:
    async with Endpoint() as endpoint:
        async with endpoint.attach_master("s") as master:
            for number in range(5):
                await (await master.put(number, "old")).applied()
            with master.watch() as watch:
                *_, mark = [await watch.get(timeout=limit()) for _ in range(6)]
            assert isinstance(mark, Bookmark)
            await (await master.put("more", "old")).applied()
            with master.watch(after=mark) as watch:
                assert isinstance(await watch.get(timeout=limit()), Commit)
        async with endpoint.attach_master("s") as master:
            for number in range(8):
                await (await master.put(number, "new")).applied()
            with master.watch(after=mark) as watch:
                gap, *there = [await watch.get(timeout=limit()) for _ in range(9)]
            assert gap == Gap(mark.revision, "another store began under the name")
            assert [item.value for item in there if isinstance(item, Entry)] == ["new"] * 8


async def test_fifty_watches_see_the_same() -> None:
    async with pair() as (_, _, master, clone):
        totals: list[int] = []

        async def follow(*, task_status: trio.TaskStatus[None]) -> None:
            total = 0
            with clone.watch() as watch:
                assert mark_of(await watch.get()) == 0
                task_status.started()
                async for item in watch:
                    total += len(item.changes) if isinstance(item, Commit) else 0
                    if total == 500:
                        totals.append(total)
                        return

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                await nursery.start(follow)
            for number in range(500):
                await master.put(number % 7, number)
        assert totals == [500] * 50


async def test_watches_begin_anew_where_the_lead_was_taken_by_force() -> None:
    async with pair() as (_, _, master, clone):
        await (await master.put("k", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        watches = [clone.watch(), master.watch()]
        for watch in watches:
            assert [type(item) for item in watch.poll()] == [Entry, Bookmark]
        await clone.promote(force=True)
        await (await clone.put("k", 2)).applied()
        for watch in watches:
            assert isinstance(await watch.get(), Gap)
            view = 0
            while view != 2:
                item = await watch.get()
                if isinstance(item, Entry):
                    view = item.value
                elif isinstance(item, Commit):
                    view = item.changes[-1].entry.value
