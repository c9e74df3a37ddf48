"""A receipt's blocking calls in a task: they would stop the loop that brings the outcome."""

from __future__ import annotations

import asyncio

import pytest
import trio

from peermesh import Endpoint, aio, blocking
from peermesh.errors import RequestTimeout
from peermesh.testing.time_limits import limit

TOLD = "use await receipt.applied"


async def check(endpoint: Endpoint | aio.Endpoint) -> None:
    store = await endpoint.attach_clone("s")
    receipt = await store.put("k", 1)  # no master takes it
    with pytest.raises(RuntimeError, match=TOLD):
        receipt.result()
    with pytest.raises(RuntimeError, match=TOLD):
        receipt.wait(1)
    assert not receipt.wait(0), "it does not wait"
    with pytest.raises(RequestTimeout):
        receipt.result(0)
    assert not receipt.is_resolved


async def test_a_task_of_trio_is_told() -> None:
    async with Endpoint() as endpoint:
        await check(endpoint)
        store = await endpoint.attach_master("other")
        receipt = await store.put("k", 1)
        await trio.to_thread.run_sync(receipt.result, limit())
        assert receipt.result() == 1, "it is known"
        await endpoint.shutdown(grace=0)


def test_a_task_of_asyncio_is_told() -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            await check(endpoint)
            receipt = await (await endpoint.attach_master("other")).put("k", 1)
            assert await asyncio.to_thread(receipt.result, limit()) == 1
            await endpoint.shutdown(grace=0)

    asyncio.run(main())


def test_a_task_of_a_loop_with_an_endpoint_may_wait_for_one_of_another_thread() -> None:
    def work() -> None:
        with blocking.Endpoint() as endpoint:
            store, log = endpoint.attach_master("s"), endpoint.attach_log("l")
            assert store.put("k", 1).result(limit()) == 1
            assert store.put_unique("other", 1)
            assert log.append("entry").result(limit()).offset == 0

    async def main(kind: type[Endpoint | aio.Endpoint]) -> None:
        async with kind():
            work()

    trio.run(main, Endpoint)
    asyncio.run(main(aio.Endpoint))


def test_a_task_may_wait_for_what_lives_in_another_thread() -> None:
    with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:

        async def main() -> int:
            return store.put("k", 1).result(limit())

        assert trio.run(main) == 1
        assert asyncio.run(main()) == 2
