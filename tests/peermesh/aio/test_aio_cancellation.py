"""Cancellation in asyncio, at every wait of a call: nothing is half done, or twice, or left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from peermesh import aio
from peermesh.testing.time_limits import limit
from tests.peermesh.aio.conftest import Run, cancelled_at, open_pair, tasks, turn, until

LATE = pytest.mark.parametrize("late", [False, True], ids=["early", "late"])


@LATE
def test_a_publish_that_is_cancelled_has_published_nothing(run: Run, late: bool) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/t", queue_size=1, stall_seconds=None, local=True)
            before = tasks()
            for _ in range(3):
                await endpoint.publish("/t", 0)  # There is no room for another one.

                async def make_room() -> None:
                    await turn()
                    assert (await subscriber.get(limit())).data == 0

                reading = asyncio.create_task(make_room())
                was_cancelled, _ = await cancelled_at(
                    lambda: endpoint.publish("/t", 1), 1, late=late
                )
                await reading
                assert was_cancelled, "it waits for room"
                await until(lambda: tasks() == before)
                assert subscriber.poll() == []
                await asyncio.wait_for(endpoint.publish("/t", 2), limit())
                assert (await subscriber.get(limit())).data == 2

    run(main)


def test_writers_that_are_cancelled_publish_each_message_once_or_not_at_all(run: Run) -> None:
    async def main() -> None:
        async with open_pair() as (left, right):
            subscriber = right.subscribe("/n", queue_size=256)
            assert await left.await_subscribed("/n", timeout=limit())
            said: list[int] = []
            numbers = count()

            async def write() -> None:
                for number in numbers:
                    await left.publish("/n", number)
                    said.append(number)

            got: list[Any] = []

            async def read() -> None:
                async for _, data in subscriber:
                    got.append(data)

            reader = asyncio.create_task(read())
            for _ in range(20):
                writers = [asyncio.create_task(write()) for _ in range(3)]
                goal = len(said) + 700
                await until(lambda goal=goal: len(said) >= goal)
                for writer in writers:
                    writer.cancel()
                await asyncio.wait(writers)
            await until(lambda: len(got) == len(said))
            assert sorted(got) == sorted(said)
            reader.cancel()
            await asyncio.wait((reader,))

    run(main)


def test_a_get_with_a_short_limit_loses_nothing(run: Run) -> None:
    async def main() -> None:
        async with open_pair() as (left, right):
            subscriber = right.subscribe("/n")
            assert await left.await_subscribed("/n", timeout=limit())
            got: list[Any] = []

            async def read() -> None:
                while len(got) < 5_000:
                    with suppress(TimeoutError):
                        got.append((await subscriber.get(0.0005)).data)

            reader = asyncio.create_task(read())
            for number in range(5_000):
                await left.publish("/n", number)
                if number % 50 == 0:
                    await turn()
            await asyncio.wait_for(reader, limit(60))
            assert got == list(range(5_000))

    run(main)


@LATE
def test_a_get_that_is_cancelled_leaves_its_message(run: Run, late: bool) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/n", local=True)
            for expected in range(30):

                async def write_soon(number: int) -> None:
                    await turn()
                    await endpoint.publish("/n", number)

                writing = asyncio.create_task(write_soon(expected))
                was_cancelled, message = await cancelled_at(subscriber.get, 1, late=late)
                await writing
                if was_cancelled:
                    message = await subscriber.get(limit())
                assert message.data == expected

    run(main)


@LATE
def test_a_put_that_is_cancelled_was_not_asked_for(run: Run, late: bool) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
            before = tasks()
            for wait in (1, 2, 3):
                last = await (await store.put("other", wait)).applied()
                # Until it is the turn of others, at which a put waits.
                for number in range(300):
                    was_cancelled, receipt = await cancelled_at(
                        lambda number=number: store.put("k", number), wait, late=late
                    )
                    if was_cancelled:
                        break
                    last = receipt
                assert wait > 1 or was_cancelled
                assert await store.await_idle(limit())
                if number:
                    assert await store.get("k") == number - was_cancelled
                assert last
                await until(lambda: tasks() == before)

    run(main)


ATTACHING: dict[str, Callable[[aio.Endpoint], Any]] = {
    "master": lambda endpoint: endpoint.attach_master("s"),
    "clone": lambda endpoint: endpoint.attach_clone("other"),
    "proxy": lambda endpoint: endpoint.attach_proxy("other"),
    "replica": lambda endpoint: endpoint.attach_replica("r", voters=["a"]),
    "log": lambda endpoint: endpoint.attach_log("l"),
    "log_clone": lambda endpoint: endpoint.attach_log_clone("m"),
    "log_proxy": lambda endpoint: endpoint.attach_log_proxy("m"),
    "log_replica": lambda endpoint: endpoint.attach_log_replica("q", voters=["a"]),
}


@LATE
@pytest.mark.parametrize("what", ATTACHING)
def test_what_is_attached_for_a_task_that_is_cancelled_is_closed(
    run: Run, what: str, late: bool
) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:

            async def attach() -> Any:
                return await ATTACHING[what](endpoint)

            handle = await attach()
            await handle.close()
            before = tasks()
            for wait in count(1):
                was_cancelled, handle = await cancelled_at(attach, wait, late=late)
                if not was_cancelled:
                    break
                await until(lambda: tasks() == before)
            assert wait > 1, "it was cancelled nowhere"
            await handle.close()
            await until(lambda: tasks() == before)

    run(main)


BLOCKS: dict[str, Callable[[Any], Any]] = {
    "session": lambda store: store.session(ttl=30),
    "lock": lambda store: store.lock("l", ttl=30),
    "gateway": aio.serve_webhdfs,
}
"""What is entered and left, and lives in the mesh between the two."""


async def store_of(endpoint: aio.Endpoint) -> Any:
    """Attach a store that all of ``BLOCKS`` can have; one was entered and left."""
    store = await endpoint.attach_replica("s", voters=["a"])
    assert await store.await_leader(limit()) == "a"
    for make in BLOCKS.values():
        async with make(store):
            pass
    return store


@LATE
@pytest.mark.parametrize("what", BLOCKS)
def test_a_block_whose_entering_is_cancelled_leaves_nothing(
    run: Run, what: str, late: bool
) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:
            store = await store_of(endpoint)
            before = tasks(), len(asyncio.all_tasks())
            for wait in count(1):
                block = BLOCKS[what](store)
                was_cancelled, _ = await cancelled_at(block.__aenter__, wait, late=late)
                if not was_cancelled:
                    break
                await until(lambda: (tasks(), len(asyncio.all_tasks())) == before)
            assert wait > 1, "it was cancelled nowhere"
            await block.__aexit__(None, None, None)

    run(main)


@LATE
@pytest.mark.parametrize("what", BLOCKS)
def test_a_block_whose_leaving_is_cancelled_is_over(run: Run, what: str, late: bool) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:
            store = await store_of(endpoint)
            before = tasks(), len(asyncio.all_tasks())
            for wait in count(1):
                block = BLOCKS[what](store)
                await block.__aenter__()
                was_cancelled, _ = await cancelled_at(
                    partial(block.__aexit__, None, None, None), wait, late=late
                )
                await until(lambda: (tasks(), len(asyncio.all_tasks())) == before)
                if not was_cancelled:
                    break
            assert wait > 1, "it was cancelled nowhere"

    run(main)


def test_a_time_limit_around_a_call_ends_it_in_the_mesh_too(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
            events, before = store.events(), tasks()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await events.get()
            assert tasks() == before
            await store.put("k", 1)
            assert (await events.get(limit())).after == 1

    run(main)


def test_a_task_that_is_cancelled_again_and_again_waits_for_its_call(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
            before = tasks()
            waiting = asyncio.create_task(store.events().get())
            await until(lambda: tasks() > before)
            for _ in range(5):
                waiting.cancel()
                await turn()
            await asyncio.wait((waiting,), timeout=limit())
            assert waiting.cancelled()
            assert tasks() == before

    run(main)


def test_a_receipt_is_awaited_and_cancelled(run: Run) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            clone = await endpoint.attach_clone("nowhere")
            receipt = await clone.put("k", 1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await receipt.applied()
            async with aio.Endpoint() as other, other.attach_master("nowhere"):
                assert await endpoint.peer("127.0.0.1", await other.listen(), timeout=limit())
                async with asyncio.timeout(limit()):
                    assert await receipt.applied() == 1

    run(main)
