"""Runs of entries: when one is full, and how many an answer takes."""

from __future__ import annotations

from random import Random

from stores.log.limits import RUN_COUNT_MAX, RUN_SIZE_MAX
from stores.log.runs import ENTRY_SIZE, Flat, Run, RunList, within
from stores.log.staging import LogStage


def appended(*batches: Flat) -> list[int]:
    """Append batches to one partition, and give the number of entries of each run."""
    stage = LogStage()
    offset = 0
    for batch in batches:
        stage.append(0, offset, batch, 1)
        offset += len(batch) // 2
    stage.seal()
    return [run.count for run in stage.runs]


def test_a_run_takes_appends_until_it_has_its_count_of_entries() -> None:
    one, rest = (None, b"v"), (None, b"v") * (RUN_COUNT_MAX - 1)
    assert appended(rest, one) == [RUN_COUNT_MAX]
    assert appended(rest, one, one) == [RUN_COUNT_MAX, 1]


def test_a_run_takes_appends_until_it_has_its_count_of_bytes() -> None:
    half = (None, bytes(RUN_SIZE_MAX // 2 - ENTRY_SIZE))
    assert appended(half, half) == [2]
    assert appended(half, half, (None, b"")) == [2, 1]


def test_an_append_is_never_parted_however_large_it_is() -> None:
    batch = (None, bytes(RUN_SIZE_MAX)) * 2
    assert appended(batch, batch) == [2, 2]


def run_of(size: int) -> Run:
    return Run(0, 0, 1, 1, bytes(size))


def test_an_answer_takes_runs_while_they_fit() -> None:
    runs = [run_of(4), run_of(4), run_of(4)]
    assert within(runs, 8, has_more=False) == runs[:2]
    assert within(runs, 7, has_more=False) == runs[:1]


def test_one_run_fits_however_large_it_is_unless_there_are_others_before() -> None:
    runs = [run_of(10), run_of(1)]
    assert within(runs, 5, has_more=False) == runs[:1]
    assert within(runs, 5, has_more=True) == []


def test_runs_at_hand_are_those_that_neither_end_lost() -> None:
    chance, runs, expected = Random(1), RunList(), list[Run]()
    for number in range(4_000):
        end = expected[-1].end if expected else 10 * number
        match chance.randrange(6):
            case 0 if expected:
                runs.drop_first()
                del expected[0]
            case 1 if expected and number % 7 == 0:
                end = chance.choice(expected).end
                runs.cut(end)
                expected = [run for run in expected if run.end <= end]
            case 2 if expected and number % 9 == 0:
                start = chance.choice(expected).first_offset
                runs.trim(start)
                expected = [run for run in expected if run.end > start]
            case _:
                run = Run(0, end, chance.randrange(1, 4), number, b"x" * chance.randrange(5))
                runs.append(run)
                expected.append(run)
        first = expected[0].first_offset if expected else None
        size = sum(len(run.body) for run in expected)
        assert (len(runs), runs.first_offset, runs.size) == (len(expected), first, size)
        if expected:
            at = chance.randrange(expected[0].first_offset, expected[-1].end + 2)
            assert runs.read(at, 10**6) == [run for run in expected if run.end > at]
            assert runs.read(expected[0].first_offset - 1, 10**6) == []
