"""The quota of a group: asked for anywhere, judged by the leader, kept by every member."""

from __future__ import annotations

import pytest

from endpoint import Endpoint, StatusCode
from peermesh.testing.time_limits import limit
from stores.quota import STORE_QUOTA
from wire.errors import InvalidData, NoQuorum, QuotaExceeded


async def is_full(store, key: str) -> bool:
    try:
        await (await store.put(key, 1)).applied()
    except QuotaExceeded:
        return True
    return False


async def test_a_quota_holds_under_every_leader(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        follower, other = (name for name in "abc" if name != leader)
        assert group[leader].statistics().max_entries == STORE_QUOTA.max_entries
        with group.lives[leader].endpoint.subscribe_status() as events:
            await group[follower].set_quota(limit(), max_entries=2)
            for name in "abc":
                assert await group[name].await_idle(timeout=limit())
                assert group[name].statistics().max_entries == 2
                assert group[name].statistics().max_bytes == STORE_QUOTA.max_bytes
            found = [await is_full(group[other], key) for key in "xyz"]
            assert found == [False, False, True]
            async for event in events:
                if event.status is StatusCode.QUOTA_EXCEEDED:
                    break
        await group.stop(leader)
        assert await is_full(group[other], "z")
        await group[other].set_quota(limit(), max_entries=None)
        assert not await is_full(group[follower], "z")


async def test_a_quota_outlives_the_process(tmp_path) -> None:
    for is_first in (True, False):
        async with Endpoint(name="a") as endpoint:
            attach = endpoint.attach_replica
            store = await attach("s", voters=("a",), backend="sqlite", path=tmp_path / "s.db")
            if is_first:
                await store.set_quota(limit(), max_entries=1)
                assert not await is_full(store, "x")
            assert await is_full(store, "y")
            assert store.statistics().max_entries == 1


async def test_a_quota_that_nothing_fits_in_is_refused_and_one_that_nobody_hears_fails(
    groups,
) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        with pytest.raises(InvalidData, match="give a positive number"):
            await group[leader].set_quota(max_entries=0)
        for name in [name for name in "abc" if name != leader]:
            await group.stop(name)
        with pytest.raises(NoQuorum):
            await group[leader].set_quota(0.5, max_entries=5)
