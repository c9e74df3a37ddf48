"""Groups that keep a log in clusters: the same script in every world."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from peermesh import Backend
from peermesh.testing.time_limits import limit
from wire.errors import NoQuorum, StoreError

VOTERS = ("a", "b", "c")
TRIANGLE = (("a", "b"), ("b", "c"), ("a", "c"))


async def attach(cluster, backend: Backend = Backend.Memory) -> dict[str, object]:
    return {
        name: await cluster[name].attach_log_replica("l", voters=VOTERS, backend=backend)
        for name in VOTERS
    }


async def append_through(log, value):
    """Ask again where no leader was elected in time: the value may be there more than once."""
    with trio.fail_after(limit(60)):
        while True:
            receipt = await log.append(value)
            with suppress(NoQuorum):
                return await receipt.applied()


async def values(log) -> list:
    await log.catch_up()
    return [entry.value for entry in await log.read(0, 0)]


@pytest.mark.worlds("sim", "loopback", "process")
async def test_a_log_goes_on_without_its_leader_and_is_one_again_afterwards(cluster):
    triangle = await cluster(list(VOTERS), TRIANGLE)
    group = await attach(triangle)
    leader = await group["a"].await_leader()
    follower, other = (name for name in VOTERS if name != leader)
    await (await group[follower].append("first")).applied()
    assert await values(group[other]) == ["first"]
    await triangle.partition([leader], [follower, other])
    await append_through(group[follower], "second")
    await (await group[follower].commit("worker", {0: 1})).applied()
    with pytest.raises(NoQuorum):
        await group[leader].catch_up(0.5)
    assert {entry.value for entry in await group[leader].read(0, 0)} == {"first"}
    await triangle.heal()
    assert await triangle.await_converged(limit(60))
    assert set(await values(group[leader])) == {"first", "second"}
    assert await group[leader].committed("worker") == {0: 1}
    assert {each.name for each in await group[other].members()} == set(VOTERS)


@pytest.mark.worlds("sim", "loopback", "process")
async def test_a_node_that_was_killed_has_its_log_again(cluster):
    triangle = await cluster(list(VOTERS), TRIANGLE)
    group = await attach(triangle, Backend.SQLite)
    leader = await group["a"].await_leader()
    survivor = next(name for name in VOTERS if name != leader)
    await (await group[survivor].append("first")).applied()
    await triangle[leader].kill()
    await append_through(group[survivor], "second")
    await triangle[leader].restart()
    again = await triangle[leader].attach_log_replica("l", voters=VOTERS, backend=Backend.SQLite)
    await again.await_leader()
    assert set(await values(again)) == {"first", "second"}
    with pytest.raises(StoreError):
        await triangle[leader].attach_log_replica("l", voters=VOTERS)
