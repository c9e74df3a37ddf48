"""Stores without a copy, over real sockets: the nearest replica, fail-over, single writes."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.store_proxy import StoreProxy
from endpoint.surroundings import surroundings
from peermesh.blocking import Endpoint as BlockingEndpoint
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from stores.limits import KEY_SIZE_MAX
from tests.endpoint.rows import line
from tests.waiting import until
from wire.errors import (
    GuardFailed,
    InvalidData,
    NoSuchKey,
    NoSuchMaster,
    StaleData,
    StoreClosed,
    StoreError,
)


def nearest(proxy: StoreProxy) -> Endpoint:
    """Say whom the proxy asks first."""
    return proxy.part.find_replicas()[0]


async def test_a_proxy_reads_and_writes_over_several_hops() -> None:
    async with line(4) as (first, _, third, last):
        async with (
            first.attach_master("s") as master,
            third.attach_clone("s") as clone,
            last.attach_proxy("s") as proxy,
        ):
            assert await clone.await_idle(timeout=limit())
            assert await proxy.await_idle(timeout=limit())
            assert nearest(proxy) == third.node_id()
            assert await (await proxy.put("a", {"b": 1})).applied() == 1
            assert await proxy.get("a") == {"b": 1}
            assert await proxy.get_index_from_value("a", "b") == 1
            assert (await proxy.entry("a")).revision == 1
            assert await proxy.exists("a")
            assert await proxy.get("missing", 7) == 7
            assert await proxy.entry("missing") is None
            assert not await proxy.exists("missing")
            with pytest.raises(NoSuchKey):
                await proxy.get_index_from_value("missing", 0)
            assert await proxy.put_unique("once", 1)
            assert not await proxy.put_unique("once", 2)
            with pytest.raises(GuardFailed):
                await (await proxy.compare_and_set("once", 3, None)).applied()
            receipt = await proxy.batch(Batch().if_exists("a").increment("n", 5))
            assert await proxy.not_before(receipt).get("n") == 5
            other = await master.put("fresh", 1)
            await other.applied()
            assert await proxy.at_master().get("fresh") == 1
            assert await proxy.not_before(other).get("fresh") == 1


async def test_pages_of_a_proxy_are_those_of_the_store() -> None:
    async with line(2) as (first, last):
        async with first.attach_master("s") as master, last.attach_proxy("s") as proxy:
            for number in range(300):
                await master.put(number, bytes(2_000))
            await (await master.put("x", 1, expiry=1_000)).applied()
            assert [entry async for entry in proxy.entries()] == [
                entry async for entry in master.entries()
            ]
            assert sorted(map(repr, await proxy.keys())) == sorted(map(repr, await master.keys()))
            assert dict(await proxy.items()) == dict(await master.items())
            page = await proxy.scan(10, 290, limit=5)
            assert [entry.key for entry in page] == [10, 11, 12, 13, 14]
            assert page.revision == 301
            page = await proxy.scan(10, 290, limit=5, after=page.continuation)
            assert [entry.key for entry in page] == [15, 16, 17, 18, 19]
            with pytest.raises(ValueError, match="limit="):
                await proxy.scan(limit=0)


async def test_when_the_nearest_replica_goes_another_one_answers() -> None:
    # The proxy is linked to both; the clone's endpoint, which is the nearer one, goes in mid-use.
    async with line(3) as (first, second, proxy_end):
        async with first.attach_master("s") as master:
            await (await master.put("a", 1)).applied()
            async with Endpoint() as near, proxy_end.attach_proxy("s") as proxy:
                assert await near.peer("127.0.0.1", await proxy_end.listen(), timeout=limit())
                async with near.attach_clone("s") as clone:
                    assert await clone.await_idle(timeout=limit())
                    assert await proxy.get("a") == 1
                    with trio.fail_after(limit()):
                        await until(lambda: nearest(proxy) == near.node_id())
                    assert await proxy.get("a") == 1
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(near.shutdown)
                        for number in range(20):
                            receipt = await proxy.increment("n")
                            await receipt.applied()
                            assert await proxy.get("n") == number + 1
            del second


async def test_a_restarted_master_takes_what_was_asked_meanwhile_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with line(3) as (first, _, last):
        async with last.attach_proxy("s") as proxy:
            master = await first.attach_master("s", Backend.SQLite, path=path)
            assert await (await proxy.increment("n")).applied() == 1
            await master.close()
            receipts = [await proxy.increment("n") for _ in range(3)]
            async with first.attach_master("s", Backend.SQLite, path=path):
                assert [await receipt.applied() for receipt in receipts] == [2, 3, 4]
                assert await proxy.get("n") == 4


async def test_a_proxy_follows_a_promotion() -> None:
    async with line(3) as (first, second, last):
        async with second.attach_clone("s") as clone, last.attach_proxy("s") as proxy:
            master = await first.attach_master("s")
            await (await proxy.put("a", 1)).applied()
            assert await clone.await_idle(timeout=limit())
            await master.close()
            waiting = await proxy.increment("n")
            await until(lambda: not clone.runner.is_in_touch)
            await clone.promote()
            await waiting.applied()
            assert await proxy.get("n") == 1
            assert await proxy.get("a") == 1
            assert await proxy.at_master().get("n") == 1


async def test_without_a_replica_reads_are_stale_and_say_why(
    short_reads: None,
) -> None:
    async with line(1) as (endpoint,):
        async with endpoint.attach_proxy("s", mutation_buffer_interval=0.2) as proxy:
            with pytest.raises(StaleData, match="no replica of the store is known"):
                await proxy.get("a")
            with pytest.raises(NoSuchMaster):
                await (await proxy.put("a", 1)).applied()


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have reads wait for a moment only."""
    monkeypatch.setattr("endpoint.replicas.stores.store_proxy.READ_SECONDS", 0.2)


