"""Replica groups in clusters: the same script in every world."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from peermesh import Backend
from peermesh.testing.time_limits import limit
from wire.errors import NoQuorum, StoreError

VOTERS = ("a", "b", "c")
TRIANGLE = (("a", "b"), ("b", "c"), ("a", "c"))

everywhere = pytest.mark.worlds("sim", "loopback", "process")


async def attach(cluster, backend: Backend = Backend.Memory) -> dict[str, object]:
    return {
        name: await cluster[name].attach_replica("s", voters=VOTERS, backend=backend)
        for name in VOTERS
    }


@everywhere
async def test_a_group_elects_replicates_and_heals(cluster):
    triangle = await cluster(list(VOTERS), TRIANGLE)
    group = await attach(triangle)
    leader = await group["a"].await_leader(limit())
    assert leader in VOTERS
    follower, other = (name for name in VOTERS if name != leader)
    await (await group[follower].put("k", 1)).applied()
    assert await group[other].read().get("k") == 1
    assert sorted(await group[leader].read("local").items()) == [("k", 1)]
    assert {each.name for each in await group[leader].members()} == set(VOTERS)
    await triangle.partition([leader], [follower, other])
    # The others elect, whatever the cut-off leader believes; it can serve nothing.
    await (await group[follower].put("k", 2)).applied()
    assert await group[follower].await_leader(limit()) in (follower, other)
    with pytest.raises(NoQuorum):
        await group[leader].read().get("k")
    await triangle.heal()
    assert await triangle.await_converged(limit(60))
    assert await group[leader].read().get("k") == 2
    assert await group[leader].leader() in (follower, other)


async def put_through(store, key, value):
    """Ask again where no leader was elected in time; doing it twice makes no difference."""
    with trio.fail_after(limit(60)):
        while True:
            receipt = await store.put(key, value)
            with suppress(NoQuorum):
                return await receipt.applied()


@pytest.mark.worlds("loopback", "process")
async def test_a_node_that_was_killed_has_its_replica_again(cluster):
    triangle = await cluster(list(VOTERS), TRIANGLE)
    group = await attach(triangle, Backend.SQLite)
    await (await group["b"].put("k", 1)).applied()
    leader = await group["a"].await_leader(limit())
    follower = next(name for name in VOTERS if name != leader)
    await triangle[leader].kill()
    await put_through(group[follower], "k", 2)
    await triangle[leader].restart()
    again = await triangle[leader].attach_replica("s", voters=VOTERS, backend=Backend.SQLite)
    assert await again.read().get("k") == 2
    assert await triangle.await_converged(limit(60))
    with pytest.raises(StoreError):
        await triangle[leader].attach_replica("s", voters=VOTERS)
