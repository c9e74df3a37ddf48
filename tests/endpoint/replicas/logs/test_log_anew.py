"""Another log begins under the name of one that is gone: its readers are told, and skip nothing."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log import Log
from endpoint.replicas.logs.log_consumer import LogConsumer
from endpoint.replicas.logs.log_reading import Batch, Extent, is_of_another
from peermesh.testing.time_limits import limit
from stores.group.positions import Position
from stores.log.bookmarks import LogBookmark
from stores.log.kept_runs import KeptRun
from stores.log.messages import Positions
from stores.log.partitions import Span
from stores.log.runs import OpenRun
from tests.waiting import until
from wire.encoding import encode
from wire.errors import NoSuchPartition, OffsetOutOfRange, RequestTimeout, StoreConflict

CASES = {
    "a keeper in memory restarts": (dict[str, object], dict[str, object]),
    "a keeper in memory begins anew": (dict[str, object], lambda: {"fresh": True}),
    "a keeper has an empty file": (lambda: {"path": "one.db"}, lambda: {"path": "other.db"}),
}


@asynccontextmanager
async def reader_of(way: str, keeping: Endpoint) -> AsyncIterator[Log]:
    """Give the handle of an endpoint that reads the keeper's log."""
    async with Endpoint() as reading:
        assert await keeping.peer("127.0.0.1", await reading.listen(), timeout=limit())
        attach = reading.attach_log_proxy if way == "proxy" else reading.attach_log_clone
        async with attach("log") as log:
            yield log


async def append(keeper: Log, values: Sequence[object]) -> None:
    receipts = [await keeper.append(value) for value in values]
    for receipt in receipts:
        await receipt.applied()


@pytest.mark.parametrize("way", ["proxy", "follower"])
@pytest.mark.parametrize("case", CASES)
async def test_a_consumer_is_told_that_the_log_began_anew(case, way, tmp_path):
    if way == "follower" and case != "a keeper in memory begins anew":
        return  # The keeper goes on with what its follower has.
    first, second = (options() for options in CASES[case])
    for options in (first, second):
        if "path" in options:
            options |= {"backend": Backend.SQLite, "path": tmp_path / options["path"]}
    async with Endpoint() as keeping, reader_of(way, keeping) as log:
        keeper = await keeping.attach_log("log", **first)
        await append(keeper, ["old0", "old1", "old2"])
        consumer = log.consume("bill")
        assert [(await consumer.get(limit())).value for _ in range(3)] == ["old0", "old1", "old2"]
        await (await consumer.commit()).applied()
        lost = []

        async def wait() -> None:
            with pytest.raises(OffsetOutOfRange, match="another log began") as caught:
                await consumer.get(limit())
            lost.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await keeper.close()
            keeper = await keeping.attach_log("log", **second)
            await append(keeper, [f"new{number}" for number in range(5)])
        (error,) = lost
        assert (error.partition, error.offset, error.start) == (0, 3, 0)
        assert error.is_another_log
        with pytest.raises(OffsetOutOfRange, match="another log began"):
            await consumer.get(limit())
        with pytest.raises(OffsetOutOfRange, match="another log began"):
            await consumer.commit()
        assert await log.committed("bill") == {}, "nothing is passed over for good"
        again = log.consume("bill")
        consumer.seek(error.partition, error.start)
        for each in (consumer, again):
            found = [(await each.get(limit())).value for _ in range(5)]
            assert found == [f"new{number}" for number in range(5)]
        if way == "proxy":  # The handle of a copy that was dropped is not known at once.
            await (await consumer.commit()).applied()
            assert await keeper.committed("bill") == {0: 5}
        await keeper.close()


