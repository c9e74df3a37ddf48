"""Replicas of a log: any of them appends, a majority has it, and readers go on at any of them."""

from __future__ import annotations

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.logs.log_reading import Start
from peermesh.testing.time_limits import limit
from stores.sealing import StorageKey, StorageKeys
from wire.errors import (
    BackendFailure,
    InvalidData,
    MasterExists,
    NoQuorum,
    NoSuchMaster,
    NoSuchPartition,
    OffsetOutOfRange,
    QuotaExceeded,
    StoreClosed,
    StoreError,
)


@pytest.fixture(params=["memory", "disk"])
def folder(request, tmp_path):
    return tmp_path if request.param == "disk" else None


async def values(log, partition=0) -> list:
    await log.catch_up(limit())
    span = (await log.offsets())[partition]
    entries = await log.read(partition, span.start, limit=10_000)
    assert [entry.offset for entry in entries] == list(range(span.start, span.end))
    return [entry.value for entry in entries]


async def test_what_is_appended_anywhere_is_read_everywhere(logs, folder) -> None:
    async with logs.open(folder=folder) as group:
        leader = await group["a"].await_leader(limit())
        assert leader in "abc"
        for name in "abc":
            assert await group[name].partition_count() == 2
            receipt = await group[name].append(name, partition=1)
            place = await receipt.applied()
            assert place.partition == 1
            for other in "abc":
                await group[other].catch_up(limit())
                (entry,) = await group[other].read(1, place.offset)
                assert (entry.value, entry.offset) == (name, place.offset)
        for name in "abc":
            assert await group[name].await_idle(timeout=limit())
            assert await values(group[name], 1) == ["a", "b", "c"]
        members = await group[leader].members()
        assert sorted(each.name for each in members if each.is_voter) == ["a", "b", "c"]
        assert [each.name for each in members if each.is_leader] == [leader]
        assert "ReplicaLog l leader ends=(0, 3)" in repr(group[leader])
        assert group[leader].statistics().entries == 3


async def test_entries_of_one_handle_are_in_order_and_those_of_a_key_in_one_partition(logs) -> None:
    async with logs.open() as group:

        async def append(name: str) -> None:
            receipts = [await group[name].append((name, at), key=name) for at in range(1_000)]
            for receipt in receipts:
                await receipt.applied()

        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(append, name)
        found = await values(group["b"], 0) + await values(group["b"], 1)
        for name in "abc":
            assert [at for who, at in found if who == name] == list(range(1_000))


async def test_a_leader_that_closes_loses_nothing_and_a_consumer_goes_on(logs, folder) -> None:
    async with logs.open(folder=folder) as group:
        leader = await group.await_leader()
        first, second = (name for name in "abc" if name != leader)
        seen: list[int] = []

        async def consume() -> None:
            async with group[first].consume("worker") as consumer:
                while len(seen) < 40:
                    seen.append((await consumer.get(limit())).value)
                    await (await consumer.commit()).applied()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            for number in range(20):
                await (await group[second].append(number, partition=0)).applied()
            await group.stop(leader)
            for number in range(20, 40):
                await (await group[second].append(number, partition=0)).applied()
        assert seen == list(range(40))
        await group[second].catch_up(limit())
        assert (await group[second].committed("worker"))[0] == 40
        assert await group[second].lag("worker") == 0


async def test_a_consumer_goes_on_at_another_member_where_it_was(logs) -> None:
    async with logs.open() as group:
        leader = await group.await_leader()
        other = next(name for name in "abc" if name != leader)
        for number in range(10):
            receipt = await group[other].append(number, partition=0)
        await receipt.applied()
        async with group[leader].consume("worker", partitions=[0]) as consumer:
            for number in range(4):
                assert (await consumer.get(limit())).value == number
            await (await consumer.commit()).applied()
        await group.stop(leader)
        await group[other].catch_up(limit())
        async with group[other].consume("worker", partitions=[0]) as consumer:
            assert (await consumer.get(limit())).value == 4
        await (await group[other].forget_consumer("worker")).applied()
        assert await group[other].consumers() == {}


