"""Sessions: what is put in one is there while it is renewed, and gone everywhere soon after."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
import trio

from endpoint.replicas.part import GroupPart
from endpoint.replicas.stores.locks import Elected
from endpoint.replicas.stores.part import ASKED_MAX
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from stores.table import sessions
from stores.table.bodies import EndSession
from tests.turns import Turns
from tests.waiting import a_moment, until
from wire.errors import (
    GuardFailed,
    InvalidData,
    QuotaExceeded,
    RequestTimeout,
    SessionExpired,
    StoreClosed,
)


async def test_keys_are_there_until_their_session_ends(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        async with group["b"].session(ttl=60) as session:
            assert session.is_alive
            await (await session.put("host", "b")).applied()
            assert not await session.put_unique("host", "again")
            assert await session.put_unique("port", 9)
            await (await group["a"].put("kept", 1)).applied()
            for name in "abc":
                entry = await group[name].read("linear").entry("host")
                assert entry.value == "b"
                assert entry.session == session.number
                assert entry.expires_at is None
        assert not session.is_alive
        for name in "abc":
            assert await group[name].read("linear").keys() == ["kept"]
        with pytest.raises(SessionExpired, match="it was closed"):
            await session.put("late", 1)


async def test_a_key_belongs_to_the_session_of_its_last_put(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        store = group["a"]
        async with store.session(ttl=60) as other:
            async with store.session(ttl=60) as session:
                for key in ("freed", "taken", "kept"):
                    await session.put(key, 1)
                await group["b"].put("freed", 2)
                await (await other.put("taken", 2)).applied()
                await group["b"].await_idle(timeout=limit())
            assert sorted(await store.read("linear").keys()) == ["freed", "taken"]
        assert await store.read("linear").keys() == ["freed"]


@pytest.mark.parametrize("ttl", [1.9, 3601, float("nan"), "x", None, timedelta(seconds=1)])
async def test_a_time_to_live_that_makes_no_sense_is_refused(groups, ttl) -> None:
    async with groups.open(("a",), voters=("a",)) as group:
        with pytest.raises(InvalidData, match="2 to 3600 seconds"):
            group["a"].session(ttl=ttl)
        assert group["a"].session(ttl=timedelta(minutes=1)).ttl == 60


async def test_locks_are_held_one_after_the_other_in_order(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        held = []

        async def hold(name: str, task_status=trio.TASK_STATUS_IGNORED) -> None:
            async with group[name].lock("it", ttl=60) as lock:
                held.append((name, lock.token))
                task_status.started()
                await trio.testing.wait_all_tasks_blocked()
                assert held[-1] == (name, lock.token)

        async with trio.open_nursery() as nursery:
            for name in "abcabc":
                nursery.start_soon(hold, name)
        tokens = [token for _, token in held]
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 6


async def test_a_lock_that_does_not_come_in_time_leaves_the_queue(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        async with group["a"].lock("it", ttl=60):
            with pytest.raises(RequestTimeout, match="lock it of store s: not within 0"):
                async with group["b"].lock("it", ttl=60, timeout=0):
                    raise AssertionError
            async with group["b"].lock("another", ttl=60):
                pass
            await until_queue(group, 1)


async def test_a_free_lock_is_taken_by_a_try(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        for name in "abc":
            async with group[name].lock("it", ttl=60, timeout=0) as lock:
                assert lock.is_alive


def sessions_at(store) -> sessions.Sessions:
    return store.part.table._lifetimes.sessions


async def test_a_session_whose_opening_is_cancelled_does_not_stay(groups) -> None:
    """What has come to the leader is not heard of by the one that asked for it."""
    async with groups.open() as group:
        leader = await group.await_leader()
        other = next(name for name in "abc" if name != leader)
        at_leader = sessions_at(group[leader])
        for make in (group[other].session, partial(group[other].lock, "it")):
            async with trio.open_nursery() as nursery:
                before = group[leader].part.core.machine.position.index
                nursery.start_soon(make(ttl=60).open)
                while not group[other].part._asks:
                    await trio.lowlevel.checkpoint()
                # It has asked just now, and no answer can be there.
                nursery.cancel_scope.cancel()
            # An entry has opened it, and another one has ended it.
            machine = group[leader].part.core.machine
            await until(lambda m=machine, end=before + 2: m.position.index >= end)
            await until(lambda: not list(at_leader.rows()))
        assert await group[other].keys() == []


async def until_queue(group, count: int) -> None:
    reader = group["c"].read("linear")
    while len(await reader.scan(prefix=("peermesh/lock", "it"))) != count:
        await a_moment()


async def test_a_waiter_that_is_cancelled_leaves_the_queue(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()

        async def wait() -> None:
            async with group["b"].lock("it", ttl=60):
                raise AssertionError

        async with group["a"].lock("it", ttl=60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await until_queue(group, 2)
                nursery.cancel_scope.cancel()
            await until_queue(group, 1)
        await until_queue(group, 0)


async def test_a_waiter_that_is_closed_by_another_task_is_told_so(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        lock = group["b"].lock("it", ttl=60)

        async def wait() -> None:
            with pytest.raises(SessionExpired, match="lock it of store s is over: it was closed"):
                await lock.open()

        async with group["a"].lock("it", ttl=60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await until_queue(group, 2)
                await lock.close()
            await until_queue(group, 1)


async def test_a_block_that_closes_its_session_has_lost_nothing(groups) -> None:
    async with groups.open(("a",), voters=("a",)) as group:
        async with group["a"].lock("it", ttl=60) as lock:
            await lock.close()
            async with group["a"].lock("it", ttl=60, timeout=0):
                pass
        with pytest.raises(SessionExpired, match="it was closed"):
            lock.check()


async def test_an_error_in_the_block_is_the_callers_own(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        with pytest.raises(ZeroDivisionError):
            async with group["a"].lock("it", ttl=60):
                raise ZeroDivisionError
        await until_queue(group, 0)
        with trio.move_on_after(60) as scope:
            async with group["a"].lock("it", ttl=60):
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        await until_queue(group, 0)


async def test_a_batch_under_guard_is_done_while_the_lock_is_held(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        store = group["b"]
        async with store.lock("it", ttl=60) as lock:
            await (await store.batch(lock.guard(Batch().put("x", 1)))).applied()
        with pytest.raises(TypeError, match="give a Batch"):
            lock.guard(None)
        receipt = await store.batch(lock.guard(Batch().put("x", 2)))
        with pytest.raises(GuardFailed):
            await receipt.applied()
        assert await store.read("linear").get("x") == 1


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_a_lock_whose_key_is_erased_is_lost(groups, is_cleared) -> None:
    async with groups.open() as group:
        await group.await_leader()
        lock = group["b"].lock("it", ttl=2)

        async def hold() -> None:
            async with lock:
                if is_cleared:
                    await group["a"].clear()
                else:
                    await group["a"].erase(("peermesh/lock", "it", lock.number))
                await trio.sleep_forever()

        with pytest.raises(SessionExpired, match="was erased or put by others"):
            await hold()
        assert not lock.is_alive


async def test_a_session_that_hears_no_majority_is_lost(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        session = group["a"].session(ttl=2)

        async def hold() -> None:
            async with session:
                await group.stop("b")
                await group.stop("c")
                await trio.sleep_forever()

        with pytest.raises(SessionExpired, match="within 2 s"):
            await hold()
        assert not session.is_alive
        await session.wait_lost()
        with pytest.raises(SessionExpired):
            await session.put("late", 1)


async def test_a_session_that_ended_unseen_is_told_at_the_end_of_its_block(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()

        async def hold() -> None:
            async with group["a"].session(ttl=2) as session:
                await group["b"].part.ask(EndSession(session.number), limit())
                receipt = await session.put("late", 1)
                with pytest.raises(SessionExpired):
                    await receipt.applied()
                await session.wait_lost()

        with pytest.raises(SessionExpired, match="the group has ended it"):
            await hold()


async def test_a_session_is_lost_as_soon_as_its_store_is_closed_here(groups) -> None:
    """Its keeper would see so with the next renewal, in twenty minutes."""
    async with groups.open() as group:
        await group.await_leader()
        session = group["a"].session(ttl=3_600)

        async def hold() -> None:
            async with session:
                await group["a"].close()
                await trio.sleep_forever()

        with trio.fail_after(limit()):
            with pytest.raises(SessionExpired, match="store s is closed: attach it again"):
                await hold()
            await session.wait_lost()
        assert not session.is_alive
        with pytest.raises(SessionExpired, match="store s is closed"):
            session.check()


async def test_one_that_waits_for_a_lock_is_told_that_its_store_was_closed(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        async with group["b"].lock("it"), trio.open_nursery() as nursery:
            waiting = group["a"].lock("it", ttl=3_600)

            async def wait() -> None:
                with pytest.raises(StoreClosed, match="store s is closed: attach it again"):
                    await waiting.open()

            nursery.start_soon(wait)
            await until(lambda: waiting._token is not None)
            await group["a"].close()


async def test_a_session_lives_on_under_another_leader(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        others = [name for name in "abc" if name != leader]
        async with group[others[0]].session(ttl=10) as session:
            await (await session.put("key", 1)).applied()
            await group.stop(leader)
            assert await group[others[1]].read("linear").get("key") == 1
            assert await session.put_unique("other", 1)
            assert session.is_alive
        assert await group[others[1]].read("linear").keys() == []


async def test_a_session_is_opened_once(groups) -> None:
    async with groups.open(("a",), voters=("a",)) as group:
        session = group["a"].session()
        with pytest.raises(SessionExpired, match="not open"):
            await session.put("early", 1)
        async with session:
            pass
        with pytest.raises(InvalidData, match="opened once"):
            await session.open()
        other, refused = group["a"].session(), []

        async def begin() -> None:
            try:
                await other.open()
            except InvalidData as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin)
            nursery.start_soon(begin)
        assert len(refused) == 1
        await other.close()


async def test_elections_are_followed_and_looked_up(groups) -> None:
    async with groups.open() as group:
        await group.await_leader()
        store = group["c"]
        with store.elections("job") as elections:
            assert await elections.get(timeout=limit()) is None
            async with group["a"].elect("job", "me", ttl=60) as lead:
                found = await elections.get(timeout=limit())
                assert found == Elected("me", lead.token.revision)
                assert await store.elected("job") == found
                assert await group["a"].elected("another") is None
                with pytest.raises(TimeoutError):
                    await elections.get(timeout=0)
            assert await elections.get(timeout=limit()) is None
        with pytest.raises(StoreClosed):
            await elections.get()
        assert [each async for each in elections] == []


async def test_a_lost_session_is_left_with_what_the_block_raises(groups) -> None:
    """The block's own errors come beside its cancellation: no renewal goes on all the same."""
    async with groups.open(("a",), voters=("a",)) as group:
        lock = group["a"].lock("it", ttl=2)

        async def fail_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ZeroDivisionError

        async def hold() -> None:
            async with lock, trio.open_nursery() as nursery:
                nursery.start_soon(fail_when_cancelled)
                nursery.start_soon(trio.sleep_forever)
                await group["a"].erase(("peermesh/lock", "it", lock.number))

        with pytest.raises(ExceptionGroup) as found:
            await hold()
        assert found.group_contains(ZeroDivisionError)
        assert not found.group_contains(trio.Cancelled)
        await until(lambda: not list(group["a"].part.table._lifetimes.sessions.rows()))


