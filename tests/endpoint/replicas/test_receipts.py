"""Receipts: none is kept that the caller drops, and none that is waited for is missed."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from functools import partial

import pytest
import trio

from endpoint.replicas.receipts import ANSWERS_COUNT, Answers, Callbacks, Receipt
from peermesh import Endpoint
from peermesh.testing.time_limits import limit
from stores.outcomes import Applied, Outcome, Refused
from wire.errors import ErrorCode, StoreClosed, TypeClash


@pytest.fixture
async def answers() -> Answers:
    """Have room for the outcomes of requests 11 to 14."""
    return Answers("store s", 11, trio.lowlevel.current_trio_token(), 4)


def run(callbacks: Callbacks) -> None:
    for callback in callbacks:
        callback()


def alive() -> Iterator[Receipt]:
    return (each for each in gc.get_objects() if type(each) is Receipt)


async def test_nothing_keeps_a_receipt_that_its_caller_drops() -> None:
    async with Endpoint() as endpoint:
        clone = await endpoint.attach_clone("s")
        known = set(map(id, alive()))
        for number in range(2 * ANSWERS_COUNT):
            await clone.put(number, number)
        assert not [each for each in alive() if id(each) not in known]
        await endpoint.shutdown(grace=0)


async def test_what_is_to_be_called_is_called_without_the_receipt() -> None:
    called: list[int] = []
    async with Endpoint() as endpoint, endpoint.attach_master("s") as master:
        for number in range(2 * ANSWERS_COUNT):
            (await master.put(number, number)).when_resolved(partial(called.append, number))
        assert await master.await_idle(timeout=limit())
    assert sorted(called) == list(range(2 * ANSWERS_COUNT))


async def test_a_receipt_has_its_part_of_an_outcome_even_if_it_looks_late(answers: Answers) -> None:
    early, *receipts = (Receipt(number, answers) for number in (11, 11, 12, 13, 14))
    assert not answers.resolve(Outcome(5, 12, Applied(105)))
    assert early.outcome() == 111
    assert [each.is_resolved for each in receipts] == [True, True, False, False]
    answers.resolve(Outcome(13, 13, Refused(ErrorCode.TYPE_CLASH, "no number")))
    answers.resolve(Outcome(14, 20, Applied(113, answer=False)))
    assert [receipts[0].outcome(), receipts[1].outcome(), receipts[3].outcome()] == [111, 112, 113]
    assert [receipts[0].is_inserted(), receipts[3].is_inserted()] == [True, False]
    with pytest.raises(TypeClash, match="no number"):
        receipts[2].outcome()


async def test_only_those_are_told_that_the_outcome_is_about(answers: Answers) -> None:
    called: list[int] = []
    for number in (11, 12, 13, 14):
        Receipt(number, answers).when_resolved(partial(called.append, number))
    run(answers.resolve(Outcome(9, 12, Applied(100))))
    assert called == [11, 12]
    run(answers.fail(StoreClosed("over")))
    assert called == [11, 12, 13, 14]


async def test_one_that_is_asked_while_others_are_told_forgets_no_earlier_caller(
    answers: Answers,
) -> None:
    called: list[str] = []
    first, second = Receipt(11, answers), Receipt(12, answers)
    second.when_resolved(partial(called.append, "before"))
    first.wake_when_resolved(lambda: second.when_resolved(partial(called.append, "meanwhile")))
    run(answers.resolve(Outcome(11, 12, Applied(100))))
    assert called == ["meanwhile", "before"]


async def test_a_failure_is_what_came_of_those_without_an_outcome(answers: Answers) -> None:
    receipts = [Receipt(number, answers) for number in (12, 13)]
    answers.resolve(Outcome(11, 12, Applied(100)))
    answers.fail(StoreClosed("over"))
    assert receipts[0].outcome() == 101
    with pytest.raises(StoreClosed, match="over"):
        receipts[1].outcome()


async def test_one_that_was_given_ahead_of_its_number_is_told(answers: Answers) -> None:
    called: list[str] = []
    unasked = Answers("store s", 0, answers.run, 0)
    early, late = Receipt(0, unasked), Receipt(0, unasked)
    early.when_resolved(lambda: called.append("early"))
    early.adopt(11, answers)
    late.adopt(12, answers)
    late.when_resolved(lambda: called.append("late"))
    run(answers.resolve(Outcome(11, 12, Applied(1))))
    assert called == ["early", "late"]
    assert [early.outcome(), late.outcome()] == [1, 2]


async def test_in_a_child_process_none_is_told(answers: Answers) -> None:
    called: list[int] = []
    waiting, other = Receipt(11, answers), Receipt(12, answers)
    waiting.when_resolved(partial(called.append, 11))
    answers.lose(StoreClosed("forked"))
    for receipt in (waiting, other):
        with pytest.raises(StoreClosed, match="forked"):
            receipt.outcome()
    assert not called


async def test_outcomes_that_come_as_a_thread_begins_to_wait_are_told_once() -> None:
    token = trio.lowlevel.current_trio_token()
    called: list[int] = []
    for number in range(1, 500):
        answers = Answers("store s", number, token)
        receipt = Receipt(number, answers)
        barrier = threading.Barrier(2)

        def wait(receipt: Receipt = receipt, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            receipt.when_resolved(partial(called.append, receipt.request))

        thread = threading.Thread(target=wait)
        thread.start()
        barrier.wait()
        run(answers.resolve(Outcome(number, number, Applied(1))))
        thread.join()
    assert called == list(range(1, 500))
