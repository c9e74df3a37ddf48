"""Learners: replicas without a vote, which join the group that is there."""

from __future__ import annotations

import re

import pytest
import trio

from endpoint import Endpoint
from endpoint.mesh.status import StatusCode
from peermesh.testing.time_limits import limit
from stores.group import snapshots
from stores.replica import kept
from wire.encoding import encode
from wire.errors import NoQuorum, PromotionRefused


async def told(status, code: StatusCode) -> str:
    """Wait for an event, and give its reason."""
    with trio.fail_after(limit()):
        while (event := await status.get()).status is not code:
            pass
    return event.reason


async def test_a_learner_joins_a_group_that_it_did_not_know_follows_and_asks(groups) -> None:
    async with groups.open() as group:
        for number in range(100):
            receipt = await group["a"].put(number, number)
        await receipt.applied()
        store = await group.learn("d")
        assert await store.await_leader(limit()) in "abc"
        assert len(await store.read("linear").keys()) == 100
        await (await store.put("from d", 1)).applied()
        assert await group["b"].read("linear").get("from d") == 1
        assert await store.await_idle(timeout=limit())
        assert await store.get("from d") == 1
        assert not store.is_leader()
        leader = await group.await_leader()
        (known,) = [each for each in await group[leader].members() if each.name == "d"]
        assert not known.is_voter
        assert {each.name: each.is_voter for each in await store.members()} == {
            **dict.fromkeys("abc", True),
            "d": False,
        }


async def test_endpoints_without_a_name_have_learners_too(groups) -> None:
    async with groups.open() as group:
        await (await group["a"].put("k", 1)).applied()
        with trio.fail_after(limit()):
            async with Endpoint() as one, Endpoint() as other:
                for endpoint in (one, other):
                    port = group.lives["a"].port
                    assert await endpoint.peer("127.0.0.1", port, timeout=limit())
                first, second = await one.attach_replica("s"), await other.attach_replica("s")
                assert await first.read("linear").get("k") == 1
                await (await second.put("k", 2)).applied()
                assert await first.read("linear").get("k") == 2
                leader = await group.await_leader()
                await groups.until(lambda: len(group[leader].part.core.members()) == 5)


async def test_a_learner_goes_over_to_the_next_leader(groups) -> None:
    async with groups.open() as group:
        store = await group.learn("d")
        await (await store.put("k", 1)).applied()
        await group.stop(await group.await_leader())
        await (await store.put("k", 2)).applied()
        assert await store.read("linear").get("k") == 2
        assert await store.await_leader(limit()) in group.lives


async def test_a_learner_waits_for_its_group_and_says_what_it_lacks(groups) -> None:
    async with groups.open(names=()) as group:
        store = await group.learn("d")
        with pytest.raises(NoQuorum, match="no master and no group of this name was heard"):
            await store.await_leader(0.5)
        for name in "abc":
            await group.start(name)
        assert await store.await_leader(limit()) in "abc"
        for name in "abc":
            await group.stop(name)
        receipt = await store.put("k", 1)
        with pytest.raises(NoQuorum, match=r"3 of 3 voters: \w silent"):
            await receipt.applied()
        with pytest.raises(NoQuorum, match="3 of 3 voters"):
            await store.read("linear").get("k")
        assert await store.get("k") is None
        assert store.leader() is None


async def test_a_learner_on_disk_restarts_from_its_file(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path) as group:
        store = await group.learn("d")
        await (await store.put("k", "old")).applied()
        assert await store.await_idle(timeout=limit())
        await group.stop("d")
        await (await group["a"].put("k", "new")).applied()
        store = await group.learn("d")
        assert await store.read("linear").get("k") == "new"
        await (await store.put("more", 1)).applied()
        assert await store.await_idle(timeout=limit())
        await group.stop("d")
        for name in "abc":
            await group.stop(name)
        store = await group.learn("d")
        with pytest.raises(NoQuorum, match=r"3 of 3 voters: \w never heard"):
            await store.await_leader(0.5)
        for name in "abc":
            await group.start(name)
        assert await store.read("linear").get("more") == 1


async def test_a_learner_that_becomes_a_voter_keeps_its_file(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path, names=("a",), voters=("a",)) as group:
        await (await group["a"].put("k", 1)).applied()
        store = await group.learn("b")
        assert await store.read("linear").get("k") == 1
        await group.stop("b")
        await group.stop("a")
        group.voters = ("a", "b")
        for name in "ab":
            await group.start(name)
        leader = await group.await_leader()
        core = group[leader].part.core
        await groups.until(lambda: {each.name for each in core.voters} == {"a", "b"})
        assert await group["b"].read("linear").get("k") == 1


