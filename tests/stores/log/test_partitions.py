"""What retention lets go of a partition: by count exactly, by age and bytes in blocks, in steps."""

from __future__ import annotations

import pytest

from stores.log.limits import BLOCK_COUNT_MAX, BLOCK_SPAN_NS
from stores.log.partitions import Partition, Partitions, Retention, RunInfo


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
