"""What retention lets go of a partition: by count exactly, by age and bytes in blocks, in steps."""

from __future__ import annotations

import pytest

from stores.limits import COUNT_END
from stores.log.limits import BLOCK_COUNT_MAX, BLOCK_SPAN_NS
from stores.log.partitions import Partition, Partitions, Retention, RunInfo, Span, lag
from wire.errors import InvalidData, NoSuchPartition


def filled(count: int, size: int, span_ns: int) -> Partition:
    """Give a partition of runs of two entries each."""
    partition = Partition()
    for number in range(count):
        partition.extend(RunInfo(2 * number, 2, number * span_ns, size))
    return partition


def test_retention_by_bytes_keeps_what_it_promises() -> None:
    partition = filled(30, 20_000, 1)
    start, _ = partition.due(Retention(size=100_000), 0, 1_000)
    kept = (partition.end - start) // 2
    assert 5 <= kept <= 9


@pytest.mark.parametrize(
    "retention", [{"age_ns": 1}, {"size": 15}, {"count": 3}, {"age_ns": 30 * BLOCK_SPAN_NS}]
)
def test_steps_of_retention_end_where_one_would_have_ended(retention: dict[str, int]) -> None:
    def new() -> Partition:
        return filled(40, 10, 2 * BLOCK_SPAN_NS)

    whole, block_count = new().due(Retention(**retention), 70 * BLOCK_SPAN_NS, 1_000)
    assert block_count > 15
    partition, before = new(), -1
    while before != partition.start:
        before = partition.start
        start, block_count = partition.due(Retention(**retention), 70 * BLOCK_SPAN_NS, 3)
        assert block_count <= 3
        partition.trim(start)
    assert partition.start == whole


def test_retention_that_is_long_overdue_goes_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.log.partitions.RETAINED_BLOCKS_MAX", 4)
    partitions = Partitions([filled(13, 10, 2 * BLOCK_SPAN_NS) for _ in range(2)])
    retention, steps, has_more = Retention(age_ns=1), 0, True
    while has_more:
        before = sum(partitions.starts())
        starts, has_more = partitions.due(retention, 99 * BLOCK_SPAN_NS)
        for number, start in starts:
            partitions[number].trim(start)
        steps += 1
        assert sum(partitions.starts()) - before <= 8, "four blocks of two entries"
    assert partitions.starts() == partitions.ends()
    assert steps > 6


