"""Who votes and who leads is changed by hand, from any replica."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from peermesh.testing.time_limits import limit
from stores.group import followers
from wire.errors import InvalidData, NoQuorum, PromotionRefused, RequestTimeout, StoreClosed


async def voters(store) -> list[str]:
    return sorted(each.name for each in await store.members() if each.is_voter)


async def test_a_learner_is_given_a_vote_and_loses_it_again(groups) -> None:
    async with groups.open(names=("a", "b", "c", "d")) as group:
        leader = await group.await_leader()
        follower = next(name for name in "abc" if name != leader)
        await (await group["d"].put("k", 1)).applied()
        assert await voters(group["d"]) == ["a", "b", "c"]
        await group[follower].add_voter("d", limit())
        await group["d"].add_voter("d", limit())  # It has one.
        for name in "abcd":
            assert await voters(group[name]) == ["a", "b", "c", "d"]
        # Four voters need three: with d alone beside two of them it counts.
        await group.stop(follower)
        await (await group["d"].put("k", 2)).applied()
        await group.start(follower)
        await group["d"].remove_voter("d", limit())
        assert "d" not in await voters(group["d"])


async def test_a_declared_voter_that_is_there_loses_its_vote(groups, monkeypatch) -> None:
    monkeypatch.setattr(followers, "IN_TOUCH_TICKS", 3)
    async with groups.open(names=tuple("abcd"), voters=tuple("abcd")) as group:
        leader = await group.await_leader()
        follower = next(name for name in "abcd" if name != leader)
        leading = group[leader].part.core.member.leading

        def ticks(count: int):
            until = leading._followers.tick + count
            return lambda: leading._followers.tick >= until

        await groups.until(ticks(10))
        await group[follower].remove_voter(follower, limit())
        await groups.until(ticks(10))
        assert follower not in await voters(group[leader])
        await group[leader].add_voter(follower, limit())
        assert await voters(group[follower]) == ["a", "b", "c", "d"]


async def test_two_changes_at_once_are_made_one_after_the_other(groups) -> None:
    async with groups.open(names=tuple("abcde"), voters=tuple("abc")) as group:
        leader = await group.await_leader()
        for name in "de":
            assert await group[name].await_idle(timeout=limit())
        async with trio.open_nursery() as nursery:
            for name in "de":
                nursery.start_soon(group[leader].add_voter, name, limit())
        assert await voters(group[leader]) == ["a", "b", "c", "d", "e"]


async def test_members_are_the_same_wherever_they_are_asked_for(groups) -> None:
    async with groups.open(names=("a", "b", "c", "d")) as group:
        leader = await group.await_leader()
        await (await group["d"].put("k", 1)).applied()
        for name in "abcd":
            assert await group[name].await_idle(timeout=limit())
        for name in "abcd":
            members = {each.name: each for each in await group[name].members()}
            assert set(members) == {"a", "b", "c", "d"}
            assert [each.name for each in members.values() if each.is_leader] == [leader]
            assert all(each.is_whole and not each.lag for each in members.values())
            assert not members["d"].is_voter


async def test_an_order_whose_caller_is_gone_is_given_no_more(groups) -> None:
    async with groups.open(names=("a", "b", "c")) as group:
        leader = await group.await_leader()
        second, third = (name for name in "abc" if name != leader)
        for name in (leader, second):
            with trio.CancelScope() as scope:
                scope.cancel()
                await group[third].transfer(name, limit())
            assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            scope.cancel()
            await group[third].set_quota(max_entries=1)
        assert not group[third].part.core.errands.is_any_open
        with pytest.raises(ValueError, match="a lone surrogate"):
            await group[third].transfer("\ud800", limit())
        for name in ("", "n" * 257):
            with pytest.raises(InvalidData, match="name has 1 to 256 characters"):
                await group[third].add_voter(name, limit())
        await (await group[third].put("k", 1)).applied()


async def test_a_vote_that_is_asked_for_at_once_after_a_restart_is_that_of_the_new_life(
    groups,
) -> None:
    """The last life may yet be there: that the name has a vote already means nothing."""
    async with groups.open() as group:
        leader = await group.await_leader()
        await (await group.learn("d")).add_voter("d", limit())
        await (await group.learn("e")).add_voter("e", limit())
        await group.stop("d")
        store = await group.learn("d")
        await store.await_leader(limit())
        await store.add_voter("d", limit())
        found = group[leader].part.core.member.journal.voters
        assert store.part.core.own in found.current
        assert await voters(store) == ["a", "b", "c", "d", "e"]


async def test_the_lead_is_handed_over_from_anywhere(groups) -> None:
    async with groups.open(names=("a", "b", "c", "d")) as group:
        leader = await group.await_leader()
        second, third = (name for name in "abc" if name != leader)
        await group["d"].transfer(second, limit())
        assert await group.await_leader() == second
        await group[third].promote(timeout=limit())
        assert group[third].is_leader()
        await (await group["d"].put("k", 1)).applied()
        with pytest.raises(RequestTimeout, match="d is no voter: add it first"):
            await group["d"].promote(timeout=0.5)
        with pytest.raises(PromotionRefused, match="has a leader"):
            await group["d"].promote(force=True, timeout=limit())


async def test_what_is_in_the_way_is_said(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        follower = next(name for name in "abc" if name != leader)
        with pytest.raises(RequestTimeout, match="no replica at an endpoint called nobody"):
            await group[follower].add_voter("nobody", 0.5)
        with pytest.raises(RequestTimeout, match="of three voters one is removed only if"):
            await group[follower].remove_voter(leader, 0.5)
        for name in [name for name in "abc" if name != leader]:
            await group.stop(name)
        store = group[leader]
        remedy = r"2 of 3 voters: .*; start them, or promote\(force=True\): "
        with pytest.raises(NoQuorum, match=remedy):
            await (await store.put("k", 1)).applied()
        loss = r"promote\(force=True\), which loses what a majority had and is not here$"
        with pytest.raises(NoQuorum, match=loss):
            await store.promote(timeout=0.5)
        assert await voters(store) == ["a", "b", "c"]


async def test_a_leader_that_the_others_follow_loses_none_by_force(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        await (await group[leader].put("k", 1)).applied()
        for name in "abc":
            assert await group[name].await_idle(timeout=limit())
        member = group[leader].part.core.member
        term = member.ballot.term
        await group[leader].promote(force=True, timeout=limit())
        assert group[leader].is_leader()
        assert member.ballot.term == term
        assert await voters(group[leader]) == ["a", "b", "c"]


async def test_force_deposes_none_that_takes_the_lead_meanwhile(groups) -> None:
    async with groups.open(names=("a", "b"), voters=("a", "b")) as group:
        leader = await group.await_leader()
        other = "b" if leader == "a" else "a"
        await (await group[leader].put("k", 1)).applied()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group[leader].transfer, other, limit())
            for _ in range(2):  # In one turn tasks run in any order.
                await trio.lowlevel.checkpoint()
            with pytest.raises(PromotionRefused, match="has a leader"):
                await group[leader].promote(force=True, timeout=limit())
        assert await group.await_leader() == other
        assert await voters(group[other]) == ["a", "b"]


async def test_what_is_closed_meanwhile_has_not_taken_the_lead_by_force(groups) -> None:
    async with groups.open(names=("a", "b"), voters=("a", "b")) as group:
        store = group[await group.await_leader()]
        await group.stop("b" if store is group["a"] else "a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.close)
            with pytest.raises(StoreClosed):
                await store.promote(force=True, timeout=limit())


async def test_the_last_replica_leads_by_force_and_goes_on(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        last, other = (name for name in "abc" if name != leader)
        await (await group[last].put("k", 1)).applied()
        assert await group[last].await_idle(timeout=limit())
        await group.stop(other)
        await group.stop(leader)
        store = group[last]
        await groups.until(lambda: store.leader() is None)
        await store.promote(force=True, timeout=limit())
        assert store.is_leader()
        await (await store.put("k", 2)).applied()
        assert await store.read("linear").get("k") == 2
        assert await voters(store) == [last]


async def test_a_group_of_one_hears_no_order_of_an_endpoint_without_a_vote(groups) -> None:
    async with Endpoint(name="a") as endpoint:
        store = await endpoint.attach_replica("s", voters=("a",))
        await store.promote(timeout=limit())
        assert store.is_leader()
        with pytest.raises(RequestTimeout, match="a group has at least one voter"):
            await store.remove_voter("a", 0.5)
