"""Long work goes in steps of 2,000 entries, and those who ask for it take turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stores.work import JOBS_MAX, WorkQueue


def job(log: list[str], *names: str) -> Iterator[None]:
    for name in names[:-1]:
        log.append(name)
        yield
    log.append(names[-1])


def test_askers_take_turns_and_each_has_its_jobs_done_in_order():
    queue, log = WorkQueue(), list[str]()
    queue.add("a", 1, job(log, "a1", "a2", "a3"))
    queue.add("a", 2, job(log, "a4"))
    queue.add("b", 1, job(log, "b1"))
    while queue:
        queue.step()
    assert log == ["a1", "b1", "a2", "a3", "a4"]


def test_a_question_that_is_repeated_costs_one_answer():
    queue, log = WorkQueue(), list[str]()
    for number in range(100):
        assert queue.add("a", "same", job(log, str(number)))
    while queue:
        queue.step()
    assert log == ["99"]


def test_an_asker_with_too_many_jobs_is_refused_and_no_other():
    queue = WorkQueue()
    assert all(queue.add("a", number, iter(())) for number in range(JOBS_MAX))
    assert not queue.add("a", JOBS_MAX, iter(()))
    assert queue.add("a", 0, iter(()))
    assert queue.add("b", 0, iter(()))


def test_a_job_that_fails_is_over():
    def failing() -> Iterator[None]:
        yield from ()
        raise ValueError

    queue, log = WorkQueue(), list[str]()
    queue.add("a", 1, failing())
    queue.add("a", 2, job(log, "a"))
    with pytest.raises(ValueError, match=r"^$"):
        queue.step()
    queue.step()
    assert log == ["a"]
    assert not queue


def test_what_was_cancelled_is_not_done():
    queue, log = WorkQueue(), list[str]()
    queue.add("a", 1, job(log, "a1"))
    queue.add("a", 2, job(log, "a2"))
    queue.add("b", 1, job(log, "b1"))
    queue.cancel("a", 1)
    queue.cancel("c", 1)
    queue.discard("b")
    queue.step()
    assert log == ["a2"]
    assert not queue
