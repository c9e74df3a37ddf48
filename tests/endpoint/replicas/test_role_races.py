"""What goes on while a store or log changes its role: a promotion, reads, a disk that fails."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.surroundings import surroundings
from peermesh.testing.time_limits import limit
from tests.endpoint.gates import Gate, gate, replica_files, sqlite_rows
from tests.endpoint.rows import star
from wire.errors import BackendFailure, EndpointClosed, MasterExists, PromotionRefused, StoreError


async def test_of_two_promotions_at_once_one_is_refused() -> None:
    async with star(1) as (left, right):
        old, clone = await left.attach_master("s"), await right.attach_clone("s")
        await (await old.put("a", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        await old.close()
        found = []

        async def promote() -> None:
            try:
                found.append(await clone.promote(force=True))
            except (PromotionRefused, MasterExists) as error:
                found.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(promote)
            nursery.start_soon(promote)
        refused, promoted = sorted(found, key=lambda each: not isinstance(each, StoreError))
        assert re.search("is being promoted already|has its master here already", str(refused))
        assert promoted.term == 1
        assert await (await clone.put("b", 2)).applied() > promoted.revision
        other = await left.attach_clone("s")
        assert await other.await_idle(timeout=limit()), "the master hears"
        assert dict(await other.items()) == {"a": 1, "b": 2}


@pytest.mark.parametrize("method", ["gather", "offsets_at"])
async def test_a_keeper_that_is_deposed_while_it_reads_for_others_goes_on_as_follower(
    method, kit, tmp_path
) -> None:
    async with star(2) as (left, right, third):
        options = {"backend": Backend.SQLite, "path": tmp_path / "log.db"}
        old = await left.attach_log("log", **options)
        await (await old.append("kept")).applied()
        heir = await right.attach_log_clone("log")
        assert await heir.await_idle(timeout=limit())
        proxy = await third.attach_log_proxy("log")
        assert await proxy.partition_count() == 1
        is_reached, is_open = trio.Event(), trio.Event()
        read = getattr(old.part.source, method)

        async def read_slowly(*arguments: object, **options: object) -> object:
            is_reached.set()
            await is_open.wait()
            return await read(*arguments, **options)

        setattr(old.part.source, method, read_slowly)
        found = []

        async def ask() -> None:
            if method == "gather":
                found.extend(entry.value for entry in await proxy.read(0, 0))
            else:
                found.append(await proxy.offset_at(0, 0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await is_reached.wait()
            await heir.promote(force=True)
            await kit.until(lambda: not old.is_keeper())
            is_open.set()
        assert found == (["kept"] if method == "gather" else [0])
        assert (await (await old.append("more")).applied()).offset == 1


async def test_a_follower_whose_disk_fails_is_not_promoted(kit, tmp_path) -> None:
    async with star(1) as (left, right):
        old = await left.attach_log("log")
        heir = await right.attach_log_clone("log", Backend.SQLite, path=tmp_path / "heir.db")
        assert await heir.await_idle(timeout=limit())
        disk = gate(heir, "write", BackendFailure("the disk is full"))
        await (await old.append("late")).applied()
        await kit.until(disk.is_reached.is_set)
        await old.close()
        async with trio.open_nursery() as nursery:

            async def promote() -> None:
                with pytest.raises(PromotionRefused, match="was closed meanwhile"):
                    await heir.promote(force=True)

            nursery.start_soon(promote)
            await kit.until(lambda: heir.runner.is_changing_role)
            disk.open()
        await heir.close()


async def test_a_deposed_keeper_collects_no_longer_nor_when_it_is_started_again(
    kit, tmp_path
) -> None:
    async with star(2) as (left, right, third):
        options = {"backend": Backend.SQLite, "path": tmp_path / "log.db"}
        old = await left.attach_log("news", ["news/"], **options)
        heir = await right.attach_log_clone("news")
        assert await heir.await_idle(timeout=limit())
        await heir.promote(["news/"], force=True)
        await kit.until(lambda: not old.is_keeper())
        consumer = heir.consume()

        async def check() -> None:
            """Publish twice: what is there in between would be a repetition."""
            assert await old.await_idle(timeout=limit())
            await kit.until(lambda: not list(left.loop.readers))
            known = third.loop.core.topology.announcements
            await kit.until(lambda: known[right.node_id()].subscriptions == ("news/",))
            for value in ("one", "two"):
                await third.publish("news/today", value)
            assert [(await consumer.get()).value for _ in range(2)] == ["one", "two"]

        await check()
        await old.close()
        with pytest.raises(MasterExists, match="has its keeper"):
            await left.attach_log("news", ["news/"], **options)
        old = await left.attach_log_clone("news")
        await check()


async def test_a_store_that_is_read_while_its_endpoint_ends_lets_go_of_its_file(
    kit, tmp_path
) -> None:
    gates: list[Gate] = []

    def open_slowly(path: str, options: dict[str, object]) -> Any:
        gates.append(Gate(sqlite_rows(path, options), "load"))
        return gates[-1]

    async def attach(endpoint: Endpoint) -> None:
        with pytest.raises(EndpointClosed, match="closed before the store or log was attached"):
            await endpoint.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")

    token = surroundings.set(replace(surroundings.get(), open_replica=replica_files(open_slowly)))
    endpoint = Endpoint()
    surroundings.reset(token)
    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery, endpoint:
            nursery.start_soon(attach, endpoint)
            await kit.until(lambda: gates and gates[0].is_reached.is_set())
            await endpoint.shutdown()
            gates[0].open()
        async with Endpoint() as other:
            store = await other.attach_master("s", Backend.SQLite, path=tmp_path / "s.db")
            assert await (await store.put("a", 1)).applied()