@pytest.mark.parametrize("values", [["old"], []], ids=["with entries", "with none"])
async def test_a_follower_with_a_file_ends_and_keeps_it_where_another_log_begins(values, tmp_path):
    file = {"backend": Backend.SQLite, "path": tmp_path / "log.db"}
    async with Endpoint() as keeping, Endpoint() as copying:
        assert await keeping.peer("127.0.0.1", await copying.listen(), timeout=limit())
        keeper = await keeping.attach_log("log")
        log = await copying.attach_log_clone("log", **file)
        await append(keeper, values)
        assert await log.await_idle(limit())
        await keeper.close()
        keeper = await keeping.attach_log("log", fresh=True)
        await until(lambda: log.part.runner.error)
        with pytest.raises(StoreConflict, match="move it and its ballot away"):
            await log.read(0, 0)
        await log.close()
        again = await copying.attach_log_clone("log", **file)
        await until(lambda: again.part.runner.error)
        with pytest.raises(StoreConflict, match="move it and its ballot away"):
            await again.read(0, 0)
        await keeper.close()
    async with Endpoint() as alone:
        log = await alone.attach_log_clone("log", **file)
        assert log.statistics().entries == len(values), "nothing of it was dropped"


@pytest.mark.parametrize("way", ["proxy", "follower"])
async def test_runs_after_a_bookmark_are_of_the_log_that_it_is_of(way):
    async with Endpoint() as keeping, reader_of(way, keeping) as log:
        keeper = await keeping.attach_log("log", partitions=2)
        await append(keeper, ["old0", "old1", "old2"])
        spans, mark = await log.marked_offsets()
        assert spans == await keeper.offsets()
        ends = {number: span.end for number, span in spans.items()}
        await append(keeper, ["old3", "old4"])
        assert len(await log.runs(ends, after=mark)) == 2
        await keeper.close()
        keeper = await keeping.attach_log("log", fresh=True)
        await append(keeper, [f"new{number}" for number in range(5)])
        with pytest.raises(OffsetOutOfRange, match="another log began") as caught:
            await log.runs({0: 2}, timeout=limit(), after=mark)
        assert caught.value.is_another_log
        assert (caught.value.partition, caught.value.offset, caught.value.start) == (0, 2, 0)
        with pytest.raises(NoSuchPartition):
            await log.runs({1: 2}, after=mark)
        assert (await log.marked_offsets())[1].group != mark.group
        await keeper.close()


# What a consumer makes of it, with a source that is the test's.


class Several:
    """A source of several logs, one after the other."""

    name = "log"

    def __init__(self, group: bytes, *spans: Span) -> None:
        self.begin(group, *spans)
        self.committed: list[Mapping[int, int]] = []
        self.asked: list[Sequence[LogBookmark]] = []

    def begin(self, group: bytes, *spans: Span) -> None:
        self.group: bytes | None = group
        self.spans = spans

    @property
    def known_count(self) -> int:
        return len(self.spans)

    async def partition_count(self) -> int:
        return len(self.spans)

    async def fetch(
        self, positions: Positions, size_max: int, seconds: float, seen: Sequence[LogBookmark] = ()
    ) -> Batch:
        self.asked.append(seen)
        if is_of_another(seen, self.group):
            return Batch((), (), self.group)
        runs = []
        for partition, offset in positions:
            if offset < self.spans[partition].end:
                run = OpenRun(partition, offset, 0)
                run.flat.extend([None, encode((self.group, partition, offset))])
                runs.append(KeptRun.of(run.seal(), Position(1, offset + 1), 0))
        starts = [max(offset, self.spans[partition].start) for partition, offset in positions]
        return Batch(runs, starts, self.group)

    async def state(self) -> Extent:
        return Extent(self.spans, (), LogBookmark(self.group))

    async def offsets_at(self, timestamp_ns: int) -> tuple[int, ...]:
        raise NotImplementedError

    async def commit(self, name: str, positions: Mapping[int, int]) -> object:
        self.committed.append(dict(positions))
        return None

    def consumer(self, start: Mapping[int, int], *partitions: int) -> LogConsumer:
        return LogConsumer(self, self.commit, "c", start, partitions or None)


async def lost(consumer: LogConsumer) -> tuple[int, int, int]:
    with pytest.raises(OffsetOutOfRange, match="another log") as caught:
        await consumer.get(0)
    return caught.value.partition, caught.value.offset, caught.value.start


async def rest(consumer: LogConsumer, count: int) -> list[object]:
    found = [(await consumer.get(0)).value for _ in range(count)]
    with pytest.raises(RequestTimeout):
        await consumer.get(0)
    return sorted(found)


