"""What is closed says which store or log it was, and what to do next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from endpoint import Endpoint
from tests.endpoint.rows import line
from wire.errors import StoreClosed


async def refused(call: Callable[[], Awaitable[object]]) -> str:
    with pytest.raises(StoreClosed) as told:
        await call()
    return str(told.value)


async def test_a_store_that_was_closed_is_named_by_all_that_used_it() -> None:
    async with line(1) as (endpoint,):
        store = await endpoint.attach_master("cities")
        watch, events, elections = store.watch(), store.events(), store.elections("boss")
        await watch.get()  # the mark
        await elections.get()
        await store.close()
        for call in (lambda: store.put("a", 1), watch.get, events.get, elections.get):
            assert await refused(call) == "store cities is closed: attach it again"


async def test_a_reader_that_was_closed_names_its_store() -> None:
    async with line(1) as (endpoint,), endpoint.attach_master("cities") as store:
        readers = {
            "watch": store.watch(),
            "reader of events": store.events(),
            "follower of an election": store.elections("boss"),
        }
        for name, reader in readers.items():
            reader.close()
            text = f"the {name} of store cities was closed: make a new one"
            assert await refused(reader.get) == text


async def test_a_log_that_was_closed_is_named() -> None:
    async with line(2) as (first, last), first.attach_log("trips"):
        for attach in (last.attach_log_clone, last.attach_log_proxy):
            log = await attach("trips")
            await log.close()
            text = "log trips is closed: attach it again"
            assert await refused(lambda log=log: log.append(1)) == text


async def test_what_has_no_outcome_at_the_end_is_told_of_its_store() -> None:
    async with Endpoint() as alone:
        proxy = await alone.attach_proxy("cities")
        receipt = await proxy.put("a", 1)
        await proxy.close()
        assert await refused(receipt.applied) == "store cities is closed: it was not applied"