# -- groups that are not the same ------------------------------------------------------------------


async def test_two_groups_of_one_name_tell_both_ends_and_keep_their_data(groups, tmp_path) -> None:
    async with (
        groups.open(folder=tmp_path, names=("a",), voters=("a",)) as one,
        groups.open(folder=tmp_path, names=("b",), voters=("b",)) as other,
    ):
        for group, name in ((one, "a"), (other, "b")):
            await (await group[name].put("of", name)).applied()
        ends = [one.lives["a"].endpoint, other.lives["b"].endpoint]
        heard = [each.subscribe_status() for each in ends]
        assert await ends[0].peer("127.0.0.1", other.lives["b"].port, timeout=limit())
        text = "has a replica of another group of this name"
        for status, name in zip(heard, "ba", strict=True):
            assert f"{name} {text}" in await told(status, StatusCode.STORE_CONFLICT)
        for group, name in ((one, "a"), (other, "b")):
            await (await group[name].put("more", name)).applied()
            assert await group[name].read("linear").get("of") == name


async def test_a_learner_of_another_group_keeps_what_it_has(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path, names=("a",), voters=("a",)) as group:
        await (await group["a"].put("of", "the first")).applied()
        store = await group.learn("d")
        assert await store.read("linear").get("of") == "the first"
    async with groups.open(names=("b",), voters=("b",)) as group:
        await (await group["b"].put("of", "the second")).applied()
        heard = [group.lives["b"].endpoint.subscribe_status()]
        life = await group.open("d")
        heard.append(life.endpoint.subscribe_status())
        life.store = await life.endpoint.attach_replica(
            "s", backend="sqlite", path=tmp_path / "d.db"
        )
        for status in heard:
            assert "another group" in await told(status, StatusCode.STORE_CONFLICT)
        found = life.store.part.core.machine.get(encode("of"))
        assert found in (None, encode("the first")), (
            "what is committed it learns of its group alone"
        )
        with pytest.raises(NoQuorum):
            await life.store.await_leader(1)
    async with groups.open(folder=tmp_path, names=("a",), voters=("a",)) as group:
        store = await group.learn("d")
        assert await store.read("linear").get("of") == "the first"


async def amid_a_snapshot(groups, group, monkeypatch):
    """Give the leader, and a learner that gets no part of the snapshot which it needs."""
    monkeypatch.setattr(snapshots, "WINDOW_PARTS", 0)
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 0)
    for number in range(9):
        await (await group["a"].put(number, number)).applied()
    leader = await group.await_leader()
    await groups.until(lambda: group[leader].part.core.member.journal.floor.index > 9)
    return leader, await group.learn("d")


async def test_a_learner_says_that_it_takes_a_snapshot_and_deposes_no_leader_meanwhile(
    groups, monkeypatch
) -> None:
    """What it has yet is nothing: a lead by force would have the voters lose all."""
    async with groups.open() as group:
        leader, learner = await amid_a_snapshot(groups, group, monkeypatch)
        trouble = rf"it takes a snapshot of {leader}: 0 of \d+ parts are here"
        await groups.until(lambda: re.search(trouble, learner.statistics().trouble or ""))
        with pytest.raises(NoQuorum, match=rf"{trouble}|{leader} leads, and nothing"):
            await learner.await_leader(0.0)
        with pytest.raises(PromotionRefused, match="has a leader"):
            await learner.promote(force=True, timeout=limit())
        monkeypatch.undo()
        await groups.until(lambda: learner.statistics().trouble is None)
        assert await learner.get(8) == 8
        assert await group.await_leader() == leader


async def test_what_has_nothing_yet_leads_by_force_once_all_that_voted_are_gone(
    groups, monkeypatch
) -> None:
    async with groups.open() as group:
        _, learner = await amid_a_snapshot(groups, group, monkeypatch)
        await groups.until(lambda: "it takes a snapshot" in (learner.statistics().trouble or ""))
        for name in "abc":
            await group.stop(name)
        await groups.until(lambda: learner.leader() is None)
        await learner.promote(force=True, timeout=limit())
        assert await learner.read("linear").get(8) is None