@pytest.mark.parametrize("name", ["", "x" * 1025])
async def test_a_name_that_makes_no_sense_is_refused(groups, name) -> None:
    async with groups.open(("a",), voters=("a",)) as group:
        with pytest.raises(InvalidData, match="1 to 1024 characters"):
            group["a"].lock(name)


async def test_names_of_which_one_begins_the_other_are_two(groups) -> None:
    async with groups.open(("a",), voters=("a",)) as group:
        async with group["a"].lock("it"), group["a"].lock("it/too"), group["a"].lock("i"):
            pass


async def test_a_group_that_has_too_many_sessions_says_so(groups, monkeypatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    async with groups.open(("a",), voters=("a",)) as group:
        async with group["a"].session():
            with pytest.raises(QuotaExceeded, match="no room for more"):
                await group["a"].session().open()


async def test_sessions_that_open_and_end_at_once_take_turns(groups, monkeypatch) -> None:
    turns, asked = Turns(), Counter()
    ask = GroupPart.ask

    async def counted(part, request, seconds):
        asked[type(request).__name__, turns.count] += 1
        return await ask(part, request, seconds)

    monkeypatch.setattr(GroupPart, "ask", counted)
    async with groups.open(("a",), voters=("a",)) as group:
        await group.await_leader()
        count = 3 * ASKED_MAX
        sessions = [group["a"].session(ttl=60) for _ in range(count)]
        trio.lowlevel.add_instrument(turns)
        for step in ("open", "_renew", "close"):
            async with trio.open_nursery() as nursery:
                for session in sessions:
                    nursery.start_soon(getattr(session, step))
        trio.lowlevel.remove_instrument(turns)
    kinds = Counter()
    for (kind, _), number in asked.items():
        kinds[kind] += number
    assert kinds == dict.fromkeys(("OpenSession", "RenewSession", "EndSession"), count)
    assert max(asked.values()) <= ASKED_MAX
