"""Sessions: what is put in one is there while it is renewed, and gone everywhere soon after."""

from __future__ import annotations

import pytest
import trio

from peermesh.testing.time_limits import limit
from wire.errors import InvalidData, SessionExpired


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


@pytest.mark.parametrize("ttl", [1.9, 3601, float("nan")])
async def test_a_time_to_live_that_makes_no_sense_is_refused(groups, ttl) -> None:
    async with groups.open(("a",), voters=("a",)) as group:
        with pytest.raises(InvalidData, match="2 to 3600 seconds"):
            group["a"].session(ttl=ttl)


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
