"""Logs at endpoints: every way to reach one does the same, across hops and restarts."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import trio
import trio.testing

from endpoint import Endpoint, StatusCode
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_handle import LogHandle
from endpoint.replicas.logs.log_reading import Start
from peermesh.testing.time_limits import limit
from stores.log.limits import APPEND_SIZE_MAX, PARTITIONS_MAX
from stores.log.partitions import Span
from stores.log.runs import Position, partition_of
from stores.sealing import StorageKey, StorageKeys
from tests.waiting import until
from wire.encoding import encode
from wire.errors import (
    BackendFailure,
    InvalidData,
    KeeperUnreachable,
    MasterExists,
    NoSuchMaster,
    NoSuchPartition,
    OffsetOutOfRange,
    PromotionRefused,
    RequestTimeout,
    SequenceUnknown,
    StoreClosed,
    StoreError,
)

PARTITIONS = 3


OptionsOf = Callable[[str], dict[str, Any]]
"""Gives where a log is: its backend, and the options for the file of a name."""


@asynccontextmanager
async def opened(
    kit, options_of: OptionsOf, way: str
) -> AsyncIterator[tuple[LogHandle, LogHandle]]:
    """Give the keeper's handle, and one that reaches it in some way, three hops apart."""
    async with kit.world() as world, AsyncExitStack() as stack:
        first, _, _, last = await world.grow(4, [(0, 1), (1, 2), (2, 3)])
        await world.known()
        attach = first.attach_log("log", partitions=PARTITIONS, **options_of("keeper"))
        keeper = await stack.enter_async_context(attach)
        if way == "keeper":
            yield keeper, keeper
        elif way == "proxy":
            yield keeper, await stack.enter_async_context(last.attach_log_proxy("log"))
        else:
            follow = last.attach_log_clone("log", **options_of("copy"))
            yield keeper, await stack.enter_async_context(follow)


@asynccontextmanager
async def elected(options_of: OptionsOf) -> AsyncIterator[tuple[LogHandle, LogHandle]]:
    """Give the leader's handle of a group of three, and that of a voter that does not lead."""
    names = ("a", "b", "c")
    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(Endpoint(name=name)) for name in names]
        ports = [await member.listen() for member in members]
        for number, member in enumerate(members):
            for port in ports[:number]:
                assert await member.peer("127.0.0.1", port, timeout=limit())
        logs = []
        for member, name in zip(members, names, strict=True):
            attach = member.attach_log_replica(
                "log", voters=names, partitions=PARTITIONS, **options_of(name)
            )
            logs.append(await stack.enter_async_context(attach))
        leader = await logs[0].await_leader(limit())
        at = names.index(leader)
        yield logs[at], logs[at - 1]


@pytest.fixture(params=["keeper", "follower", "proxy", "voter"])
def way(request):
    return request.param


@pytest.fixture(params=["memory", "sqlite", "sealed"])
def options_of(request, tmp_path) -> OptionsOf:
    def options(name: str) -> dict[str, Any]:
        if request.param == "memory":
            return {"backend": Backend.Memory}
        keys = StorageKeys((StorageKey(bytes(32)),)) if request.param == "sealed" else None
        return {"backend": Backend.SQLite, "path": tmp_path / f"{name}.db", "keys": keys}

    return options


@pytest.fixture
def open_log(kit, options_of, way):
    """Open a log in one of all ways."""
    return lambda: elected(options_of) if way == "voter" else opened(kit, options_of, way)


async def values(log: Log, partition: int = 0, offset: int = 0) -> list[object]:
    return [entry.value for entry in await log.read(partition, offset)]


# Conformance: whoever reads and writes, in whichever way, on whichever backend.


async def test_what_is_appended_is_read_in_order(open_log):
    async with open_log() as (_, log):
        receipts = [await log.append(number, partition=1) for number in range(20)]
        places = [await receipt.applied() for receipt in receipts]
        assert places == [Position(1, number) for number in range(20)]
        await log.await_idle(timeout=limit())
        assert await values(log, 1) == list(range(20))
        assert await values(log, 1, 15) == [15, 16, 17, 18, 19]
        assert [entry.offset for entry in await log.read(1, 3, limit=2)] == [3, 4]