async def test_a_voter_on_disk_comes_back_with_all_of_it(logs, tmp_path) -> None:
    async with logs.open(folder=tmp_path) as group:
        leader = await group.await_leader()
        for number in range(50):
            receipt = await group[leader].append(number, partition=0)
        await receipt.applied()
        await (await group[leader].commit("worker", {0: 7})).applied()
        for name in "abc":
            await group.stop(name)
        for name in "abc":
            await group.start(name)
        assert await values(group["a"]) == list(range(50))
        assert await group["a"].committed("worker") == {0: 7}
        await (await group["b"].append(50, partition=0)).applied()
        assert await values(group["c"]) == list(range(51))


async def test_a_learner_reads_and_appends_and_has_no_vote(logs) -> None:
    async with logs.open() as group:
        for number in range(10):
            receipt = await group["a"].append(number, partition=0)
        await receipt.applied()
        log = await group.learn("d")
        assert await log.await_leader(limit()) in "abc"
        assert await values(log) == list(range(10))
        await (await log.append("from d", partition=0)).applied()
        assert (await values(group["b"]))[-1] == "from d"
        assert {each.name: each.is_voter for each in await log.members()} == {
            **dict.fromkeys("abc", True),
            "d": False,
        }
        await log.add_voter("d", limit())
        assert {each.name for each in await log.members() if each.is_voter} == {*"abcd"}
        await log.promote(timeout=limit())
        assert await log.await_leader(limit()) == "d"
        await log.transfer("a", limit())
        await group["a"].remove_voter("d", limit())


async def test_without_a_majority_appends_and_reads_say_so(logs) -> None:
    async with logs.open() as group:
        leader = await group.await_leader()
        await (await group[leader].append("kept", partition=0)).applied()
        for name in [name for name in "abc" if name != leader]:
            await group.stop(name)
        log = group[leader]
        receipt = await log.append("lost", partition=0)
        with pytest.raises(NoQuorum, match=r"2 of 3 voters: \w silent"):
            await receipt.applied()
        with pytest.raises(NoQuorum, match="log l: no leader within"):
            await log.catch_up(0.2)
        (entry,) = await log.read(0, 0)
        assert entry.value == "kept", "what is here is read"
        await log.promote(force=True, timeout=limit())
        await (await log.append("alone", partition=0)).applied()
        assert (await values(log))[-1] == "alone"


async def test_a_log_that_nobody_leads_has_no_partitions_yet(logs, monkeypatch) -> None:
    monkeypatch.setattr("endpoint.replicas.logs.part.PATIENCE_SECONDS", 0.2)
    async with logs.open(names=("a",)) as group:
        with pytest.raises(NoQuorum, match="no answer of b, c"):
            await group["a"].append(1)
        with pytest.raises(NoQuorum, match="no answer of b, c"):
            await group["a"].read(0, 0)


async def test_named_producers_times_batches_and_bad_places(logs) -> None:
    async with logs.open() as group:
        log = group["b"]
        receipt = await log.append_batch([1, 2, 3], partition=0, producer="sensor", sequence=9)
        assert (await receipt.applied()).offset == 0
        again = await group["c"].append_batch([1, 2], partition=0, producer="sensor", sequence=9)
        assert (await again.applied()).offset == 0
        assert again.is_repeated()
        await (await log.append_entries([("k", "v"), (None, 2)], partition=1)).applied()
        await log.catch_up(limit())
        entries = await log.read(1, 0)
        assert [(entry.key, entry.value) for entry in entries] == [("k", "v"), (None, 2)]
        assert await log.offset_at(1, entries[0].timestamp_ns) == 0
        assert await log.offset_at(1, entries[0].timestamp_ns + 1) == 2
        with pytest.raises(NoSuchPartition):
            await log.append(1, partition=2)
        with pytest.raises(NoSuchPartition):
            await log.read(7, 0)
        await (await log.trim(0, 2)).applied()
        assert await values(log) == [3]
        with pytest.raises(OffsetOutOfRange):
            await log.read(0, 0)
        async with log.consume(start=Start.LATEST) as consumer:
            with pytest.raises(TimeoutError):
                await consumer.get(0)


