"""What a proxy asks until there is an answer: once a while, and each answer counts once."""

from __future__ import annotations

import pytest

from stores.log.messages import Answer, Counted, CountQuery, Fetch, Query, QueryFailed
from stores.log.questions import REPEAT_TICKS, Questions
from wire.errors import ErrorCode

FETCH = Fetch(1, ((0, 0),), 1_000, 4)
COUNT = CountQuery(2)
COUNTED = Counted(2, 7)


class Asker:
    """Questions, with what was sent and answered since the last look."""

    def __init__(self) -> None:
        self.sent, self.answers = list[Query](), list[Answer]()
        self.questions = Questions(self.sent.append, self.answers.append)

    def take_sent(self) -> list[Query]:
        sent, self.sent[:] = list(self.sent), []
        return sent

    def sent_in(self, ticks: int, *, is_lost: bool = False, patience: int | None = None):
        """Give by tick what is sent; the first one is number one."""
        found: dict[int, list[Query]] = {}
        for tick in range(1, ticks + 1):
            self.questions.tick(is_lost=is_lost, patience_ticks=patience)
            if sent := self.take_sent():
                found[tick] = sent
        return found


@pytest.fixture
def asker() -> Asker:
    asker = Asker()
    for query in (FETCH, COUNT):
        asker.questions.ask(query)
    assert asker.take_sent() == [FETCH, COUNT]
    return asker


def test_what_has_no_answer_is_asked_again_one_that_waits_at_the_keeper_later(asker: Asker) -> None:
    late = REPEAT_TICKS + FETCH.wait_ticks
    assert asker.sent_in(3 * REPEAT_TICKS - 1) == {
        REPEAT_TICKS: [COUNT],
        late: [FETCH],
        2 * REPEAT_TICKS: [COUNT],
        2 * late: [FETCH],
    }
    assert len(asker.questions) == 2


def test_an_answer_counts_once_and_is_asked_for_no_more(asker: Asker) -> None:
    for _ in range(2):
        asker.questions.receive(COUNTED)
    assert asker.answers == [COUNTED]
    assert len(asker.questions) == 1
    assert asker.sent_in(REPEAT_TICKS) == {}


def test_what_was_cancelled_has_no_answer(asker: Asker) -> None:
    for _ in range(2):
        asker.questions.cancel(2)
    asker.questions.receive(COUNTED)
    assert asker.answers == []
    assert len(asker.questions) == 1


def test_what_was_declined_is_asked_again_at_the_next_tick_and_then_as_ever(asker: Asker) -> None:
    asker.questions.declined(1)
    asker.questions.declined(99)
    assert asker.take_sent() == []
    late = REPEAT_TICKS + FETCH.wait_ticks
    assert asker.sent_in(late + 1) == {1: [FETCH], REPEAT_TICKS: [COUNT], late + 1: [FETCH]}


def test_another_keeper_is_asked_everything(asker: Asker) -> None:
    asker.questions.receive(COUNTED)
    asker.questions.ask_again()
    assert asker.take_sent() == [FETCH]


def test_a_keeper_that_is_lost_for_as_long_as_is_waited_has_all_fail(asker: Asker) -> None:
    asker.sent_in(2, is_lost=True, patience=3)
    asker.sent_in(1, is_lost=False, patience=3)
    asker.sent_in(2, is_lost=True, patience=3)
    assert asker.answers == [], "it was there in between"
    asker.sent_in(1, is_lost=True, patience=3)
    text = "the log's keeper is out of reach"
    assert asker.answers == [
        QueryFailed(number, ErrorCode.KEEPER_UNREACHABLE, text) for number in (1, 2)
    ]
    assert len(asker.questions) == 0


def test_without_a_limit_a_lost_keeper_is_waited_for(asker: Asker) -> None:
    asker.sent_in(100, is_lost=True)
    assert len(asker.questions) == 2
    assert asker.answers == []


def test_all_fail_with_one_reason_when_there_will_be_no_answers(asker: Asker) -> None:
    asker.questions.fail_all(ErrorCode.NO_SUCH_PARTITION, "no")
    assert asker.answers == [
        QueryFailed(number, ErrorCode.NO_SUCH_PARTITION, "no") for number in (1, 2)
    ]
