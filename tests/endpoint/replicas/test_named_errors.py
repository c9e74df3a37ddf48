"""What is told later than it was asked says of which store or log it is: a program has several."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

import pytest

from endpoint import Endpoint
from endpoint.replicas.stores.reading import Reader
from endpoint.replicas.stores.store import ReplicaStore, Store
from endpoint.replicas.stores.store_handle import StoreHandle
from stores.batch import Batch
from tests.endpoint.rows import line
from wire.errors import (
    GuardFailed,
    InvalidData,
    NoSuchKey,
    NoSuchPartition,
    OffsetOutOfRange,
    RequestTimeout,
    RevisionGone,
    SequenceUnknown,
    StoreError,
    TypeClash,
)


class _Receipt(Protocol):
    def applied(self) -> Awaitable[object]: ...


async def said(kind: type[StoreError], call: Callable[[], Awaitable[object]]) -> str:
    with pytest.raises(kind) as told:
        await call()
    return str(told.value)


async def outcome(asked: Awaitable[_Receipt]) -> object:
    return await (await asked).applied()


async def attached(
    stack: AsyncExitStack, endpoints: list[Endpoint], kind: str
) -> tuple[StoreHandle, Reader]:
    """Give a handle of the store ``cities``, and what reads it."""
    first, last = endpoints
    if kind == "replica":
        replica = await stack.enter_async_context(
            first.attach_replica("cities", voters=(first.settings.name or "",))
        )
        return replica, replica
    master = await stack.enter_async_context(first.attach_master("cities"))
    if kind == "master":
        return master, master
    if kind == "clone":
        clone = await stack.enter_async_context(last.attach_clone("cities"))
        return clone, clone
    proxy = await stack.enter_async_context(last.attach_proxy("cities"))
    return proxy, proxy


@pytest.mark.parametrize("kind", ["master", "clone", "proxy", "replica"])
async def test_an_outcome_names_its_store(kind: str) -> None:
    async with (
        Endpoint(name="first") as first,
        Endpoint(name="last") as last,
        AsyncExitStack() as stack,
    ):
        assert await last.peer("127.0.0.1", await first.listen())
        store, reader = await attached(stack, [first, last], kind)
        await outcome(store.put("vector", (1,)))
        await outcome(store.put("number", 1))
        for error, call in (
            (GuardFailed, lambda: outcome(store.compare_and_set("vector", 1, None))),
            (
                GuardFailed,
                lambda: outcome(store.batch(Batch().if_absent("vector").erase("vector"))),
            ),
            (NoSuchKey, lambda: outcome(store.decrement("missing"))),
            (TypeClash, lambda: outcome(store.append("number", "text"))),
        ):
            told = await said(error, call)
            assert told.startswith("store cities: ")
            assert told.count("store cities") == 1
        assert "store cities" in await said(RevisionGone, lambda: reader.scan(revision=99))
        for index, error in ((7, NoSuchKey), ("x", TypeClash)):
            told = await said(error, lambda: reader.get_index_from_value("vector", index))  # noqa: B023 - it is called at once
            assert told.startswith("store cities, key 'vector': ")


@pytest.mark.parametrize("is_elected", [False, True])
async def test_what_does_not_come_in_time_names_its_store(is_elected: bool) -> None:
    async with Endpoint(name="a") as endpoint:
        store: Store | ReplicaStore
        if is_elected:
            store = await endpoint.attach_replica("cities", voters=("a",))
        else:
            store = await endpoint.attach_master("cities")
        with store.watch() as watch, store.events() as events, store.elections("boss") as boss:
            await watch.get()  # the mark
            await boss.get()
            texts = [
                await said(RequestTimeout, lambda: each.get(timeout=0))  # noqa: B023 - it is called at once
                for each in (watch, events, boss)
            ]
        assert texts == [
            "store cities: no change within 0 s",
            "store cities: no event within 0 s",
            "election boss of store cities: no change within 0 s",
        ]


async def test_a_write_that_is_not_answered_names_its_store() -> None:
    async with Endpoint() as alone:
        proxy = await alone.attach_proxy("cities")
        told = await said(RequestTimeout, lambda: proxy.put_unique("a", 1, timeout=0))
        assert told == "store cities: no answer within 0 s; ask again"
        receipt = await proxy.put("a", 1)
        with pytest.raises(RequestTimeout, match="store cities: no answer within 0 s"):
            receipt.result(timeout=0)


@pytest.mark.parametrize("kind", ["keeper", "follower", "proxy"])
async def test_what_a_log_says_names_it(kind: str) -> None:
    async with line(2) as (first, last), first.attach_log("trips", partitions=2) as keeper:
        log = keeper
        if kind == "follower":
            log = await last.attach_log_clone("trips")
            assert await log.await_idle()
        elif kind == "proxy":
            log = await last.attach_log_proxy("trips")
        for number in range(3):
            await outcome(log.append(number, partition=0, producer="till", sequence=5 + number))
        await outcome(log.trim(0, 2))
        assert await log.await_idle()
        with log.consume(start={0: 0, 1: 0}) as early, log.consume(partitions=[1]) as waiting:
            for error, call in (
                (NoSuchPartition, lambda: log.read(9, 0)),
                (NoSuchPartition, lambda: log.runs({9: 0})),
                (NoSuchPartition, lambda: outcome(log.trim(9, 0))),
                (OffsetOutOfRange, lambda: log.read(0, 0)),
                (OffsetOutOfRange, lambda: log.runs({0: 0})),
                (OffsetOutOfRange, early.get),
                (RequestTimeout, lambda: waiting.get(timeout=0)),
                (
                    SequenceUnknown,
                    lambda: outcome(log.append(1, partition=0, producer="till", sequence=1)),
                ),
                (
                    InvalidData,
                    lambda: outcome(log.append(1, partition=1, producer="till", sequence=7)),
                ),
            ):
                told = await said(error, call)
                assert told.startswith("log trips")
                assert told.count("log trips") == 1
