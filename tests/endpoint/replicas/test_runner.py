"""One runner drives all kinds of cores, and offers what all of them have."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.parts import Core
from endpoint.replicas.runner import JOINED_TURNS, YIELD_COUNT, Runner
from handshake.roles import ALL_RIGHTS
from peermesh.testing.time_limits import limit

KINDS: dict[str, Callable[[Endpoint], Any]] = {
    "master": lambda endpoint: endpoint.attach_master("s"),
    "clone": lambda endpoint: endpoint.attach_clone("s"),
    "proxy": lambda endpoint: endpoint.attach_proxy("s"),
    "keeper": lambda endpoint: endpoint.attach_log("s"),
    "follower": lambda endpoint: endpoint.attach_log_clone("s"),
    "reader of a log": lambda endpoint: endpoint.attach_log_proxy("s"),
    "replica": lambda endpoint: endpoint.attach_replica("s", voters=VOTERS),
    "replica of a log": lambda endpoint: endpoint.attach_log_replica("s", voters=VOTERS),
}
VOTERS = ("a", "b")
LEADERS = {
    "clone": "master",
    "proxy": "master",
    "follower": "keeper",
    "reader of a log": "keeper",
    "replica": "replica",
    "replica of a log": "replica of a log",
}
"""What is at the other endpoint."""


@asynccontextmanager
async def attached(kind: str) -> AsyncIterator[Any]:
    """Attach one of that kind, in touch with its leader elsewhere if it needs one."""
    with trio.fail_after(limit()):
        async with Endpoint(name="a") as other, Endpoint(name="b") as endpoint:
            if (leader := LEADERS.get(kind)) is not None:
                await KINDS[leader](other)
            assert await endpoint.peer("127.0.0.1", await other.listen(), timeout=limit())
            async with KINDS[kind](endpoint) as handle:
                assert await handle.await_idle(timeout=limit())
                yield handle


OFFERS: dict[str, Callable[[Runner], object]] = {
    "carry_out": lambda runner: runner.carry_out([]),
    "note": lambda runner: runner.note("test", "nothing"),
    "tell_exposed": lambda runner: runner.tell_exposed([]),
    "tell_damaged": lambda runner: runner.tell_damaged([]),
    "rights_changed": lambda runner: runner.rights_changed(
        runner.core.entity.endpoint, ALL_RIGHTS, ALL_RIGHTS
    ),
    "await_synced": lambda runner: runner.await_synced(0),
    "reach": lambda runner: runner.reach(runner.core.begin_idle),
    "receive": lambda runner: runner.receive(runner.core.entity.endpoint, [b"no command"]),
    "settle": lambda runner: runner.settle(),
    "tick": lambda runner: runner.tick(),
    "unreachable": lambda runner: runner.unreachable(runner.core.entity.endpoint),
    "discovered": lambda runner: runner.discovered(runner.core.entity.endpoint),
    "urge": lambda runner: runner.urge(),
    "check": lambda runner: runner.check(),
    "closed": lambda runner: runner.closed("reader"),
    "hears_all": lambda runner: runner.hears_all(),
    "statistics": lambda runner: runner.statistics(),
    "await_idle": lambda runner: runner.await_idle(),
    "check_process": lambda runner: runner.check_process(),
    "finish": lambda runner: runner.finish(),
}
PARTS_OF_OTHERS = {
    *("start", "ask", "adopt", "flush_forever", "start_task", "finish_task", "wait"),
    *("tell_status", "commit", "close", "leave"),
}
"""Methods that every handle uses from its first mutation to its end."""
CHANGES = {
    "fail",
    "forked",
    "set_quota",
    "swapped",
    "unsynced",
    "rename",
    "use_backend",
    "end_change",
}
"""Methods after which it is not what it was: tests of their own have them."""


def test_every_method_of_runners_is_looked_at() -> None:
    methods = {name for name, _ in inspect.getmembers(Runner, inspect.isfunction)}
    public = {name for name in methods if not name.startswith("_")}
    assert public == {*OFFERS, *PARTS_OF_OTHERS, *CHANGES}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_runner_can_do_what_runners_offer(kind: str) -> None:
    async with attached(kind) as handle:
        assert type(handle.runner) is Runner
        for offer in OFFERS.values():
            given = offer(handle.runner)
            if inspect.isawaitable(given):
                await given
        assert handle.runner.error is None


@pytest.mark.parametrize("kind", KINDS)
async def test_every_core_has_what_runners_ask(kind: str) -> None:
    asked = [name for name in vars(Core) if not name.startswith("_")]
    asked += Core.__annotations__
    async with attached(kind) as handle:
        missing = [name for name in asked if not hasattr(handle.runner.core, name)]
        assert not missing


@pytest.mark.parametrize(
    "kind", ["keeper", "follower", "reader of a log", "replica of a log", "proxy"]
)
@pytest.mark.parametrize("method", ["verify", "observe", "await_revision", "prepare_scan"])
async def test_no_runner_offers_what_only_copies_of_stores_have(kind: str, method: str) -> None:
    async with attached(kind) as handle:
        assert not hasattr(handle.runner, method)
        assert not hasattr(handle.part, method)


async def test_a_store_compares_and_observes_by_its_part() -> None:
    async with attached("master") as master:
        await (await master.put("k", 1)).applied()
        await master.part.await_revision(1)
        assert await master.verify()


async def _entries_of(endpoint: Endpoint, store: Any, count: int) -> int:
    """Put so many at once, after something came, and give how many entries they became."""
    endpoint.loop.turn += 1
    before = store.statistics().sequence
    receipts = [await store.put(number, before) for number in range(count)]
    for receipt in receipts:
        await receipt.applied()
    return int(store.statistics().sequence) - before


async def test_a_lone_request_leaves_at_once() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        await (await store.put("k", 0)).applied()
        endpoint.loop.turn += 1
        assert (await store.put("k", 1)).is_resolved
        assert await _entries_of(endpoint, store, 1) == 1


async def test_requests_after_several_answers_become_one_entry() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        await (await store.put("k", 0)).applied()  # The writer's registration is an entry, too.
        assert await _entries_of(endpoint, store, 3) == 2  # The first one was alone when it left.
        assert await _entries_of(endpoint, store, 3) == 1
        assert await _entries_of(endpoint, store, 3) == 1


async def test_a_lone_request_leaves_at_once_again_after_a_turn_of_several() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        await _entries_of(endpoint, store, 3)
        await _entries_of(endpoint, store, 1)  # It ends the turn of those that were answered.
        endpoint.loop.turn += 1
        assert (await store.put("k", 1)).is_resolved


async def test_a_request_beside_others_that_wait_for_a_leader_is_joined() -> None:
    with trio.fail_after(limit()):
        async with Endpoint(name="a") as endpoint:
            async with endpoint.attach_replica("s", voters=VOTERS) as store:
                await store.put("k", 0)
                endpoint.loop.turn += 1
                await store.put("k", 1)
                assert not store.runner.core.requests.is_sealed


async def test_turns_of_an_author_who_waits_for_nothing_leave_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("endpoint.loop.TICK_SECONDS", 3_600.0)  # A tick sends what waits, too.
    async with Endpoint(name="a") as endpoint:
        async with endpoint.attach_replica("s", voters=VOTERS) as store:
            runner, sent = store.runner, list[int]()

            def settle() -> None:
                sent.append(runner.core.requests.last_request)

            monkeypatch.setattr(runner, "settle", settle)
            for number in range(3 * JOINED_TURNS * YIELD_COUNT):
                await store.put(number, 0)
            early = [last for last in sent if last <= JOINED_TURNS * YIELD_COUNT]
            late = [last for last in sent if last > JOINED_TURNS * YIELD_COUNT]
            assert len(early) > 1, "while little is under way, all of it leaves soon"
            assert all(
                later - earlier >= JOINED_TURNS * YIELD_COUNT for earlier, later in pairwise(late)
            )
            monkeypatch.undo()
