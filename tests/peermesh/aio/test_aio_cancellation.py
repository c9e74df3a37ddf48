"""Cancellation in asyncio, at every wait of a call: nothing is half done, or twice, or left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from peermesh import aio
from peermesh.aio import hot
from peermesh.errors import BackendFailure
from peermesh.testing.time_limits import limit
from tests.endpoint.flow.flows import is_held
from tests.peermesh.aio.conftest import (
    Run,
    cancelled_after,
    cancelled_at,
    open_pair,
    tasks,
    turn,
    until,
)

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


@LATE
def test_a_publish_that_is_cancelled_at_the_turn_of_others_has_published_nothing(
    run: Run, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endpoint.pubsub.publishing.YIELD_COUNT", 0)  # Each one that is alone.

    async def main() -> None:
        async with open_pair() as (left, right):
            subscriber = right.subscribe("/n")
            assert await left.await_subscribed("/n", timeout=limit())
            before = tasks()
            for _ in range(10):
                was_cancelled, _ = await cancelled_at(
                    lambda: left.publish("/n", "no"), 1, late=late
                )
                assert was_cancelled, "it is the turn of others"
                assert tasks() == before
            await left.publish("/n", "last")
            assert (await subscriber.get(limit())).data == "last"

    run(main)


@LATE
def test_a_publish_that_is_cancelled_at_a_full_link_has_published_nothing(
    run: Run, late: bool
) -> None:
    async def main() -> None:
        async with open_pair() as (left, right):
            subscriber = right.subscribe("/n")
            assert await left.await_subscribed("/n", timeout=limit())
            loop = left._endpoint.loop
            connection = loop.peerings[right.node_id()].connection
            link = connection.link
            granted, link.credit = link.credit, link.sent
            sent = 0
            while not link.is_full:
                await left.publish("/n", b"." * 16_384)
                loop.publication.cut()
                sent += 1
            before = tasks()
            waiting = [
                asyncio.create_task(cancelled_at(lambda: left.publish("/n", b"no"), 1, late=late))
                for _ in range(3)
            ]
            if late:
                await until(lambda: tasks() == before + len(waiting))
                link.grant(granted)
                connection.wake()
            assert [await each for each in waiting] == [(True, None)] * len(waiting)
            if not late:
                assert tasks() == before
                link.grant(granted)
                connection.wake()
            await asyncio.wait_for(left.publish("/n", b"last"), limit())
            assert [(await subscriber.get(limit())).data[:4] for _ in range(sent + 1)] == [
                *[b"...."] * sent,
                b"last",
            ]
            await until(lambda: tasks() == before)

    run(main)


@LATE
def test_a_publish_that_is_cancelled_while_a_reader_elsewhere_is_full_has_published_nothing(
    run: Run, late: bool
) -> None:
    async def main() -> None:
        async with open_pair() as (left, right):
            subscriber = right.subscribe("/n", queue_size=16, stall_seconds=None)
            assert await left.await_subscribed("/n", timeout=limit())
            before, sent = tasks(), 0
            while not is_held(left._endpoint, "/n"):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await left.publish("/n", b"yes")
                        sent += 1
                await turn()
            waiting = [
                asyncio.create_task(cancelled_at(lambda: left.publish("/n", b"no"), 1, late=late))
                for _ in range(3)
            ]
            if late:
                await until(lambda: tasks() == before + len(waiting))
            else:
                assert [await each for each in waiting] == [(True, None)] * len(waiting)
                assert tasks() == before
            last = asyncio.create_task(left.publish("/n", b"last"))
            got = [(await subscriber.get(limit())).data for _ in range(sent + 1)]
            assert got == [*[b"yes"] * sent, b"last"]
            assert [await each for each in waiting] == [(True, None)] * len(waiting)
            await last
            await until(lambda: tasks() == before)

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
def test_a_get_that_is_cancelled_leaves_no_task(run: Run, late: bool) -> None:
    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/n", local=True)
            bell: Any = subscriber._wakeup
            before = tasks(), len(asyncio.all_tasks())
            for number in range(10):
                waiting = asyncio.create_task(cancelled_at(subscriber.get, 1, late=late))
                await until(lambda: bell._waiters)
                if late:
                    await endpoint.publish("/n", number)
                was_cancelled, _ = await waiting
                assert was_cancelled, "it waits for a message"
                assert bell._waiters == []
                assert [data for _, data in subscriber.poll()] == [number] * late
                await until(lambda: (tasks(), len(asyncio.all_tasks())) == before)

    run(main)


@LATE
def test_a_get_that_is_cancelled_while_others_run_leaves_its_message(
    run: Run, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot, "REFILLS", 1)

    async def main() -> None:
        async with aio.Endpoint() as endpoint:
            subscriber = endpoint.subscribe("/n", local=True)
            before = tasks()
            for number in range(10):
                await endpoint.publish("/n", number)
                was_cancelled, _ = await cancelled_at(subscriber.get, 1, late=late)
                assert was_cancelled, "it lets others run"
                assert tasks() == before
                assert (await subscriber.get(limit())).data == number

    run(main)


@LATE
def test_a_put_that_is_cancelled_was_not_asked_for(
    run: Run, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endpoint.replicas.handle.YIELD_COUNT", 1)

    async def main() -> None:
        async with aio.Endpoint() as endpoint, endpoint.attach_master("s") as store:
            before = tasks()
            await (await store.put("k", 0)).applied()
            for number in range(1, 10):
                was_cancelled, _ = await cancelled_at(
                    lambda number=number: store.put("k", -number), 1, late=late
                )
                assert was_cancelled, "it is the turn of others"
                assert tasks() == before
                assert await store.await_idle(limit())
                assert await store.get("k") == number - 1
                await (await store.put("k", number)).applied()

    run(main)


async def fill(store: aio.Clone) -> int:
    """Put one number after the other until a store has no room; give that which was not put.

    What is put before the mesh has its turn is asked for together, and counts once it has.
    """
    async with asyncio.timeout(limit()):
        for number in count():
            was_cancelled, _ = await cancelled_at(partial(store.put, number, 0), 2, late=False)
            if was_cancelled:
                return number
    raise AssertionError("there is always room")


@LATE
def test_a_put_that_is_cancelled_while_there_is_no_room_was_not_asked_for(
    run: Run, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endpoint.replicas.handle.YIELD_COUNT", 1)
    monkeypatch.setattr("stores.replica.asked.outbox.UNRESOLVED_COUNT_MAX", 4)

    async def main() -> None:
        async with aio.Endpoint() as endpoint, aio.Endpoint() as other:
            store = await endpoint.attach_clone("s")
            before = tasks()
            count = await fill(store)
            assert count
            assert tasks() == before
            waiting = [
                asyncio.create_task(cancelled_at(partial(store.put, "no", 0), 2, late=late))
                for _ in range(3)
            ]
            if late:
                await until(lambda: tasks() == before + len(waiting))
            else:
                await asyncio.wait(waiting)
                assert tasks() == before
            async with other.attach_master("s") as master:
                assert await other.peer("127.0.0.1", await endpoint.listen(), timeout=limit())
                assert [await each for each in waiting] == [(True, None)] * len(waiting)
                await (await asyncio.wait_for(store.put("last", 0), limit())).applied()
                assert await master.keys() == [*range(count), "last"]

    run(main)


@LATE
def test_a_lock_whose_opening_is_cancelled_is_free(run: Run, late: bool) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:
            store = await endpoint.attach_replica("s", voters=["a"])
            await store.await_leader(limit())
            for wait in count(1):
                lock = store.lock("it", ttl=60)
                was_cancelled, _ = await cancelled_at(lock.open, wait, late=late)
                if not was_cancelled:
                    break
                async with store.lock("it", timeout=limit()):
                    pass
            assert wait > 1, "it was cancelled nowhere"
            await lock.close()

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


ON_DISK: dict[str, Callable[[aio.Endpoint, Path], Any]] = {
    "master on disk": lambda endpoint, path: endpoint.attach_master("s", "sqlite", path=path),
    "replica on disk": lambda endpoint, path: endpoint.attach_replica(
        "r", voters=["a"], backend="sqlite", path=path
    ),
    "log on disk": lambda endpoint, path: endpoint.attach_log("l", backend="sqlite", path=path),
    "log_replica on disk": lambda endpoint, path: endpoint.attach_log_replica(
        "q", voters=["a"], backend="sqlite", path=path
    ),
}


@pytest.mark.parametrize("what", [*ATTACHING, *ON_DISK])
def test_what_is_attached_may_be_cancelled_after_each_step(
    run: Run, what: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with aio.Endpoint(name="a") as endpoint:

            async def attach() -> Any:
                if what in ATTACHING:
                    return await ATTACHING[what](endpoint)
                return await ON_DISK[what](endpoint, tmp_path / "file")

            async def attach_and_close() -> None:
                """Wait, too, for the thread of one that was cancelled: it closes the file."""
                async with asyncio.timeout(limit()):
                    while True:
                        with suppress(BackendFailure):
                            await (await attach()).close()
                            return
                        await turn()

            await attach_and_close()
            before = tasks(), len(asyncio.all_tasks())
            for steps in count(1):
                was_cancelled, handle = await cancelled_after(attach, steps)
                if not was_cancelled:
                    break
                await attach_and_close()
                await until(lambda: (tasks(), len(asyncio.all_tasks())) == before)
            assert steps > 1, "it was cancelled nowhere"
            await handle.close()
            await until(lambda: (tasks(), len(asyncio.all_tasks())) == before)

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


def sessions_of(store: Any) -> list[Any]:
    """Give the sessions that the store's leader has."""
    return list(store._coordinating._session_part.table._lifetimes.sessions.rows())


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
                await until(lambda: not sessions_of(store))
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
