"""Replicas of a group: any of them takes writes, and a majority has what is acknowledged."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from handshake.credentials import Credentials
from handshake.secret import ClusterSecret
from peermesh.testing.time_limits import limit
from tests.waiting import until
from wire.errors import (
    BackendFailure,
    GuardFailed,
    InvalidData,
    MasterExists,
    NoQuorum,
    NoSuchMaster,
    StoreClosed,
    StoreError,
    TypeClash,
)


async def test_what_is_put_anywhere_is_read_everywhere(groups) -> None:
    async with groups.open() as group:
        leader = await group["a"].await_leader(limit())
        assert leader in "abc"
        for name in "abc":
            receipt = await group[name].put(("from", name), name)
            assert await receipt.applied() > 0
            for other in "abc":
                assert await group[other].read("linear").get(("from", name)) == name
        assert [group[name].is_leader() for name in "abc"].count(True) == 1
        for name in "abc":
            assert await group[name].await_idle(timeout=limit())
            assert sorted(await group[name].keys()) == [("from", name) for name in "abc"]
        members = await group[leader].members()
        assert sorted(each.name for each in members if each.is_voter) == ["a", "b", "c"]
        assert [each.name for each in members if each.is_leader] == [leader]


async def test_a_read_of_the_session_sees_what_its_own_handle_wrote(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        follower = group[next(name for name in "abc" if name != leader)]
        for number in range(50):
            await follower.put("n", number)
            await follower.increment(("missing", number))
            assert await follower.read("session").get("n") == number
        await follower.close()
        with pytest.raises(StoreClosed):
            await follower.read("session").get("n")
        with pytest.raises(InvalidData, match="'local', 'session', 'linear'"):
            group[leader].read("eventual")


async def test_every_kind_of_request_through_each_replica(groups) -> None:
    async with groups.open() as group:
        for name in "abc":
            store = group[name]
            await store.put((name, "count"), 40)
            await store.increment((name, "count"), 2)
            await store.append((name, "text"), "ab")
            await store.push((name, "vector"), 1)
            await store.put((name, "gone"), 1)
            await store.erase((name, "gone"))
            assert await store.put_unique((name, "only"), 1)
            assert not await store.put_unique((name, "only"), 2)
            clash = await store.increment((name, "text"))
            with pytest.raises(TypeClash):
                await clash.applied()
            revision = await (await store.put((name, "cas"), 1)).applied()
            await (await store.compare_and_set((name, "cas"), 2, revision)).applied()
            with pytest.raises(GuardFailed):
                await (await store.compare_and_set((name, "cas"), 3, revision)).applied()
            reader = group["b"].read("linear")
            assert await reader.get((name, "count")) == 42
            assert await reader.get((name, "cas")) == 2
            assert not await reader.exists((name, "gone"))


async def test_many_puts_through_all_replicas_at_once_are_all_there(groups) -> None:
    async with groups.open() as group:

        async def write(name: str) -> None:
            receipts = [await group[name].put((name, number), number) for number in range(2_000)]
            for receipt in receipts:
                await receipt.applied()

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(write, name)
        for name in "abc":
            assert await group[name].await_idle(timeout=limit())
            assert len(await group[name].keys()) == 6_000


async def test_when_the_leader_leaves_another_one_goes_on(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        others = [name for name in "abc" if name != leader]
        await (await group[others[0]].put("before", 1)).applied()
        await group.stop(leader)
        for name in others:
            receipt = await group[name].put(name, name)
            await receipt.applied()
        assert await group.await_leader() in others
        for name in others:
            assert await group[name].read("linear").get("before") == 1
            assert await group[name].read("linear").get(others[0]) == others[0]


async def test_a_replica_in_memory_that_comes_back_learns_all_and_is_a_voter_again(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        lost = next(name for name in "abc" if name != leader)
        await (await group[leader].put("k", 1)).applied()
        await group.stop(lost)
        await (await group[leader].put("k", 2)).applied()
        store = await group.start(lost)
        await store.await_leader(limit())
        assert await store.read("linear").get("k") == 2
        assert await store.get("k") == 2


async def test_without_a_majority_writes_and_reads_say_so(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        for name in [name for name in "abc" if name != leader]:
            await group.stop(name)
        store = group[leader]
        receipt = await store.put("k", 1)
        with pytest.raises(NoQuorum, match=r"2 of 3 voters: \w silent"):
            await receipt.applied()
        with pytest.raises(NoQuorum, match="2 of 3 voters"):
            await store.read("linear").get("k")
        with pytest.raises(NoQuorum, match="2 of 3 voters"):
            await store.await_leader(0.1)
        assert await store.get("other") is None, "a local read needs no majority"
        again = await store.put("k", 2)
        with pytest.raises(NoQuorum, match="it was not applied"):
            await again.applied()
        assert store.leader() is None


async def test_after_a_majority_is_back_the_same_handle_writes_on(groups) -> None:
    async with groups.open() as group:
        leader = await group.await_leader()
        others = [name for name in "abc" if name != leader]
        await (await group[others[0]].put("k", 1)).applied()
        await group.stop(leader)
        await group.await_leader()
        receipts = [await group[others[1]].put(number, number) for number in range(100)]
        for receipt in receipts:
            await receipt.applied()
        assert len(await group[others[0]].read("linear").keys()) == 101


async def test_nothing_is_founded_before_every_voter_has_answered(groups) -> None:
    async with groups.open(names=("a", "b")) as group:
        with pytest.raises(NoQuorum, match=r"no answer of c: .* attach it there, too"):
            await group["a"].await_leader(2.5)
        with pytest.raises(NoQuorum, match="no answer of c"):
            await group["b"].await_leader(0.1)
        await group.start("c")
        assert await group["b"].await_leader(limit()) in "abc"


async def test_lists_that_differ_found_nothing_and_say_so(groups) -> None:
    async with groups.open(names=("a", "b")) as group:
        group.voters = ("a", "c", "b")
        await group.start("c")
        for name in "ab":
            await groups.until(lambda name=name: "c was given" in group[name].part.core.explain())
        with pytest.raises(NoQuorum, match="c was given voters a, c, b, and this replica a, b, c"):
            await group["a"].await_leader(0.1)


async def test_two_endpoints_of_one_name_found_nothing_and_say_so(groups) -> None:
    async with groups.open(names=("a", "b")) as group:
        other = await group.open("b", "another b")
        other.store = await other.endpoint.attach_replica("s", voters=group.voters)
        third = await group.start("c")
        await groups.until(lambda: "two endpoints are called b" in third.part.core.explain())
        with pytest.raises(NoQuorum, match="two endpoints are called b"):
            await group["a"].await_leader(0.1)


async def test_a_name_that_was_not_declared_learns_and_has_no_vote(groups) -> None:
    async with groups.open() as group:
        await (await group["a"].put("k", 1)).applied()
        store = await group.start("d")
        await store.await_leader(limit())
        assert await store.read("linear").get("k") == 1
        await (await store.put("d", 1)).applied()
        leader = await group.await_leader()
        await groups.until(lambda: len(group[leader].part.core.members()) == 4)
        assert leader != "d"
        voters = [each.name for each in await group[leader].members() if each.is_voter]
        assert sorted(voters) == ["a", "b", "c"]


async def test_replicas_on_disk_find_all_again_after_all_were_away(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path) as group:
        for name in "abc":
            await (await group[name].put(name, "old")).applied()
            await (await group[name].increment("count", 1)).applied()
        for name in "abc":
            assert await group[name].await_idle(timeout=limit())
    async with groups.open(folder=tmp_path) as group:
        for name in "abc":
            assert await group[name].read("linear").get("count") == 3
            assert await group[name].read("linear").get(name) == "old"
            await (await group[name].put(name, "new")).applied()
        leader = await group.await_leader()
        members = await group[leader].members()
        assert sorted(each.name for each in members if each.is_voter) == ["a", "b", "c"]


async def test_rows_follow_the_journal_and_a_restart_finds_both(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path) as group:
        for number in range(3_000):
            receipt = await group["a"].put(number, number)
        await receipt.applied()
        for number in range(0, 3_000, 2):
            receipt = await group["b"].erase(number)
        await receipt.applied()
        keepers = [group[name].part.core.carrier.keeper for name in "abc"]
        files = [group[name].part.backend for name in "abc"]
        ends = [group[name].part.core.member.state for name in "abc"]
        await groups.until(
            lambda: all(
                not keeper.has_slices and each._rows._meta.applied.index == state.commit
                for keeper, each, state in zip(keepers, files, ends, strict=True)
            )
        )
        receipt = await group["c"].put("last", 1)
        await receipt.applied()
    async with groups.open(folder=tmp_path) as group:
        for name in "abc":
            reader = group[name].read("linear")
            assert await reader.get("last") == 1
            assert len(await reader.keys()) == 1_501
            assert await reader.get(1_001) == 1_001


async def test_a_disk_that_was_away_takes_a_snapshot(groups, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 5)
    async with groups.open(folder=tmp_path) as group:
        leader = await group.await_leader()
        lost = next(name for name in "abc" if name != leader)
        await group.stop(lost)
        for number in range(100):
            await (await group[leader].put(number, "x" * 100)).applied()
        member = group[leader].part.core.member
        while member.journal.floor.index < 100:  # what the lost one may ask for is kept for 10 s
            await (await group[leader].put(0, "x" * 100)).applied()
        store = await group.start(lost)
        assert await store.read("linear").get(99) == "x" * 100
        await (await store.put("more", 1)).applied()
        assert await store.await_idle(timeout=limit())
        await group.stop(lost)
        store = await group.start(lost)
        assert len(await store.read("linear").keys()) == 101


async def test_the_same_file_with_another_name_or_no_ballot_is_refused(groups, tmp_path) -> None:
    async with groups.open(folder=tmp_path) as group:
        await (await group["a"].put("k", 1)).applied()
    with trio.fail_after(limit()):
        path = tmp_path / "a.db"
        async with Endpoint(name="b") as wrong:
            with pytest.raises(BackendFailure, match="is the replica of a, and this endpoint is b"):
                await wrong.attach_replica("s", voters=tuple("abc"), backend="sqlite", path=path)
        (tmp_path / "a.db.ballot").unlink()
        async with Endpoint(name="a") as bare:
            with pytest.raises(BackendFailure, match=r"ballot .* is missing"):
                await bare.attach_replica("s", voters=tuple("abc"), backend="sqlite", path=path)


async def test_what_cannot_be_attached_is_refused() -> None:
    with trio.fail_after(limit()):
        async with Endpoint() as nameless, Endpoint(name="a") as named:
            with pytest.raises(InvalidData, match="give Endpoint"):
                await nameless.attach_replica("s", voters=("a", "b", "c"))
            for voters in (("a", "a"), [f"n{number}" for number in range(99)]):
                with pytest.raises(InvalidData, match="different names"):
                    await named.attach_replica("s", voters=voters)
            async with named.attach_replica("s", voters=("a",)) as store:
                with pytest.raises(StoreError, match="in use"):
                    await named.attach_replica("s", voters=("a",))
                await (await store.put("k", 1)).applied()
                assert await store.read("linear").get("k") == 1
                with pytest.raises(InvalidData, match="'local', 'session', 'linear'"):
                    store.read("quick")
            async with named.attach_master("t"):
                with pytest.raises(MasterExists, match="has its master"):
                    await named.attach_replica("t", voters=("a",))


async def test_patience_says_how_long_what_was_asked_waits() -> None:
    """There is no majority, so that both fail: the hasty one while the usual one still waits."""
    async with Endpoint(name="a") as endpoint:
        voters = ("a", "b", "c")
        hasty = await endpoint.attach_replica("hasty", voters=voters, patience=0.2)
        usual = await endpoint.attach_replica("usual", voters=voters)
        waiting = await usual.put("k", 1)
        given_up = await hasty.put("k", 1)
        with trio.fail_after(limit()), pytest.raises(NoQuorum):
            await given_up.applied()
        assert not waiting.is_resolved
        with pytest.raises(ValueError, match="patience=-1"):
            await endpoint.attach_replica("wrong", patience=-1)


async def test_a_name_that_a_group_keeps_has_no_master_beside_it() -> None:
    with trio.fail_after(limit()):
        async with Endpoint(name="a") as here, Endpoint() as there:
            assert await there.peer("127.0.0.1", await here.listen())
            async with here.attach_replica("s", voters=("a",)) as store:
                await (await store.put("k", 1)).applied()
                await until(lambda: "s" in there.known_groups())
                for endpoint in (here, there):
                    with pytest.raises(MasterExists, match="kept by a replica group"):
                        await endpoint.attach_master("s")
                    with pytest.raises(NoSuchMaster, match="attach_replica without voters"):
                        await endpoint.attach_clone("s")
                async with there.attach_proxy("s") as proxy:
                    assert await proxy.at_master().get("k") == 1
                async with there.attach_replica("s") as learner:
                    assert await learner.at_master().get("k") == 1


async def test_voters_that_share_a_secret_go_by_the_names_that_they_were_given() -> None:
    credentials = Credentials.from_secret(ClusterSecret.generate())
    async with (
        Endpoint(name="a", credentials=credentials) as a,
        Endpoint(name="b", credentials=credentials) as b,
    ):
        await b.peer("127.0.0.1", await a.listen())
        stores = [await each.attach_replica("s", voters=("a", "b")) for each in (a, b)]
        assert await stores[0].await_leader(limit()) in "ab"
        await (await stores[1].put("key", 1)).applied()
        assert await stores[0].read("linear").get("key") == 1
