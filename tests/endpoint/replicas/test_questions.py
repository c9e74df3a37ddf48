"""Questions to a core: each task gets the answer to its own, and none waits for ever."""

from __future__ import annotations

import pytest
import trio

from endpoint.replicas.questions import Questions
from peermesh.testing.time_limits import limit


def _nothing(number: int) -> None:
    """Withdraw nothing."""


async def test_each_answer_is_for_its_own_question() -> None:
    questions: Questions[str] = Questions()
    with (
        trio.fail_after(limit()),
        questions.ask(_nothing) as first,
        questions.ask(_nothing) as second,
    ):
        assert list(questions) == [first.number, second.number]
        questions.answer(second.number, "two")
        await second.wait()
        assert (first.answer, second.answer) == (None, "two")
        assert (first.is_over, second.is_over) == (False, True)
    assert not questions


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    questions: Questions[str] = Questions()
    with questions.ask(_nothing) as question:
        pass
    questions.answer(question.number, "late")
    assert question.answer is None
    with questions.ask(_nothing) as other:
        assert other.number != question.number


def test_a_question_that_failed_is_not_kept() -> None:
    questions: Questions[str] = Questions()
    with pytest.raises(ValueError, match="no"), questions.ask(_nothing):
        raise ValueError("no")
    assert not questions


async def test_the_end_ends_questions_of_before_and_after() -> None:
    questions: Questions[str] = Questions()
    with trio.fail_after(limit()), questions.ask(_nothing) as before:
        questions.end()
        await before.wait()
        with questions.ask(_nothing) as after:
            await after.wait()
    assert (before.answer, after.answer) == (None, None)


async def test_what_is_left_without_an_answer_is_withdrawn_also_if_it_is_cancelled() -> None:
    questions: Questions[str] = Questions()
    withdrawn: list[int] = []
    with questions.ask(withdrawn.append) as answered:
        questions.answer(answered.number, "yes")
    with questions.ask(withdrawn.append) as left:
        pass
    with trio.CancelScope() as scope, questions.ask(withdrawn.append) as cancelled:
        scope.cancel()
        await cancelled.wait()
    with pytest.raises(ValueError, match="no"), questions.ask(withdrawn.append) as failed:
        raise ValueError("no")
    assert withdrawn == [left.number, cancelled.number, failed.number]
    with questions.ask(withdrawn.append):
        questions.end()
    assert len(withdrawn) == 3, "the core is no more"
