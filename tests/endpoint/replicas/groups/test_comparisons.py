"""Whether all members hold the same: asked anywhere, answered by the leader."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from endpoint.mesh.status import StatusCode
from peermesh.testing.time_limits import limit
from wire.encoding import encode
from wire.errors import NoQuorum, RequestTimeout


def damage(store) -> None:
    """Change an entry in the memory of a replica, as no entry of the journal did."""
    store.part.core.machine._overlay.committed.columns.values[encode("k")] = encode("bent")


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
async def test_replicas_are_compared_wherever_it_is_asked(groups, tmp_path, durable) -> None:
    async with groups.open(folder=tmp_path if durable else None) as group:
        await (await group["a"].put("k", 1)).applied()
        learner = await group.learn("d")
        assert await learner.await_idle(timeout=limit())
        found = []
        async with trio.open_nursery() as nursery:
            for store in group.stores:

                async def verify(store=store) -> None:
                    found.append(await store.verify(limit()))

                nursery.start_soon(verify)
        assert all(found)
        assert {len(each.replicas) for each in found} == {4}
        leader = group[await group.await_leader()]
        assert found[0].replicas[0].replica.endpoint == leader.part.core.entity.endpoint


async def test_a_voter_that_differs_is_told_of(groups) -> None:
    async with groups.open() as group:
        await (await group["a"].put("k", 1)).applied()
        leader = await group.await_leader()
        name = next(each for each in "abc" if each != leader)
        assert await group[name].await_idle(timeout=limit())
        with group.lives[name].endpoint.subscribe_status() as status:
            damage(group[name])
            found = await group[leader].verify(limit())
            assert not found
            assert str(found).count("DIFFERENT") == 1
            while (event := await status.get()).status is not StatusCode.STORE_CONFLICT:
                pass
            assert "is not what its leader" in event.reason


async def test_without_a_leader_nothing_is_compared_and_what_is_missing_is_said(groups) -> None:
    async with groups.open(names=()) as group:
        store = await group.learn("d")
        with pytest.raises(NoQuorum, match=r"store s: no leader within 0.3 s: no .* was heard"):
            await store.verify(0.3)


async def test_without_its_master_nothing_is_compared() -> None:
    async with Endpoint() as one, Endpoint() as other:
        assert await other.peer("127.0.0.1", await one.listen())
        async with one.attach_master("s") as master, other.attach_clone("s") as clone:
            assert await clone.await_idle(timeout=limit())
            await master.close()
            with pytest.raises(RequestTimeout, match="store s: its leader did not compare"):
                await clone.verify(0.3)


async def test_a_clone_that_differs_takes_all_anew() -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as one, Endpoint() as other:
            assert await other.peer("127.0.0.1", await one.listen())
            master, clone = await one.attach_master("s"), await other.attach_clone("s")
            for key in ("j", "k"):
                await (await master.put(key, 1)).applied()
            assert await clone.await_idle(timeout=limit())
            assert await clone.verify(limit())
            events = clone.events()
            damage(clone)
            assert await clone.get("k") == "bent"
            found = await clone.verify(limit())
            assert not found
            assert "DIFFERENT" in str(found)
            while not (await clone.verify(limit())):
                pass
            assert await clone.get("k") == 1
            event = await events.get()
            assert (event.key, event.kind.name, events.poll()) == ("k", "UPDATE", [])
