"""The runs that a member keeps: read from either end, found, let go, with or without entries."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from stores.group.positions import Position
from stores.log.kept_runs import AnyRun, KeptRun, KeptRuns, RunPlace
from stores.log.parts import RUN_SIZE
from stores.log.runs import Run

ALL = 1 << 60


def run_of(first: int, count: int, number: int, size: int = 3) -> KeptRun:
    run = Run(0, first, count, 10 * (number // 3), b"x" * size)
    return KeptRun.of(run, Position(1 + number // 50, number + 1), 7 * number)


def test_runs_at_hand_are_those_that_neither_end_lost() -> None:
    chance, runs, expected = Random(1), KeptRuns(1), list[AnyRun]()
    for number in range(4_000):
        end = expected[-1].end if expected else 10 * number
        match chance.randrange(6):
            case 0 if expected:
                start = chance.choice(expected).first_offset + chance.randrange(2)
                runs.trim(0, start)
                expected = [run for run in expected if run.end > start]
            case 1 if expected and number % 3 == 0:
                index = chance.choice(expected).position.index
                runs.release(index)
                expected = [run.place if run.position.index <= index else run for run in expected]
            case _:
                run = run_of(end, chance.randrange(1, 4), number, chance.randrange(5))
                runs.append(run if number % 11 else run.place)
                expected.append(run if number % 11 else run.place)
        assert list(runs.above(0)) == expected
        if expected:
            at = chance.randrange(expected[0].first_offset, expected[-1].end + 2)
            later = [run for run in expected if run.end > at]
            assert runs.read(0, at, ALL) == later
            assert runs.read(0, at, -1) == later[:1], "one run always fits"
            assert runs.read(0, expected[0].first_offset - 1, ALL) == []
            index = chance.choice(expected).position.index
            above = runs.above(index)
            assert list(above) == [run for run in expected if run.position.index > index]
            assert [above[at] for at in range(len(above))] == above[:]


def test_a_read_ends_where_no_more_fits() -> None:
    runs = KeptRuns(1, [run_of(2 * number, 2, number, 10) for number in range(9)])
    assert [run.first_offset for run in runs.read(0, 3, 30)] == [2, 4, 6]
    assert [run.first_offset for run in runs.read(0, 3, 29)] == [2, 4]


def test_the_first_offset_of_a_time_is_found() -> None:
    runs = KeptRuns(1, [run_of(2 * number, 2, number) for number in range(9)])
    assert [runs.find(0, each) for each in (0, 1, 10, 11, 20, 21)] == [0, 6, 6, 12, 12, None]
    runs.trim(0, 8)
    assert runs.find(0, 0) == 8


def test_what_is_copied_does_not_change_with_the_log() -> None:
    runs = KeptRuns(1, [run_of(2 * number, 2, number) for number in range(9)])
    copied = runs.above(3)
    before = list(copied)
    runs.release(9)
    runs.trim(0, 17)
    runs.append(run_of(18, 1, 9))
    assert list(copied) == before
    assert all(isinstance(run, KeptRun) for run in before)
    assert [type(run) for run in runs.above(0)] == [RunPlace, KeptRun]


def test_runs_fit_by_their_bytes_and_by_their_number() -> None:
    runs = KeptRuns(1, [run_of(2 * number, 2, number, 100) for number in range(50)])
    runs.trim(0, 21)
    (column,) = runs.above(0).columns
    each = 100 + RUN_SIZE
    assert column.fitting(0, 3 * each, 99, RUN_SIZE) == 3
    assert column.fitting(0, 3 * each - 1, 99, RUN_SIZE) == 2
    assert column.fitting(5, 10 * each, 4, RUN_SIZE) == 9
    assert column.fitting(38, 10 * each, 4, RUN_SIZE) == len(column) == 40
    assert column.fitting(7, -1, 4, RUN_SIZE) == 7
    assert column.size(3, 6) == 300


def test_a_run_whose_entries_are_read_in_the_file_is_what_it_was() -> None:
    run = run_of(7, 2, 60)
    assert run.place == RunPlace(0, 7, 2, 200, 3, Position(2, 61), 420)
    assert run.place.filled(run.body) == run
    assert run.place.place == run.place
    assert run.place.end == run.end == 9


def test_runs_of_all_partitions_are_one_sequence() -> None:
    runs, expected = KeptRuns(4), list[AnyRun]()
    for partition, count in ((0, 2), (2, 3), (3, 1)):
        for number in range(count):
            run = replace(run_of(2 * number, 2, number), partition=partition)
            runs.append(run)
            expected.append(run)
    every = runs.above(0)
    assert len(every) == 6
    assert list(every) == [every[number] for number in range(6)] == expected
    assert (every[-1], every[1:4]) == (expected[-1], expected[1:4])
    with pytest.raises(IndexError):
        _ = every[6]
    assert [len(KeptRuns(count).above(0)) for count in (0, 2)] == [0, 0]


def test_an_append_behind_a_hole_is_a_programming_error() -> None:
    runs = KeptRuns(1, [run_of(4, 2, 0)])
    with pytest.raises(AssertionError):
        runs.append(run_of(7, 2, 1))
