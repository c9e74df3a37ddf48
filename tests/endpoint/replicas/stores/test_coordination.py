"""Sessions, locks and elections of a store that one master keeps."""

from __future__ import annotations

import trio

from peermesh import blocking
from tests.endpoint.replicas.stores.test_promotion import two_endpoints
from tests.waiting import a_moment


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
