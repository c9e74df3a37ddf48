"""Sessions, locks and elections of a store that one master keeps."""

from __future__ import annotations

import pytest
import trio

from endpoint.replicas.stores.locks import Lock
from endpoint.replicas.stores.store import ReplicaStore
from peermesh import blocking
from peermesh.testing.time_limits import limit
from stores.batch import Batch
from tests.endpoint.replicas.stores.test_promotion import two_endpoints
from tests.waiting import a_moment
from wire.errors import GuardFailed


async def test_a_clones_session_ends_with_its_block_at_the_master() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        async with clone.session(ttl=60) as session:
            await (await session.put("host", "b")).applied()
            entry = await master.entry("host")
            assert entry is not None
            assert entry.session == session.number
            assert await master.put_unique("host", "taken") is False
        assert await master.keys() == []


async def test_a_master_and_its_clone_hold_a_lock_in_turn() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        order: list[str] = []
        tokens = []

        async def wait() -> None:
            async with clone.lock("report", ttl=60) as lock:
                order.append("clone")
                tokens.append(lock.token)

        async with trio.open_nursery() as nursery:
            async with master.lock("report", ttl=60) as lock:
                nursery.start_soon(wait)
                while len(await master.keys()) < 2:
                    await a_moment()
                order.append("master")
                tokens.append(lock.token)
        assert order == ["master", "clone"]
        assert tokens[0] < tokens[1]


async def test_a_clones_election_outlives_its_master() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        await pair.left.attach_master("s")
        clone = await pair.right.attach_clone("s")
        async with clone.elect("job", value="clone", ttl=60) as lead:
            await pair.part()
            await clone.promote(force=True)
            assert lead.is_alive
            found = await clone.elected("job")
            assert found is not None
            assert found.value == "clone"
        assert await clone.elected("job") is None


async def hold_in_vain(lost: Lock, kept: Lock, store: ReplicaStore) -> None:
    """Make sure that nothing of the one holder works, and that it takes nothing from the other."""
    assert lost.number != kept.number
    late = await store.batch(lost.guard(Batch().put("state", "lost")))
    with pytest.raises(GuardFailed):
        await late.applied()
    await lost.wait_lost()
    await lost.close()
    await (await store.batch(kept.guard(Batch().put("state", "kept")))).applied()
    kept.check()
    assert await store.get("state") == "kept"


async def test_a_holder_of_a_lost_history_is_lost_and_takes_nothing_from_another_one() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        await (await master.put("x", 1)).applied()
        assert await clone.await_idle(timeout=limit())
        await pair.part()
        await clone.promote(force=True)
        for _ in range(2):  # So both sessions are of the same entry.
            await (await master.put("x", 2)).applied()
        lost, kept = master.lock("it", ttl=3), clone.lock("it", ttl=60)
        await lost.open()
        await kept.open()
        await pair.join()
        await hold_in_vain(lost, kept, clone)


async def test_a_store_that_begins_anew_knows_no_session_of_before() -> None:
    async with two_endpoints() as pair:
        await pair.join()
        master, clone = await pair.left.attach_master("s"), await pair.right.attach_clone("s")
        assert await clone.await_idle(timeout=limit())
        lost = clone.lock("it", ttl=3)
        await lost.open()
        await master.close()
        master = await pair.left.attach_master("s", fresh=True)
        kept = master.lock("it", ttl=60)
        await kept.open()
        await hold_in_vain(lost, kept, master)


def test_threads_hold_locks_of_a_master() -> None:
    with blocking.Endpoint() as endpoint:
        store = endpoint.attach_master("s")
        with store.lock("report", ttl=60) as lock:
            lock.check()
            assert len(store.keys()) == 1
        with store.session(ttl=60) as session:
            assert session.put_unique("host", "a")
            assert store.keys() == ["host"]
        assert store.keys() == []
