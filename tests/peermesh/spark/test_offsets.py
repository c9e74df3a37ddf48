"""How far a batch goes, and what is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from peermesh.spark.offsets import (
    GONE,
    Piece,
    Point,
    Range,
    advance,
    at_most,
    complete,
    cut,
    explain_losses,
    from_json,
    losses,
    ranges,
    rows_of,
    skip,
    take,
    task_count,
    to_json,
)
from stores.group.positions import Position
from stores.log.bookmarks import LogBookmark
from stores.log.partitions import Span
from stores.log.runs import Run
from wire.errors import InvalidData

OFFSETS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5)


def test_without_a_limit_a_batch_goes_to_the_ends():
    assert advance({0: 3}, {0: 9, 1: 4}, None) == {0: 9, 1: 4}


@given(OFFSETS, st.integers(1, 60))
def test_a_batch_takes_what_it_may_and_no_more(pairs, rows_max):
    start = {number: begin for number, (begin, _) in enumerate(pairs)}
    ends = {number: begin + more for number, (begin, more) in enumerate(pairs)}
    reached = advance(start, ends, rows_max)
    assert all(start[number] <= reached[number] <= ends[number] for number in ends)
    taken = sum(reached[number] - start[number] for number in ends)
    assert taken == min(rows_max, sum(ends[number] - start[number] for number in ends))


def test_a_small_limit_starves_no_partition():
    start, ends = {0: 0, 1: 0, 2: 0}, {0: 5, 1: 5, 2: 5}
    for _ in range(15):
        start = advance(start, ends, 1)
        assert max(start.values()) - min(start.values()) <= 1
    assert start == ends


def test_equal_offsets_are_equal_text_and_come_back():
    assert list(to_json(Point({10: 1, 2: 7}))) == ["2", "10"]
    point = Point({10: 1, 2: 7}, LogBookmark(b"\x0a\xff", Position(3, 40)), 5)
    assert to_json(point) == {"2": 7, "10": 1, "skipped": 5, "log": "0aff:3:40"}
    for each in (Point({10: 1, 2: 7}), Point({0: 1}, skipped=2), point):
        assert from_json(to_json(each)) == each


def test_losses_name_what_is_gone_and_what_was_never_there():
    spans = {0: Span(5, 9), 1: Span(0, 4), 2: Span(1, 2)}
    lost = losses({0: 2, 1: 6, 2: 1}, spans)
    assert lost == [Range(0, 2, 5), Range(1, 6, 4)]
    text = explain_losses("orders", lost)
    assert "orders, partition 0: the entries 2 to 4 are gone" in text
    assert "partition 1: it goes on at offset 4, and 6 was wanted next" in text
    assert "failOnDataLoss" in text
    assert skip({0: 2, 1: 6, 2: 1}, lost) == {0: 5, 1: 4, 2: 1}


@pytest.mark.parametrize("offset", [0, 7])
def test_a_partition_that_is_gone_is_a_loss_whatever_was_read_of_it(offset):
    start = {0: 5, 2: offset}
    lost = losses(start, {0: Span(0, 9), 1: Span(0, 3)})
    assert lost == [Range(2, offset, GONE)]
    assert explain_losses("orders", lost).startswith(
        f"log orders, partition 2: the log has no such partition any more, and offset {offset} was"
    )
    assert skip(start, lost) == {0: 5}
    assert rows_of(lost) == 0


def test_a_batch_reads_what_lies_between_and_nothing_behind_its_target():
    assert ranges({0: 2, 1: 4}, at_most({0: 9, 1: 4, 2: 3}, {0: 5})) == [
        Range(0, 2, 5),
        Range(2, 0, 3),
    ]


def test_offsets_and_partitions_that_are_not_there_are_refused_by_the_name_of_the_option():
    spans = {0: Span(3, 5), 1: Span(0, 9)}
    assert complete({1: 9}, spans, {0: 3, 1: 0}, "startingOffsets") == {0: 3, 1: 9}
    assert complete({0: -2, 1: -1}, spans, {0: 5, 1: 0}, "startingOffsets") == {0: 3, 1: 9}
    with pytest.raises(
        InvalidData, match="option startingOffsets: the log has the partitions 0 to 0, not"
    ):
        complete({1: 7}, {0: Span(0, 1)}, {0: 0}, "startingOffsets")
    with pytest.raises(
        InvalidData, match="option endingOffsets: partition 1 ends at offset 9, and"
    ):
        complete({1: 10}, spans, {0: 3, 1: 0}, "endingOffsets")


@given(OFFSETS, st.integers(1, 12))
def test_tasks_cut_by_rows_read_everything_once_and_are_of_one_size(pairs, tasks):
    wanted = [Range(number, begin, begin + more) for number, (begin, more) in enumerate(pairs)]
    found = cut(wanted, tasks)
    read = [
        (each.partition, at)
        for task in found
        for each in task
        for at in range(each.start, each.end)
    ]
    assert sorted(read) == [
        (each.partition, at) for each in wanted for at in range(each.start, each.end)
    ]
    assert len(found) <= tasks
    sizes = [rows_of(task) for task in found]
    assert len(set(sizes[:-1])) <= 1
    assert all(sizes[0] >= size > 0 for size in sizes)
    assert all(len({each.partition for each in task}) == len(task) for task in found)


def test_a_thousand_small_partitions_are_one_task():
    wanted = [Range(number, 0, 20) for number in range(1_000)]
    count = task_count(20_000, 50_000, 1, 64)
    assert cut(wanted, count) == [tuple(wanted)]
    assert task_count(20_000, 50_000, 8, 64) == len(cut(wanted, 8)) == 8


def test_of_runs_is_taken_what_is_wanted_and_the_places_move():
    runs = [
        Run(1, 0, 10, 5, b""),
        Run(1, 10, 10, 5, b""),
        Run(0, 0, 4, 5, b""),
        Run(2, 0, 1, 5, b""),
    ]
    places, ends = {1: 3, 0: 0, 2: 5}, {1: 12, 0: 9, 2: 7}
    assert list(take(runs, places, ends)) == [
        Piece(runs[0], 3, 10), Piece(runs[1], 0, 2), Piece(runs[2], 0, 4),
    ]  # fmt: skip
    assert places == {0: 4, 2: 5}
    assert Piece(runs[1], 4, 6).offset == 14