def test_a_count_is_exact_within_a_block() -> None:
    partition = filled(BLOCK_COUNT_MAX // 4, 1, 0)
    assert partition.due(Retention(count=7), 0, 9) == (partition.end - 7, 0)


FAR_NS = 1 << 62


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks of four entries, ten bytes and five nanoseconds."""
    for name, limit in (("COUNT_MAX", 4), ("SIZE_MAX", 10), ("SPAN_NS", 5)):
        monkeypatch.setattr(f"stores.log.partitions.BLOCK_{name}", limit)


def partition_of(*runs: tuple[int, int, int], start: int = 0) -> Partition:
    """Give a partition that begins somewhere, with runs of so many entries, times and bytes."""
    partition = Partition()
    partition.clear(start)
    for count, timestamp_ns, size in runs:
        partition.extend(RunInfo(partition.end, count, timestamp_ns, size))
    return partition


def blocks_of(partition: Partition) -> list[int]:
    """Give the offsets at which its blocks end: by age they go one by one."""
    _, count = partition.due(Retention(age_ns=1), FAR_NS, 1_000)
    return [partition.due(Retention(age_ns=1), FAR_NS, n)[0] for n in range(1, count + 1)]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("runs", "ends"),
    [
        ([(2, 50, 1), (2, 50, 1), (1, 50, 1), (3, 50, 1), (1, 50, 1)], [104, 108, 109]),
        ([(1, 50, 6), (1, 50, 4), (1, 50, 6), (1, 50, 5)], [102, 103, 104]),
        ([(1, 50, 1), (1, 52, 1), (1, 55, 1), (1, 56, 1), (1, 61, 1), (1, 62, 1)], [103, 105, 106]),
        ([(9, 50, 99), (1, 50, 1)], [109, 110]),
    ],
    ids=["entries", "bytes", "time", "a run is never parted"],
)
def test_a_block_takes_runs_up_to_each_of_its_limits(
    runs: list[tuple[int, int, int]], ends: list[int]
) -> None:
    assert blocks_of(partition_of(*runs, start=100)) == ends


@pytest.mark.usefixtures("small_blocks")
def test_bytes_go_with_the_whole_block_and_offsets_as_they_are_asked_for() -> None:
    partition = partition_of((4, 50, 5), (2, 51, 3), (2, 52, 4), (1, 53, 1), start=100)
    assert (partition.span, partition.size) == (Span(100, 109), 13)
    for start, span, size in [
        (103, Span(103, 109), 13),
        (101, Span(103, 109), 13),
        (104, Span(104, 109), 8),
        (107, Span(107, 109), 8),
        (999, Span(109, 109), 0),
    ]:
        partition.trim(start)
        assert (partition.span, partition.size) == (span, size)
    partition.extend(RunInfo(109, 1, 60, 2))
    partition.clear(7)
    assert (partition.span, partition.size, blocks_of(partition)) == (Span(7, 7), 0, [])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("retention", "now_ns", "due"),
    [
        (Retention(), FAR_NS, (100, 0)),
        (Retention(age_ns=10), 60, (100, 0)),
        (Retention(age_ns=10), 61, (104, 1)),
        (Retention(age_ns=10), 77, (108, 2)),
        (Retention(age_ns=10), FAR_NS, (110, 3)),
        (Retention(size=12), 0, (100, 0)),
        (Retention(size=11), 0, (104, 1)),
        (Retention(size=6), 0, (104, 1)),
        (Retention(size=5), 0, (108, 2)),
        (Retention(size=1), 0, (108, 2)),
        (Retention(count=11), 0, (100, 0)),
        (Retention(count=7), 0, (103, 0)),
        (Retention(count=6), 0, (104, 1)),
        (Retention(count=1), 0, (109, 2)),
        (Retention(age_ns=10, count=1), 61, (109, 2)),
        (Retention(age_ns=10, count=9), 61, (104, 1)),
        (Retention(age_ns=10, size=5), 0, (108, 2)),
    ],
)
def test_what_is_beyond_any_limit_goes_and_no_more(
    retention: Retention, now_ns: int, due: tuple[int, int]
) -> None:
    partition = partition_of((3, 50, 2), (1, 50, 3), (4, 66, 6), (2, 90, 5), start=100)
    assert blocks_of(partition) == [104, 108, 110]
    assert partition.due(retention, now_ns, 9) == due


def test_a_limit_of_retention_keeps_one_at_least() -> None:
    Retention(1, 1, 1)
    Retention(COUNT_END - 1, COUNT_END - 1, COUNT_END - 1)
    beyond = ({"age_ns": COUNT_END}, {"count": COUNT_END}, {"size": COUNT_END})
    for limits in ({"age_ns": 0}, {"count": -1}, {"size": 0}, *beyond):
        with pytest.raises(InvalidData, match="a limit of retention is positive"):
            Retention(**limits)


def test_a_look_at_all_partitions_lets_go_as_many_blocks_as_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stores.log.partitions.RETAINED_BLOCKS_MAX", 5)
    partitions = Partitions([filled(count, 10, 2 * BLOCK_SPAN_NS) for count in (0, 2, 2, 9)])
    assert partitions.due(Retention(age_ns=1), FAR_NS) == ([(1, 4), (2, 4), (3, 2)], True)
    partitions = Partitions([filled(4, 10, 2 * BLOCK_SPAN_NS)])
    assert partitions.due(Retention(age_ns=1), FAR_NS) == ([(0, 8)], False)
    assert partitions.due(Retention(), FAR_NS) == ([], False)


def test_partitions_tell_where_each_begins_and_ends_and_what_is_in_them() -> None:
    partitions = Partitions([partition_of((3, 1, 20), start=5), partition_of((2, 1, 9))])
    partitions[0].trim(6)
    assert len(partitions) == 2
    assert (partitions.starts(), partitions.ends()) == ((6, 0), (8, 2))
    assert partitions.spans() == (Span(6, 8), Span(0, 2))
    assert partitions.used() == (4, 29)
    assert partitions.used([0]) == (2, 20)
    assert partitions.used([]) == (0, 0)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_partition_that_a_log_does_not_have_is_named(number: int) -> None:
    partitions = Partitions(())
    partitions.begin(2)
    assert partitions.spans() == (Span(0, 0), Span(0, 0))
    with pytest.raises(
        NoSuchPartition, match=f"there is no partition {number}: this log has 0 to 1"
    ):
        _ = partitions[number]
    with pytest.raises(AssertionError, match="begins once"):
        partitions.begin(2)


def test_a_consumer_lags_by_what_it_has_not_committed_and_can_read() -> None:
    spans = [Span(0, 10), Span(4, 9), Span(4, 9), Span(4, 9), Span(0, 3)]
    assert lag([], spans) == 10 + 5 + 5 + 5 + 3
    assert lag([(0, 7), (1, 2), (2, 6), (3, 12)], spans) == 3 + 5 + 3 + 0 + 3
