"""A vote that a person took stays taken, whatever comes, until a person gives it again."""

from __future__ import annotations

from functools import partial

import pytest

from endpoint.mesh.status import StatusCode
from endpoint.replicas.logs.log import ReplicaLog
from peermesh.testing.time_limits import limit
from stores.group import followers
from stores.replica import kept, lazy
from stores.replica.logs import books
from tests.endpoint.replicas.group_logs.conftest import LogGroup
from tests.endpoint.replicas.groups.conftest import Group

NAMES = ("a", "b", "c", "d")


@pytest.fixture(autouse=True)
def soon(monkeypatch) -> None:
    """Have leaders add what is wanted after three ticks, and journals begin late."""
    monkeypatch.setattr(followers, "IN_TOUCH_TICKS", 3)
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 0)
    for keeper in (lazy, books):
        monkeypatch.setattr(keeper, "CHECKPOINT_TICKS", 1)


async def voters(group) -> str:
    leader = await group.await_leader()
    return "".join(sorted(each.name for each in await group[leader].members() if each.is_voter))


async def let_go(groups, group) -> None:
    """Have all files begin after what was done so far: a checkpoint begins once one is written."""
    for _ in range(2):
        store = group[await group.await_leader()]
        write = store.append if isinstance(store, ReplicaLog) else partial(store.put, "k")
        await (await write(1)).applied()
        end = store.part.core.member.state.commit
        await groups.until(partial(begin_after, group, end))


def begin_after(group, index: int) -> bool:
    return all(each.part.core.member.journal.floor.index >= index for each in group.stores)


async def still_without(groups, group, name: str) -> None:
    """Wait until a leader might have added a member thrice, and see that it has not."""
    own = group[name].part.core.own

    def is_settled() -> bool:
        members = [each.part.core.member for each in group.stores if each.is_leader()]
        for known in [each.leading._followers for each in members]:
            found = known.get(own)
            if found is not None and found.round and known.tick - found.touched_tick >= 10:
                return True
        return False

    await groups.until(is_settled)
    leader = await group.await_leader()
    found = [each for each in await group[leader].members() if each.name == name]
    assert {(each.is_voter, each.is_removed) for each in found} == {(False, True)}


async def told(status) -> str:
    while True:
        event = await status.get()
        if event.status is StatusCode.REPLICA_DISMISSED:
            return event.reason


@pytest.mark.parametrize("kind", [Group, LogGroup])
async def test_a_removed_voter_has_no_vote_under_later_leaders_and_after_restarts(
    groups, tmp_path, kind
) -> None:
    async with groups.open(names=NAMES, voters=NAMES, folder=tmp_path, kind=kind) as group:
        leader = await group.await_leader()
        gone = next(name for name in "dcb" if name != leader)
        rest = "".join(name for name in NAMES if name != gone)
        with group.lives[gone].endpoint.subscribe_status() as status:
            await group[leader].remove_voter(gone, limit())
            assert f"add_voter('{gone}')" in await told(status)
        heir = next(name for name in rest if name != leader)
        await group[leader].transfer(heir, limit())
        await still_without(groups, group, gone)
        await let_go(groups, group)
        for name in NAMES:
            await group.stop(name)
        for name in NAMES:
            await group.start(name)
        await still_without(groups, group, gone)
        assert await voters(group) == rest
        await group[gone].add_voter(gone, limit())
        assert await voters(group) == "abcd"
        (found,) = [each for each in await group[gone].members() if each.name == gone]
        assert not found.is_removed


@pytest.mark.parametrize("has_file", [True, False])
async def test_one_that_was_away_when_it_was_removed_comes_back_without_a_vote(
    groups, tmp_path, has_file
) -> None:
    async with groups.open(folder=tmp_path) as group:
        leader = await group.await_leader()
        gone = next(name for name in "cba" if name != leader)
        await group.stop(gone)
        await group[leader].remove_voter(gone, limit())
        if not has_file:
            for path in tmp_path.glob(f"{gone}.db*"):
                path.unlink()
        life = await group.open(gone)
        with life.endpoint.subscribe_status() as status:
            await group.attach(life, group.voters)
            assert f"add_voter('{gone}')" in await told(status)
        await still_without(groups, group, gone)
        await (await group[gone].put("k", 1)).applied()


async def test_a_group_in_memory_keeps_a_removal_for_the_next_life_and_the_next_leader(
    groups,
) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        gone, heir = (name for name in "abc" if name != leader)
        await group.stop(gone)
        await group[leader].remove_voter(gone, limit())
        await group.start(gone)
        await still_without(groups, group, gone)
        await group[leader].transfer(heir, limit())
        await still_without(groups, group, gone)
