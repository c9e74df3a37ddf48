"""Stores at endpoints: over real connections, across hops, through restarts and kill -9."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.store import Store
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from tests.endpoint.rows import line
from wire.errors import (
    BackendFailure,
    GuardFailed,
    MasterExists,
    NoSuchKey,
    StaleData,
    StoreClosed,
    TypeClash,
)


async def test_a_clone_works_across_hops_and_writes_back() -> None:
    with trio.fail_after(limit()):
        async with line(4) as (first, _, _, last):
            async with first.attach_master("s") as master, last.attach_clone("s") as clone:
                assert await clone.await_idle(timeout=limit())
                for number in range(500):
                    await clone.put(("n", number), {"value": number})
                assert await clone.await_idle(timeout=limit())
                assert await master.await_idle(timeout=limit())
                assert len(await master.keys()) == 500
                assert await clone.get(("n", 499)) == {"value": 499}


async def test_every_operation_through_a_clone() -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right), left.attach_master("s") as master:
            async with right.attach_clone("s") as clone:
                await clone.put("count", 40)
                await clone.increment("count", 2)
                await clone.append("text", "ab")
                await clone.append("text", "c")
                await clone.insert_into("set", 1)
                await clone.insert_into("set", True)  # another element than 1
                await clone.insert_into("table", "k", "v")
                await clone.push("vector", 1)
                await clone.push("vector", 2)
                await clone.pop("vector")
                await clone.put("gone", 1)
                await clone.erase("gone")
                await clone.decrement("count", 1)
                await clone.remove_from("table", "k")
                assert await clone.await_idle(timeout=limit())
                for store in (master, clone):
                    assert await store.get("count") == 41
                    assert await store.get("text") == "abc"
                    assert len(await store.get("set")) == 2
                    assert await store.get("table") == {}
                    assert await store.get("vector") == (1,)
                    assert not await store.exists("gone")
                assert await clone.put_unique("u", 1)
                assert not await clone.put_unique("u", 2)
                await (await clone.clear()).applied()
                assert await clone.keys() == []


async def test_errors_reach_the_writer_and_change_nothing() -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right), left.attach_master("s"):
            async with right.attach_clone("s") as clone:
                first = await clone.put("k", "text")
                wrong = await clone.increment("k", 1)
                missing = await clone.decrement("nothing", 1)
                last = await clone.put("after", 1)
                assert await first.applied() < await last.applied()
                with pytest.raises(TypeClash):
                    await wrong.applied()
                with pytest.raises(NoSuchKey):
                    await missing.applied()
                assert await clone.get("k") == "text"
                assert not await clone.exists("nothing")


async def test_a_batch_is_all_or_nothing() -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right), left.attach_master("s"):
            async with right.attach_clone("s") as clone:
                batch = Batch().if_absent("at").put("at", 10).increment("a", 1).increment("b", 2)
                revision = await (await clone.batch(batch)).applied()
                assert revision > 0
                again = Batch().if_value("at", 9).put("at", 11).increment("a", 1)
                with pytest.raises(GuardFailed):
                    await (await clone.batch(again)).applied()
                assert [await clone.get(key) for key in ("at", "a", "b")] == [10, 1, 2]


async def test_what_expires_is_gone_everywhere() -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right), left.attach_master("s"):
            async with right.attach_clone("s") as clone:
                assert await clone.await_idle(timeout=limit())
                with clone.events() as events:
                    await clone.put("short", 1, expiry=0.05)
                    await clone.put("long", 1, expiry=3600)
                    kinds = [(await events.get()).kind.value for _ in range(3)]
                assert kinds == ["insert", "insert", "expire"]
                assert await clone.keys() == ["long"]


async def test_a_clone_that_comes_first_waits_for_its_master() -> None:
    with trio.fail_after(limit()):
        async with line(3) as (left, _, right), right.attach_clone("s") as clone:
            receipt = await clone.put("early", 1)
            outcome = await clone.await_idle(timeout=0)
            assert not outcome
            assert "no master" in str(outcome) or "no group" in str(outcome)
            async with left.attach_master("s"):
                assert await receipt.applied()
                assert await clone.get("early") == 1


async def test_a_second_master_is_refused_wherever_it_is() -> None:
    with trio.fail_after(limit()):
        async with line(3) as (left, _, right), left.attach_master("s"):
            assert await right.await_peer(left.node_id(), timeout=limit())
            async with right.attach_clone("s") as clone:
                assert await clone.await_idle(timeout=limit())
            with pytest.raises(MasterExists, match=str(left.node_id())):
                await right.attach_master("s")


async def test_a_closed_store_says_so() -> None:
    with trio.fail_after(limit()):
        async with line(1) as (endpoint,):
            async with endpoint.attach_master("s") as store:
                await store.put("k", 1)
            with pytest.raises(StoreClosed):
                await store.get("k")
            with pytest.raises(StoreClosed):
                await store.put("k", 1)
            async with endpoint.attach_master("s") as store:
                assert await store.get("k") is None


@pytest.mark.parametrize(
    "options", [{}, {"path": ""}, {"path": "x", "synchronous": "MAYBE"}, {"path": "x", "speed": 9}]
)
async def test_options_that_make_no_sense_are_refused(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with line(1) as (endpoint,):
        with pytest.raises(BackendFailure):
            await endpoint.attach_master("s", Backend.SQLite, **options)


async def test_a_stale_clone_refuses_to_be_read() -> None:
    with trio.fail_after(limit()):
        async with line(2) as (left, right):
            async with right.attach_clone("s", stale_interval=0) as clone:
                async with left.attach_master("s") as master:
                    await master.put("k", 1)
                    assert await clone.await_idle(timeout=limit())
                    assert await clone.get("k") == 1
                while True:  # It is told at once that its master closed.
                    try:
                        await clone.get("k")
                    except StaleData as error:
                        assert "stale_interval" in str(error)  # noqa: PT017 - it comes in a loop
                        break
                    await trio.lowlevel.checkpoint()


MASTER = """
import sys, trio
from endpoint import Endpoint
from endpoint.replicas.attaching import Backend