async def test_batches_keys_and_bytes(open_log):
    async with open_log() as (_, log):
        receipt = await log.append_batch([b"\x00\xff", {"a": (1, None)}, "text"], key=("k", 1))
        place = await receipt.applied()
        assert place.partition == partition_of(encode(("k", 1)), PARTITIONS)
        await log.await_idle(timeout=limit())
        entries = await log.read(place.partition, place.offset)
        assert [entry.value for entry in entries] == [b"\x00\xff", {"a": (1, None)}, "text"]
        assert {entry.key for entry in entries} == {("k", 1)}


async def test_entries_without_a_key_take_turns(open_log):
    async with open_log() as (_, log):
        for number in range(2 * PARTITIONS):
            await log.append(number)
        assert await log.await_idle(timeout=limit())
        assert await log.offsets() == {number: Span(0, 2) for number in range(PARTITIONS)}


async def test_a_repeated_append_of_a_producer_is_one(open_log):
    async with open_log() as (keeper, log):
        first = await log.append("once", producer="p", sequence=5)
        again = await keeper.append("once", producer="p", sequence=5)
        assert await first.applied() == await again.applied()
        late = await log.append("late", producer="p", sequence=4)
        with pytest.raises(SequenceUnknown, match="after 5"):
            await late.applied()


async def test_a_read_waits_for_what_comes(open_log):
    async with open_log() as (keeper, log):
        found: list[object] = []

        async def wait() -> None:
            found.extend(await log.read(0, 0, timeout=math.inf))

        assert await log.read(0, 0, timeout=0.05) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await keeper.append("it", partition=0)
        assert [entry.value for entry in found] == ["it"]


async def test_a_consumer_goes_on_where_it_has_committed(open_log):
    async with open_log() as (keeper, log):
        for number in range(10):
            await keeper.append(number, partition=number % PARTITIONS)
        consumer = log.consume("name")
        taken = [(await consumer.get()).value for _ in range(4)]
        await (await consumer.commit()).applied()
        await log.await_idle(timeout=limit())
        assert await log.lag("name") == 6
        again = log.consume("name")
        taken += [(await again.get()).value for _ in range(6)]
        assert sorted(taken) == list(range(10))
        await (await log.forget_consumer("name")).applied()
        await log.await_idle(timeout=limit())
        assert await log.consumers() == {}
        assert await log.lag("name") == 10


async def test_what_no_log_can_have_is_refused_wherever_it_is_asked_for(open_log):
    async with open_log() as (_, log):
        await (await log.append("v", partition=0)).applied()
        with trio.fail_after(limit()):
            with pytest.raises(OffsetOutOfRange):
                await log.read(0, 2**52)
            with pytest.raises(OffsetOutOfRange):
                await log.runs({0: 2**62})
            with pytest.raises(NoSuchPartition):
                await log.read(5_000, 0)
            early = datetime(1969, 1, 1, tzinfo=UTC)
            assert await log.offsets_at(early) == dict.fromkeys(range(PARTITIONS), 0)
            consumer = log.consume("name", partitions=[5])
            for call in (consumer.get, consumer.positions):
                with pytest.raises(NoSuchPartition, match="no partition 5, but 3 from 0 on"):
                    await call()
            consumer = log.consume()
            assert (await consumer.get()).value == "v"
            with pytest.raises(NoSuchPartition, match="no partition 7"):
                consumer.seek(7, 0)
            early = log.consume()
            early.seek(7, 0)
            with pytest.raises(NoSuchPartition, match="no partition 7"):
                await early.get()
            assert (await early.get()).value == "v"
            for call in (log.commit("\ud800", {0: 0}), log.forget_consumer("\ud800")):
                with pytest.raises(InvalidData, match="a lone surrogate"):
                    await call
            await (await log.commit("name", {0: 1})).applied()


