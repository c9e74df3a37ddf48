"""What was asked, and given up, leaves nothing behind: not even an answer that comes right then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.questions import Questions
from peermesh.testing.time_limits import limit
from stores.effects import ReadAnswered
from stores.log.messages import QueryFailed
from stores.questions import ReadAnswerCommand
from stores.replica.effects import QueryAnswered
from stores.table.rows import Rows
from wire.errors import BackendFailure, ErrorCode, LimitExceeded


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    with trio.fail_after(limit()):
        async with Endpoint() as found:
            yield found


@asynccontextmanager
async def given_up(kit, ask, asked: Questions) -> AsyncIterator[int]:
    """Ask, and give up; within the block the task has not heard of that yet."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await kit.until(lambda: asked)
        (number,) = asked
        nursery.cancel_scope.cancel()
        yield number


async def test_an_answer_to_a_read_of_a_proxy(kit, endpoint) -> None:
    async with endpoint.attach_proxy("s") as proxy:
        part = proxy.part
        async with given_up(kit, lambda: proxy.get("k"), part._questions) as number:
            answer = ReadAnswerCommand(number, Rows(), None)
            part.carry_out(ReadAnswered(number, answer, 1))
        assert not part._questions


async def test_an_answer_of_a_keeper(kit, endpoint) -> None:
    async with Endpoint() as other, other.attach_log("log"):
        assert await endpoint.peer("127.0.0.1", await other.listen(), timeout=limit())
        async with endpoint.attach_log_proxy("log") as log:
            await log.partition_count()
            part = log.part
            read = partial(log.read, 0, 0, timeout=limit())
            async with given_up(kit, read, part._questions) as number:
                part.carry_out(QueryAnswered(QueryFailed(number, ErrorCode.INVALID_DATA, "no")))
            assert not part._questions


async def test_a_put_that_waits_for_room(endpoint, monkeypatch) -> None:
    """The next one waits, too, although one before it was cancelled."""
    monkeypatch.setattr("stores.replica.asked.outbox.UNRESOLVED_COUNT_MAX", 4)
    monkeypatch.setattr("endpoint.replicas.handle.YIELD_COUNT", 1)
    monkeypatch.setattr("endpoint.replicas.stores.store_handle.YIELD_COUNT", 1)
    async with Endpoint() as other, endpoint.attach_clone("s") as clone:
        taken: list[object] = []

        async def put(number: int) -> None:
            await clone.put(number, 0)
            taken.append(number)

        for number in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(put, number)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        assert 0 < len(taken) < 10
        async with other.attach_master("s") as master:
            assert await endpoint.peer("127.0.0.1", await other.listen(), timeout=limit())
            with trio.fail_after(limit()):
                await (await clone.put("last", 0)).applied()
            assert await master.keys() == [*taken, "last"]


async def test_a_comparison_of_replicas(kit, endpoint) -> None:
    async with endpoint.attach_clone("s") as clone:
        part = clone.part
        async with given_up(kit, lambda: part.verify(limit()), part._verifying):
            pass
        assert not part._verifying


@pytest.mark.parametrize("kind", ["master", "keeper", "follower"])
async def test_the_file_of_what_found_no_room(kind, endpoint, tmp_path, monkeypatch) -> None:
    options = {"backend": Backend.SQLite, "path": tmp_path / "file.db"}
    attach = {
        "master": lambda: endpoint.attach_master("s", **options),
        "keeper": lambda: endpoint.attach_log("s", **options),
        "follower": lambda: endpoint.attach_log_clone("s", **options),
    }[kind]
    for count in (0, 1):
        monkeypatch.setattr("endpoint.mesh.wishes.STORES_MAX", count)
        if count == 0 or kind == "follower":  # which hears on two topics
            with pytest.raises(LimitExceeded):
                await attach()
            assert not endpoint.loop.stores
    monkeypatch.setattr("endpoint.mesh.wishes.STORES_MAX", 10)
    try:
        await (await attach()).close()
    except BackendFailure as error:
        pytest.fail(f"the file is still open: {error}")
