"""Quotas at endpoints: what writers are told, what those who watch are told, and how it ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint, StatusCode
from endpoint.mesh.status import StatusEvent
from endpoint.pubsub.stream import StatusSubscriber
from endpoint.replicas.attaching import Backend
from peermesh.testing.time_limits import limit
from stores.quota import STORE_QUOTA
from tests.endpoint.rows import line
from wire.errors import InvalidData, NoSuchMaster, QuotaExceeded, StoreClosed


@asynccontextmanager
async def one() -> AsyncIterator[tuple[Endpoint, StatusSubscriber]]:
    with trio.fail_after(limit()):
        async with Endpoint() as endpoint:
            with endpoint.subscribe_status() as status:
                yield endpoint, status


async def quota_event(status: StatusSubscriber) -> StatusEvent:
    async for event in status:
        if event.status.name.startswith("QUOTA"):
            return event
    raise AssertionError("the endpoint closed")


async def test_a_store_refuses_at_its_quota_tells_of_it_and_takes_writes_again() -> None:
    async with one() as (endpoint, status), endpoint.attach_master("s", max_entries=5) as store:
        for number in range(4):
            await (await store.put(number, "v")).applied()
        event = await quota_event(status)
        assert event.status is StatusCode.QUOTA_NEAR
        assert "store s: 4 of 5 entries" in event.reason
        assert (event.store, event.endpoint) == ("s", endpoint.node_id())
        await (await store.put(4, "v")).applied()
        assert (await quota_event(status)).status is StatusCode.QUOTA_EXCEEDED
        with pytest.raises(QuotaExceeded, match="store s is full: 5 of 5 entries"):
            await (await store.put(5, "v")).applied()
        with pytest.raises(QuotaExceeded):
            await store.put_unique(5, "v")
        await (await store.put(4, "w")).applied()
        for number in range(2):
            await (await store.erase(number)).applied()
        assert (await quota_event(status)).status is StatusCode.QUOTA_RELIEVED
        assert await store.put_unique(5, "v")


async def test_a_larger_quota_needs_no_restart() -> None:
    async with one() as (endpoint, status), endpoint.attach_master("s", max_bytes=20) as store:
        with pytest.raises(QuotaExceeded, match="of 20 bytes"):
            await (await store.put("k", "v" * 30)).applied()
        assert (await quota_event(status)).status is StatusCode.QUOTA_EXCEEDED
        store.set_quota(max_bytes=1_000)
        assert (await quota_event(status)).status is StatusCode.QUOTA_RELIEVED
        await (await store.put("k", "v" * 30)).applied()
        found = store.statistics()
        assert (found.entries, found.max_bytes) == (1, 1_000)
        assert found.bytes > 30
        assert found.max_entries == STORE_QUOTA.max_entries
        store.set_quota(max_entries=None, max_bytes=None)
        assert store.statistics().max_bytes is None
        with pytest.raises(InvalidData):
            store.set_quota(max_bytes=0)
        with pytest.raises(TypeError):
            store.set_quota(bytes=1)  # type: ignore[call-arg]  # what is wrong with it is the test


async def test_a_store_that_says_nothing_has_a_quota() -> None:
    async with one() as (endpoint, _), endpoint.attach_master("s") as store:
        found = store.statistics()
        assert (found.max_entries, found.max_bytes) == (10_000_000, 2 << 30)
        (told,) = endpoint.describe().stores
        assert told.statistics == found


async def test_a_quota_of_nothing_is_refused() -> None:
    async with one() as (endpoint, _):
        with pytest.raises(InvalidData, match="max_entries=0"):
            await endpoint.attach_master("s", max_entries=0)


async def test_clones_and_proxies_are_refused_and_cannot_change_the_quota() -> None:
    with trio.fail_after(limit()):
        async with (
            line(3) as (left, middle, right),
            left.attach_master("s", max_entries=1) as store,
        ):
            await (await store.put("k", "v")).applied()
            async with middle.attach_clone("s") as clone, right.attach_proxy("s") as proxy:
                assert await clone.await_idle(timeout=limit())
                for handle in (clone, proxy):
                    with pytest.raises(QuotaExceeded, match="store s is full"):
                        await (await handle.put("l", "v")).applied()
                    await (await handle.put("k", "w")).applied()
                with pytest.raises(NoSuchMaster, match="led elsewhere"):
                    clone.set_quota(max_entries=2)
                store.set_quota(max_entries=2)
                await (await proxy.put("l", "v")).applied()
                assert await clone.not_before(store.statistics().revision).get("l") == "v"
                assert clone.statistics().bytes == store.statistics().bytes
            await store.close()
            with pytest.raises(StoreClosed):
                store.set_quota(max_entries=2)


async def test_a_promoted_clone_has_the_quota_that_it_is_given(tmp_path: Path) -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right), right.attach_clone("s") as clone:
            async with left.attach_master("s", max_entries=1) as store:
                await (await store.put("k", "v")).applied()
                assert await clone.await_idle(timeout=limit())
                await clone.promote(
                    Backend.SQLite, path=tmp_path / "s.db", force=True, max_entries=2
                )
                await (await clone.put("l", "v")).applied()
                with pytest.raises(QuotaExceeded, match="2 of 2 entries"):
                    await (await clone.put("m", "v")).applied()


async def test_what_a_file_holds_beyond_its_quota_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with one() as (endpoint, status):
        async with endpoint.attach_master("s", Backend.SQLite, path=path) as store:
            await (await store.put("k", "v" * 100)).applied()
            before = store.statistics().bytes
        options = {"path": path, "max_bytes": 50}
        async with endpoint.attach_master("s", Backend.SQLite, **options) as store:
            assert (await quota_event(status)).status is StatusCode.QUOTA_EXCEEDED
            assert store.statistics().bytes == before
            assert await store.get("k") == "v" * 100


async def test_a_log_refuses_at_its_quota_and_trimming_ends_it() -> None:
    async with one() as (endpoint, status), endpoint.attach_log("l", max_entries=2) as log:
        for value in range(2):
            await (await log.append(value)).applied()
        event = await quota_event(status)
        assert event.status is StatusCode.QUOTA_EXCEEDED
        assert "log l: 2 of 2 entries" in event.reason
        with pytest.raises(QuotaExceeded, match="log l is full"):
            await (await log.append(2)).applied()
        assert (log.statistics().entries, log.statistics().max_bytes) == (2, 2 << 30)
        await (await log.trim(0, 1)).applied()
        assert (await quota_event(status)).status is StatusCode.QUOTA_RELIEVED
        await (await log.append(2)).applied()
        log.set_quota(max_entries=None)
        await (await log.append(3)).applied()


async def test_a_log_in_a_file_has_the_quota_of_a_disk(tmp_path: Path) -> None:
    async with one() as (endpoint, _):
        log = await endpoint.attach_log("l", backend=Backend.SQLite, path=tmp_path / "l.db")
        found = log.statistics()
        assert (found.max_entries, found.max_bytes) == (None, 64 << 30)


async def test_followers_and_proxies_of_a_full_log_are_refused_and_one_is_promoted() -> None:
    with trio.fail_after(limit()):
        async with line(3) as (left, middle, right), left.attach_log("l", max_entries=1) as log:
            await (await log.append(0)).applied()
            async with middle.attach_log_clone("l") as copy, right.attach_log_proxy("l") as proxy:
                assert await copy.await_idle(timeout=limit())
                for handle in (copy, proxy):
                    with pytest.raises(QuotaExceeded, match="log l is full"):
                        await (await handle.append(1)).applied()
                    with pytest.raises(NoSuchMaster):
                        handle.set_quota(max_entries=2)
                assert copy.statistics().bytes == log.statistics().bytes
                await copy.promote(force=True, max_entries=2)
                await (await copy.append(1)).applied()
                with pytest.raises(QuotaExceeded, match="2 of 2 entries"):
                    await (await copy.append(2)).applied()


async def test_a_limit_that_no_journal_can_hold_is_refused_and_costs_nothing(tmp_path) -> None:
    file = {"backend": Backend.SQLite, "path": tmp_path / "s.db"}
    async with one() as (endpoint, _):
        async with endpoint.attach_master("s", **file) as store:
            await (await store.put("k", 1)).applied()
            for limits in ({"max_bytes": 2**64}, {"max_entries": 2**64}):
                with pytest.raises(InvalidData, match="of less than 64 bits"):
                    store.set_quota(**limits)
            store.set_quota(max_bytes=2**64 - 1)
            await (await store.put("k", 2)).applied()
        async with endpoint.attach_master("s", **file) as store:
            assert await store.get("k") == 2
        with pytest.raises(InvalidData, match="of less than 64 bits"):
            await endpoint.attach_master("other", max_entries=2**64)
        for limits in ({"keep_count": 2**64}, {"keep_bytes": 2**64}, {"keep_seconds": 1e30}):
            with pytest.raises(InvalidData, match="of less than 64 bits"):
                await endpoint.attach_log("l", **limits)