async def test_a_proxy_reads_no_other_partition_than_the_one_that_was_asked_for(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        keeper = await left.attach_log("log", partitions=PARTITIONS_MAX)
        await (await keeper.append("v", partition=PARTITIONS_MAX - 1)).applied()
        proxy = await right.attach_log_proxy("log")
        assert await values(proxy, PARTITIONS_MAX - 1) == ["v"]
        with pytest.raises(NoSuchPartition, match="no partition 1024: a log has 1024 at most"):
            await proxy.read(PARTITIONS_MAX, 0)


async def test_what_comes_between_two_lives_of_a_consumer_is_not_passed_over(open_log):
    async with open_log() as (keeper, log):
        consumer = log.consume("name", start=Start.LATEST)
        await (await consumer.commit()).applied()
        await (await keeper.append("meanwhile", partition=2)).applied()
        await log.await_idle(timeout=limit())
        assert (await log.consume("name", start=Start.LATEST).get()).value == "meanwhile"


async def test_a_consumer_that_is_closed_ends_what_waits_for_it(open_log):
    async with open_log() as (keeper, log), trio.open_nursery() as nursery:
        await log.partition_count()
        consumers = [log.consume(), log.consume("name")]
        ended = []

        async def iterate(consumer):
            async for entry in consumer:
                raise AssertionError(f"{entry} came after its consumer was closed")
            ended.append(consumer)

        for consumer in consumers:
            nursery.start_soon(iterate, consumer)
            await until(lambda consumer=consumer: consumer._fetching is not None)
            consumer.close()
        await until(lambda: len(ended) == 2)
        await (await keeper.append("later")).applied()
        for consumer in consumers:
            with pytest.raises(StoreClosed, match=r"a consumer of log .* was closed"):
                await consumer.get(timeout=limit())


async def test_tasks_that_read_one_consumer_wait_as_long_as_they_want_to(open_log):
    async with open_log() as (_, log), trio.open_nursery() as nursery:
        consumer, ended = log.consume(), []

        async def read():
            with pytest.raises(StoreClosed):
                await consumer.get()
            ended.append(consumer)

        nursery.start_soon(read)
        nursery.start_soon(read)
        await until(lambda: consumer._turn.statistics().tasks_waiting == 1)
        for seconds in (0, 0.01):
            with pytest.raises(RequestTimeout):
                await consumer.get(timeout=seconds)
        consumer.close()
        await until(lambda: len(ended) == 2)


async def test_a_consumer_of_no_partitions_gets_nothing(open_log):
    async with open_log() as (keeper, log):
        await (await keeper.append_batch(range(5), partition=0)).applied()
        consumer = log.consume("name", partitions=[])
        assert await consumer.get_batch(timeout=0.01) == []
        assert await consumer.positions() == {}


async def test_consumers_begin_where_they_are_told(open_log):
    async with open_log() as (keeper, log):
        await (await keeper.append_batch(range(5), partition=0)).applied()
        await log.await_idle(timeout=limit())
        late = log.consume(start=Start.LATEST)
        await late.positions()
        await keeper.append("new", partition=0)
        assert (await late.get()).value == "new"
        assert (await log.consume(start={0: 3}).get()).value == 3
        only = log.consume(partitions=[0])
        assert [entry.value for entry in await only.get_batch(2)] == [0, 1]
        only.seek(0, 4)
        assert (await only.get()).value == 4
        with pytest.raises(TimeoutError):
            await log.consume(partitions=[1]).get(timeout=0.01)


async def test_retention_names_what_is_lost(open_log):
    async with open_log() as (keeper, log):
        await (await keeper.append_batch(range(10), partition=0)).applied()
        await (await log.trim(0, 7)).applied()
        await log.await_idle(timeout=limit())
        with pytest.raises(OffsetOutOfRange, match="entries 2 to 6 are gone") as caught:
            await log.read(0, 2)
        lost = caught.value
        assert (lost.partition, lost.offset, lost.start) == (0, 2, 7)
        consumer = log.consume(start={0: 2}, partitions=[0])
        with pytest.raises(OffsetOutOfRange):
            await consumer.get()
        consumer.seek(0, lost.start)
        assert (await consumer.get()).value == 7


async def test_an_offset_behind_the_end_is_told_as_such(open_log):
    async with open_log() as (keeper, log):
        await (await keeper.append_batch(range(10), partition=0)).applied()
        await log.partition_count()
        with pytest.raises(OffsetOutOfRange, match="partition 0 goes on at offset 10") as caught:
            await log.read(0, 40)
        assert (caught.value.partition, caught.value.offset, caught.value.start) == (0, 40, 10)
        with pytest.raises(
            OffsetOutOfRange, match="no entry has had 10, or those from 10 on are lost"
        ):
            await log.runs({1: 0, 0: 11}, timeout=limit())
        with pytest.raises(OffsetOutOfRange):
            await log.consume(start={0: 12}, partitions=[0]).get(timeout=limit())
        assert await log.read(0, 10) == [], "the end is where the next one comes"


async def test_runs_of_several_partitions_come_with_one_question(open_log):
    async with open_log() as (keeper, log):
        for partition in (0, 1):
            await (await keeper.append_batch(range(10), "k", partition=partition)).applied()
            await (await keeper.append_batch(range(10, 15), partition=partition)).applied()
        await log.await_idle(timeout=limit())
        found = await log.runs({1: 3, 0: 0, 2: 0})
        assert [(run.partition, run.first_offset, run.end) for run in found] == [
            (1, 0, 10), (1, 10, 15), (0, 0, 10), (0, 10, 15),
        ]  # fmt: skip
        assert found[0].entries()[6:8] == (encode("k"), encode(3))
        assert all(run.timestamp_ns for run in found)
        assert [run.end for run in await log.runs({1: 10, 0: 12}, 1)] == [15], "one at least"
        assert await log.runs({0: 15, 1: 15}) == []
        await (await log.trim(0, 7)).applied()
        await log.await_idle(timeout=limit())
        with pytest.raises(OffsetOutOfRange, match="partition 0 begins at offset 7"):
            await log.runs({1: 0, 0: 2})


async def test_a_question_for_runs_waits_and_has_limits(open_log):
    async with open_log() as (keeper, log), trio.open_nursery() as nursery:
        found = []

        async def wait() -> None:
            found.extend(await log.runs({0: 0, 2: 0}, timeout=limit()))

        await log.partition_count()
        nursery.start_soon(wait)
        await (await keeper.append("late", partition=2)).applied()
        with trio.fail_after(limit()):
            await until(lambda: found)
        assert [(run.partition, run.count) for run in found] == [(2, 1)]
        with pytest.raises(NoSuchPartition):
            await log.runs({PARTITIONS: 0})
        for positions, size in (({}, 1), (dict.fromkeys(range(1_025), 0), 1), ({0: 0}, 2 << 20)):
            with pytest.raises(ValueError, match="cannot be used: it may be 1 to"):
                await log.runs(positions, size)
        with pytest.raises(TypeError, match="an offset for each partition"):
            await log.runs([0])


async def test_offsets_are_found_by_time(open_log):
    async with open_log() as (keeper, log):
        await (await keeper.append("first", partition=0)).applied()
        (first,) = await keeper.read(0, 0)
        await (await keeper.append("second", partition=0)).applied()
        await log.await_idle(timeout=limit())
        assert await log.offset_at(0, 0) == 0
        assert await log.offset_at(0, first.timestamp_ns + 1) == 1
        assert await log.offset_at(0, datetime(2200, 1, 1, tzinfo=UTC)) == 2


async def test_nonsense_is_refused(open_log):
    async with open_log() as (_, log):
        with pytest.raises(NoSuchPartition):
            await log.append(1, partition=PARTITIONS)
        with pytest.raises(NoSuchPartition):
            await log.read(PARTITIONS, 0)
        with pytest.raises(InvalidData):
            await log.append(1, producer="alone")
        with pytest.raises(InvalidData):
            await log.append_batch([])
        with pytest.raises(InvalidData):
            await log.consume().commit()
        beyond = await log.commit("consumer", {0: 5})
        with pytest.raises(InvalidData):
            await beyond.applied()


async def test_a_closed_log_says_so(open_log):
    async with open_log() as (_, log):
        await log.append("before", partition=0)
        consumer = log.consume()
        assert (await consumer.get()).value == "before"
        await log.close()
        with pytest.raises(StoreClosed):
            await log.append("after", partition=0)
        with pytest.raises(StoreClosed):
            await log.read(0, 0)
        assert [entry async for entry in consumer] == []


# Names, and where a log may be attached.


async def test_a_follower_that_ends_is_announced_no_more_on_any_topic():
    async with Endpoint() as endpoint:
        announcements = endpoint.loop.core.topology.announcements
        for end in (Log.close, fail):
            log = await endpoint.attach_log_clone("l")
            assert len(announcements[endpoint.node_id()].stores) == 2
            await end(log)
            assert announcements[endpoint.node_id()].stores == ()


async def fail(log: Log) -> None:
    log.runner.fail(RuntimeError("as a mistake would"))


async def test_a_log_has_one_keeper_and_an_endpoint_one_handle(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        async with left.attach_log("log"), right.attach_master("log"):
            await kit.until(lambda: right.loop.core.reach.find_store("log/<$>/log/keeper"))
            with pytest.raises(MasterExists, match="has its keeper at"):
                await right.attach_log("log")
            with pytest.raises(NoSuchMaster):
                await left.attach_log_proxy("log")
            async with right.attach_log_proxy("log"):
                with pytest.raises(StoreError, match="use that handle"):
                    await right.attach_log_clone("log")


async def test_partitions_stay_as_they_were(kit, tmp_path):
    async with kit.world() as world:
        endpoint = await world.add()
        path = tmp_path / "log.db"
        async with endpoint.attach_log("log", partitions=4, backend=Backend.SQLite, path=path):
            pass
        async with endpoint.attach_log("log", backend=Backend.SQLite, path=path) as log:
            assert await log.partition_count() == 4
        with pytest.raises(InvalidData, match=r"log log has 4 partitions, not 2, .*: give"):
            await endpoint.attach_log("log", partitions=2, backend=Backend.SQLite, path=path)
        for limit in (0, math.nan, math.inf, "1"):
            with pytest.raises(InvalidData, match="no limit"):
                await endpoint.attach_log("log", keep_seconds=limit)


async def test_retention_runs_by_itself(kit):
    async with kit.world() as world:
        endpoint = await world.add()
        async with endpoint.attach_log("log", keep_count=3) as log:
            await (await log.append_batch(range(10))).applied()
            await kit.until(lambda: log.part.core.machine.partitions[0].start == 7)
            assert await values(log, 0, 7) == [7, 8, 9]


# Collecting.


async def test_what_is_published_elsewhere_is_collected_with_its_topic(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        async with left.attach_log("log", ["news/"], partitions=PARTITIONS) as log:
            await world.known()
            for number in range(50):
                await right.publish(f"news/{number % 5}", number)
            await right.publish("other", "not this")
            consumer = log.consume()
            entries = [await consumer.get() for _ in range(50)]
            by_topic = {entry.key: [] for entry in entries}
            for entry in entries:
                by_topic[entry.key].append(entry.value)
            assert by_topic == {f"news/{n}": list(range(n, 50, 5)) for n in range(5)}


async def test_what_no_log_can_hold_is_passed_over_and_the_rest_collected(kit, caplog):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        async with left.attach_log("log", ["news/"]) as log:
            await world.known()
            await right.publish("news/large", bytes(APPEND_SIZE_MAX))
            await right.publish("news/small", "after it")
            entry = await log.consume().get(timeout=limit())
            assert (entry.key, entry.value) == ("news/small", "after it")
            assert "a message on 'news/large' is not collected" in caplog.text


# Keepers that go, and come back.


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_a_keeper_that_is_refused_lets_nothing_go(kit, tmp_path, backend):
    is_kept = backend == "sqlite"
    options = {"path": tmp_path / "log.db"} if is_kept else {}
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        async with right.attach_log_clone("log") as follower:
            keeper = await left.attach_log("log", partitions=2, backend=backend, **options)
            await (await keeper.append_batch(range(50), partition=0)).applied()
            assert await follower.await_idle(limit())
            await keeper.close()
            for _ in range(3):
                with pytest.raises(InvalidData, match="has 2 partitions, not 3"):
                    await left.attach_log(
                        "log", partitions=3, backend=backend, keep_count=1, **options
                    )
            async with left.attach_log("log", backend=backend, **options) as keeper:
                assert await values(keeper) == list(range(50))


async def test_what_waits_at_a_copy_goes_on_in_a_log_that_begins_anew(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        async with right.attach_log_clone("log") as follower, trio.open_nursery() as nursery:
            keeper = await left.attach_log("log")
            assert await follower.await_idle(limit())
            found = []

            async def read():
                found.extend(await follower.read(0, 0, timeout=limit()))

            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await keeper.close()
            async with left.attach_log("log", fresh=True) as keeper:
                await (await keeper.append("fresh")).applied()
                await until(lambda: found)
        assert [entry.value for entry in found] == ["fresh"]


async def test_without_a_keeper_everything_fails_when_patience_is_over(kit):
    async with kit.world() as world:
        endpoint = await world.add()
        async with endpoint.attach_log_proxy("log", patience=0.2) as log:
            with pytest.raises(KeeperUnreachable, match="attach_log"):
                await log.append("value")
            with pytest.raises(KeeperUnreachable):
                await log.read(0, 0)


async def test_a_restarted_keeper_is_found_and_nothing_is_lost_or_doubled(kit, tmp_path):
    path = tmp_path / "log.db"
    async with kit.world() as world:
        left, right, third = await world.grow(3, [(0, 1), (1, 2)])
        await world.known()
        async with right.attach_log_clone("log") as follower, third.attach_log_proxy("log") as log:
            receipts = []
            for life in range(3):
                keeper = await left.attach_log("log", backend=Backend.SQLite, path=path)
                receipts += [await log.append((life, number)) for number in range(20)]
                await receipts[-20].applied()
                await keeper.close()
            async with left.attach_log("log", backend=Backend.SQLite, path=path):
                places = [await receipt.applied() for receipt in receipts]
                assert [place.offset for place in places] == list(range(60))
                assert await follower.await_idle(timeout=limit())
                expected = [(life, number) for life in range(3) for number in range(20)]
                assert await values(follower) == expected
                assert await values(log) == expected


async def test_a_restarted_follower_has_its_copy_at_once(kit, tmp_path):
    path = tmp_path / "copy.db"
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        async with left.attach_log("log") as keeper:
            follower = await right.attach_log_clone("log", Backend.SQLite, path=path)
            await keeper.append_batch(range(10))
            assert await follower.await_idle(timeout=limit())
            await follower.close()
        async with right.attach_log_clone("log", Backend.SQLite, path=path) as again:
            assert await values(again) == list(range(10))


async def test_the_file_of_a_copy_takes_over(kit, tmp_path):
    path = tmp_path / "copy.db"
    async with kit.world() as world:
        left, right, third = await world.grow(3, [(0, 1), (1, 2)])
        await world.known()
        async with third.attach_log_clone("log") as follower, AsyncExitStack() as stack:
            async with left.attach_log("log", partitions=2) as keeper:
                copy = await right.attach_log_clone("log", Backend.SQLite, path=path)
                await (await keeper.append_batch(range(5), partition=1)).applied()
                assert await copy.await_idle(timeout=limit())
                assert await follower.await_idle(timeout=limit())
                await copy.close()
            await kit.until(lambda: not right.loop.core.reach.find_store("log/<$>/log/keeper"))
            with pytest.raises(BackendFailure, match="promote that"):
                await right.attach_log("log", backend=Backend.SQLite, path=path)
            attach = right.attach_log_clone("log", Backend.SQLite, path=path)
            keeper = await stack.enter_async_context(attach)
            with pytest.raises(PromotionRefused, match="not level"):
                await keeper.promote()
            assert (await keeper.promote(force=True)).ends == (0, 5)
            with watched_snapshots(follower) as taken:
                await (await keeper.append("after", partition=1)).applied()
                assert await follower.await_idle(timeout=limit())
            assert taken == [], "its copy was right, and nothing is copied again"
            assert await values(follower, 1) == [0, 1, 2, 3, 4, "after"]


@contextmanager
def watched_snapshots(follower: Log) -> Iterator[list[object]]:
    """Give what the follower takes as a whole, in the place of what it had."""
    machine = follower.part.core.machine
    install, taken = machine.install, list[object]()
    machine.install = lambda parts: (taken.append(parts), install(parts))
    yield taken
    machine.install = install


async def test_large_batches_pass_everywhere(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        async with left.attach_log("log", partitions=2) as keeper, AsyncExitStack() as stack:
            log = await stack.enter_async_context(right.attach_log_clone("log"))
            small, large = b"y" * 262_124, b"x" * 16_515_000
            await keeper.append(small, partition=0)
            await keeper.append(small, partition=1)
            await keeper.append(large, partition=1)  # both together fit in no message
            await (await keeper.trim(1, 1)).applied()
            with pytest.raises(InvalidData, match="an append takes"):
                await keeper.append_batch([large, b"x" * 100])
            assert await log.await_idle(timeout=limit())
            await log.close()
            proxy = await stack.enter_async_context(right.attach_log_proxy("log"))
            consumer = proxy.consume()
            sizes = {len((await consumer.get()).value) for _ in range(2)}
            assert sizes == {262_124, 16_515_000}


async def test_a_slow_consumer_holds_up_nobody(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        async with left.attach_log("log") as keeper, right.attach_log_proxy("log") as log:
            slow = log.consume("slow")
            await keeper.append(0)
            assert (await slow.get()).value == 0
            for start in range(1, 20_001, 1_000):
                await (await keeper.append_batch(range(start, start + 1_000))).applied()
            fast = log.consume("fast")
            count = 0
            while count < 20_001:
                count += len(await fast.get_batch())
            rest = [(await slow.get()).value for _ in range(20_000)]
            assert rest == list(range(1, 20_001))


async def test_two_keepers_that_meet_keep_what_each_has_and_tell(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [])
        one, other = await left.attach_log("log"), await right.attach_log("log")
        await (await one.append("one")).applied()
        await (await other.append("other")).applied()
        with left.subscribe_status() as status, right.subscribe_status() as elsewhere:
            await world.peer(left, right)
            await kit.events_until(status, StatusCode.STORE_CONFLICT)
            await kit.events_until(elsewhere, StatusCode.STORE_CONFLICT)
        assert await (await one.append("more")).applied() == Position(0, 1)
        assert await values(one) == ["one", "more"]
        assert await values(other) == ["other"]


async def test_a_keeper_that_has_nothing_gives_way_to_one_that_has_something(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [])
        empty, other = await left.attach_log("log"), await right.attach_log("log", partitions=2)
        await (await other.append("kept", partition=1)).applied()
        await world.peer(left, right)
        await kit.until(lambda: empty.runner.error is not None)
        with pytest.raises(MasterExists, match="has a master that lives"):
            await empty.append("lost")
        await empty.close()
        async with left.attach_log_proxy("log") as proxy:
            assert await values(proxy, 1) == ["kept"]


async def test_a_keeper_in_memory_that_starts_again_goes_on_with_what_followers_have(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        keeper = await left.attach_log("log", partitions=2)
        follower = await right.attach_log_clone("log")
        first = await keeper.append("first", partition=1, producer="till", sequence=1)
        await first.applied()
        assert await follower.await_idle(timeout=limit())
        await keeper.close()
        with pytest.raises(InvalidData, match="has 2 partitions, not 3"):
            await left.attach_log("log", partitions=3)
        async with left.attach_log("log") as again:
            assert await again.partition_count() == 2
            repeated = await again.append("first", partition=1, producer="till", sequence=1)
            assert (await repeated.applied()).offset == 0
            assert repeated.is_repeated()
            assert (await (await follower.append("more", partition=1)).applied()).offset == 1
            assert await values(again, 1) == await values(follower, 1) == ["first", "more"]


async def test_a_keeper_that_begins_anew_has_followers_drop_what_they_have(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        keeper = await left.attach_log("log")
        follower = await right.attach_log_clone("log")
        await (await keeper.append("before")).applied()
        assert await follower.await_idle(timeout=limit())
        await keeper.close()
        async with left.attach_log("log", fresh=True) as anew:
            await (await anew.append("anew")).applied()
            await kit.until(lambda: follower.runner.is_in_touch)
            assert await follower.await_idle(timeout=limit())
            assert await values(follower) == ["anew"]


async def test_what_a_keepers_disk_cannot_give_is_told_to_readers_elsewhere(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        await world.known()
        async with left.attach_log("log") as keeper, right.attach_log_proxy("log") as log:
            await (await keeper.append("it")).applied()
            gather = keeper.part.source.gather

            async def fail(*arguments: object, **keywords: object) -> None:
                raise BackendFailure("partition 0, offset 0 is damaged")

            keeper.part.source.gather = fail
            with pytest.raises(BackendFailure, match="offset 0 is damaged"):
                await log.read(0, 0)
            keeper.part.source.gather = gather
            assert await values(log) == ["it"]


async def test_no_copies_are_counted_and_the_way_to_have_them_is_named(kit):
    async with kit.world() as world:
        endpoint = await world.add()
        with pytest.raises(InvalidData, match=r"attach_log_replica.*voters"):
            await endpoint.attach_log("log", replicas=1)
        async with endpoint.attach_log_clone("log") as follower:
            with pytest.raises(InvalidData, match=r"attach_log_replica.*voters"):
                await follower.promote(replicas=1)


async def test_a_file_is_a_keepers_or_a_followers(kit, tmp_path):
    path = tmp_path / "log.db"
    async with kit.world() as world:
        endpoint = await world.add()
        async with endpoint.attach_log("log", backend=Backend.SQLite, path=path) as log:
            await (await log.append("it")).applied()
        with pytest.raises(BackendFailure, match="attach it with attach_log, or give"):
            await endpoint.attach_log_clone("log", Backend.SQLite, path=path)
        async with endpoint.attach_log("log", backend=Backend.SQLite, path=path) as log:
            assert await values(log) == ["it"]