async def test_quota_and_retention_are_the_groups(logs, folder) -> None:
    async with logs.open(folder=folder) as group:
        leader = await group.await_leader()
        other = next(name for name in "abc" if name != leader)
        await group[other].set_retention(keep_count=5)
        await group[other].set_quota(max_entries=400)
        for number in range(300):
            await (await group[other].append(number, partition=0)).applied()
        await logs.until(lambda: group[other].statistics().spans[0].start == 295)
        await group[other].set_retention()
        await group[other].set_quota(max_entries=6)
        await group.stop(leader)
        await (await group[other].append("last", partition=0)).applied()
        refused = await group[other].append("more", partition=0)
        with pytest.raises(QuotaExceeded):
            await refused.applied()
        assert await values(group[other]) == [*range(295, 300), "last"]


async def test_a_log_has_a_keeper_or_a_group(logs, tmp_path) -> None:
    async with logs.open() as group:
        await group.await_leader()
        endpoint = group.lives["a"].endpoint
        assert "l" in endpoint.known_logs()
        assert "l" not in endpoint.known_stores()
        with pytest.raises(StoreError, match="in use at this endpoint"):
            await endpoint.attach_log_replica("l")
        with pytest.raises(MasterExists, match="kept by a replica group"):
            await endpoint.attach_log("l")
        with pytest.raises(NoSuchMaster, match="kept by a replica group"):
            await endpoint.attach_log_clone("l")
        with pytest.raises(StoreError, match="in use at this endpoint"):
            await endpoint.attach_log_proxy("l")
        async with endpoint.attach_log("kept") as kept:
            assert kept.is_keeper()
            other = group.lives["b"].endpoint
            await logs.until(lambda: "kept" in other.known_logs())
            with pytest.raises(MasterExists, match="has its keeper"):
                await other.attach_log_replica("kept", voters=tuple("abc"))
        store = await endpoint.attach_replica("l", voters=("a",))
        assert await store.await_leader(limit()) == "a", "a store may have the same name"


async def test_what_cannot_be_attached_is_refused(tmp_path) -> None:
    async with Endpoint(name="a") as endpoint:
        with pytest.raises(InvalidData, match="1 to 1024 partitions"):
            await endpoint.attach_log_replica("l", voters=("a",), partitions=5_000)
        with pytest.raises(BackendFailure, match="no option 'path'"):
            await endpoint.attach_log_replica("l", voters=("a",), path=tmp_path / "l.db")
        with pytest.raises(BackendFailure, match="no option 'colour'"):
            await endpoint.attach_log_replica(
                "l", voters=("a",), backend="sqlite", path=tmp_path / "l.db", colour="red"
            )
        path = tmp_path / "mine.db"
        async with endpoint.attach_log_replica(
            "l", voters=("a",), backend="sqlite", path=path
        ) as log:
            await (await log.append(1)).applied()
        with pytest.raises(StoreClosed):
            await log.append(2)
        with pytest.raises(BackendFailure, match="belongs to l, not to other"):
            await endpoint.attach_log_replica("other", voters=("a",), backend="sqlite", path=path)
        async with Endpoint(name="b") as stranger:
            with pytest.raises(BackendFailure, match="is the replica of a"):
                await stranger.attach_log_replica(
                    "l", voters=("a", "b"), backend="sqlite", path=path
                )


async def test_an_encrypted_log_comes_back_with_its_key_alone(tmp_path) -> None:
    key = {"keys": StorageKeys((StorageKey(b"k" * 32),))}
    options = {"voters": ("a",), "backend": "sqlite", "path": tmp_path / "l.db"}
    async with Endpoint(name="a") as endpoint:
        async with endpoint.attach_log_replica("l", **options, **key) as log:
            await (await log.append("secret words")).applied()
        assert b"secret words" not in (tmp_path / "l.db").read_bytes()
        with pytest.raises(BackendFailure):
            await endpoint.attach_log_replica("l", **options)
        async with endpoint.attach_log_replica("l", **options, **key) as log:
            assert await values(log) == ["secret words"]