async def main(port, path):
    async with Endpoint() as endpoint:
        assert await endpoint.peer("127.0.0.1", int(port))
        async with endpoint.attach_master("s", Backend.SQLite, path=path):
            print("up", flush=True)
            await trio.sleep_forever()

trio.run(main, *sys.argv[1:])
"""


@asynccontextmanager
async def master_process(port: int, path: Path) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-c", MASTER, str(port), str(path)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert (await process.stdout.receive_some()).startswith(b"up")
        yield process
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            await process.stdout.aclose()


async def test_kill_9_of_the_master_loses_nothing_acknowledged_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    with trio.fail_after(limit(60)):
        async with Endpoint() as endpoint, endpoint.attach_clone("s") as clone:
            port = await endpoint.listen()
            receipts = []
            for round_number in range(4):
                async with master_process(port, tmp_path / "s.db") as process:
                    for number in range(300):
                        receipts.append(await clone.increment("count", 1))
                        if number == 200:
                            await receipts[100 + 300 * round_number].applied()
                            process.send_signal(signal.SIGKILL)
                            await process.wait()
            async with master_process(port, tmp_path / "s.db"):
                for receipt in receipts:
                    await receipt.applied()
                assert await clone.await_idle(timeout=limit())
                assert await clone.get("count") == len(receipts)


async def fill(store: Store, count: int) -> None:
    for number in range(count):
        await store.put(number, number)


async def test_a_fresh_clone_takes_a_large_store_while_it_changes() -> None:
    with trio.fail_after(limit()):
        async with line(3) as (left, _, right), left.attach_master("s") as master:
            await fill(master, 20_000)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fill, master, 5_000)
                async with right.attach_clone("s") as clone:
                    assert await clone.await_idle(timeout=limit())
                    assert len(await clone.keys()) == 20_000