async def test_a_clone_out_of_touch_refuses_proxies_as_it_refuses_others() -> None:
    async with line(2) as (first, last):
        async with Endpoint() as gone:
            assert await first.peer("127.0.0.1", await gone.listen(), retry=0)
            await gone.attach_master("s")
            async with (
                first.attach_clone("s", stale_interval=0.1) as clone,
                last.attach_proxy("s") as proxy,
            ):
                assert await clone.await_idle(timeout=limit())
                assert await proxy.get("a") is None
                await gone.shutdown()
                await until(lambda: clone.runner.core.is_stale())
                with pytest.raises(StaleData, match="out of touch"):
                    await proxy.get("a")


async def test_a_clock_that_is_set_makes_no_copy_stale_or_fresh() -> None:
    off_ns = 0
    token = surroundings.set(replace(surroundings.get(), now_ns=lambda: time.time_ns() + off_ns))
    try:
        async with line(2) as (first, last), Endpoint() as gone:
            assert await first.peer("127.0.0.1", await gone.listen(), retry=0)
            await gone.attach_master("s")
            async with (
                first.attach_clone("s", stale_interval=3600) as patient,
                last.attach_clone("s", stale_interval=0.1) as hasty,
            ):
                for clone in (patient, hasty):
                    assert await clone.await_idle(timeout=limit())
                await gone.shutdown()
                for clone in (patient, hasty):
                    await until(lambda: not clone.runner.core.is_served)  # noqa: B023 - within its round
                off_ns = 2 * 3600 * 10**9
                assert await patient.get("a") is None
                off_ns = -off_ns
                assert await patient.get("a") is None
                await until(lambda: hasty.runner.core.is_stale())
                promoted = await patient.promote()
                assert promoted.silent_seconds < 3600
    finally:
        surroundings.reset(token)


async def test_one_endpoint_has_one_handle_of_a_store() -> None:
    async with line(1) as (endpoint,):
        async with endpoint.attach_master("s"):
            with pytest.raises(StoreError, match="use that handle"):
                await endpoint.attach_proxy("s")


async def test_a_closed_proxy_says_so() -> None:
    async with line(2) as (first, last):
        async with first.attach_master("s"):
            proxy = await last.attach_proxy("s")
            assert await proxy.get("a") is None
            await proxy.close()
            with pytest.raises(StoreClosed):
                await proxy.get("a")
            with pytest.raises(StoreClosed):
                await proxy.put("a", 1)
            async with last.attach_proxy("s") as again:
                assert await again.get("a") is None


def test_threads_use_proxies_too() -> None:
    with BlockingEndpoint() as left, BlockingEndpoint() as right:
        right.peer("127.0.0.1", left.listen())
        with left.attach_master("s"), right.attach_proxy("s") as proxy:
            receipt = proxy.put("a", 1)
            assert proxy.not_before(receipt).get("a") == 1
            assert proxy.at_master().exists("a")
            assert proxy.put_unique("b", 2)
            assert proxy.await_idle(timeout=limit())
            assert [entry.key for entry in proxy.entries()] == ["a", "b"]
            assert sorted(proxy.keys()) == ["a", "b"]


async def test_a_key_that_no_store_has_is_an_error_at_once_and_asks_nothing() -> None:
    async with line(2) as (first, last):
        async with first.attach_master("s") as master, last.attach_proxy("s") as proxy:
            key = "x" * KEY_SIZE_MAX
            for store in (proxy, proxy.at_master(), master, master.at_master()):
                for look in (store.exists, store.get, store.entry):
                    with pytest.raises(InvalidData, match="a key of 65541 bytes: at most 65536"):
                        await look(key)
                assert not await store.exists(key[:-5])