async def test_each_partition_is_told_once_and_those_at_their_start_miss_nothing():
    source = Several(b"1", *[Span(0, 3)] * 3)
    consumer = source.consumer({0: 2, 1: 3, 2: 0}, 0, 1, 2)
    await consumer.positions()
    source.begin(b"2", Span(0, 1), Span(7, 8), Span(0, 1))
    assert {await lost(consumer) for _ in range(4)} == {(0, 2, 0), (1, 3, 7)}
    consumer.seek(0, 0)
    assert await lost(consumer) == await lost(consumer) == (1, 3, 7)
    consumer.seek(1, 7)
    assert await rest(consumer, 3) == [(b"2", 0, 0), (b"2", 1, 7), (b"2", 2, 0)]
    source.begin(b"3", Span(0, 1), Span(0, 1), Span(0, 1))
    assert {(await lost(consumer))[0]} <= {0, 1, 2}, "what was sought is of the log that was read"


async def test_the_journal_of_a_log_that_is_gone_says_nothing_of_the_next_one():
    source = Several(b"1", Span(0, 1))
    consumer = source.consumer({})
    await consumer.get(0)
    source.begin(b"2", Span(0, 3))
    await lost(consumer)
    consumer.seek(0, 0)
    await consumer.get(0)
    await consumer.get(0)
    assert source.asked[1:] == [
        [LogBookmark(b"1", Position(1, 1))], [LogBookmark()], [LogBookmark(b"2", Position(1, 1))],
    ]  # fmt: skip


async def test_a_log_with_other_partitions_is_read_whole():
    source = Several(b"1", Span(0, 1), Span(0, 1))
    consumer = source.consumer({})
    assert await rest(consumer, 2) == [(b"1", 0, 0), (b"1", 1, 0)]
    source.begin(b"2", Span(0, 1), Span(0, 1), Span(4, 5))
    for _ in range(2):
        partition, *offsets = await lost(consumer)
        assert offsets == [1, 0]
        consumer.seek(partition, 0)
    assert await rest(consumer, 3) == [(b"2", 0, 0), (b"2", 1, 0), (b"2", 2, 4)]
    consumer.seek(2, 4)
    source.begin(b"3", Span(0, 1))
    assert await lost(consumer) == (0, 1, 0)
    consumer.seek(0, 0)
    assert await rest(consumer, 1) == [(b"3", 0, 0)]
    assert await consumer.positions() == {0: 1}


async def test_a_consumer_of_partitions_that_are_gone_is_told_so():
    source = Several(b"1", Span(0, 1), Span(0, 1))
    consumer = source.consumer({}, 1)
    assert await rest(consumer, 1) == [(b"1", 1, 0)]
    source.begin(b"2", Span(0, 1))
    with pytest.raises(NoSuchPartition, match="no partition 1, but 1 from 0 on"):
        await consumer.get(0)


async def test_nothing_is_committed_of_a_log_that_is_gone():
    source = Several(b"1", Span(0, 2))
    consumer = source.consumer({})
    await consumer.commit()
    await consumer.get(0)
    await consumer.commit()
    assert source.committed == [{0: 0}, {0: 1}]
    source.begin(b"2", Span(0, 9))
    with pytest.raises(OffsetOutOfRange, match="another log"):
        await consumer.commit()
    source.group = b"1"
    await consumer.commit()
    assert source.committed == [{0: 0}, {0: 1}, {0: 1}], "it was not another one"


async def test_what_begins_anew_before_anything_was_read_is_read_whole():
    source = Several(b"1", Span(0, 0))
    consumer = source.consumer({})
    assert await consumer.get_batch(9, 0) == []
    source.begin(b"2", Span(0, 1))
    assert await rest(consumer, 1) == [(b"2", 0, 0)]


def test_the_error_keeps_what_it_says_where_it_is_pickled():
    error = OffsetOutOfRange(1, 5, 0, is_another_log=True)
    assert "up to offset 4 was of one that is gone; read on from 0" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.is_another_log) == (str(error), True)
