"""Questions to a core: each task gets the answer to its own, and none waits for ever."""

from __future__ import annotations

import pytest
import trio

from endpoint.replicas.questions import Questions
from peermesh.testing.time_limits import limit


async def test_each_answer_is_for_its_own_question() -> None:
    questions: Questions[str] = Questions()
    with trio.fail_after(limit()), questions.ask() as first, questions.ask() as second:
        assert list(questions) == [first.number, second.number]
        questions.answer(second.number, "two")
        await second.wait()
        assert (first.answer, second.answer) == (None, "two")
        assert (first.is_over, second.is_over) == (False, True)
    assert not questions


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    questions: Questions[str] = Questions()
    with questions.ask() as question:
        pass
    questions.answer(question.number, "late")
    assert question.answer is None
    with questions.ask() as other:
        assert other.number != question.number


def test_a_question_that_failed_is_not_kept() -> None:
    questions: Questions[str] = Questions()
    with pytest.raises(ValueError, match="no"), questions.ask():
        raise ValueError("no")
    assert not questions


async def test_the_end_ends_questions_of_before_and_after() -> None:
    questions: Questions[str] = Questions()
    with trio.fail_after(limit()), questions.ask() as before:
        questions.end()
        await before.wait()
        with questions.ask() as after:
            await after.wait()
    assert (before.answer, after.answer) == (None, None)
