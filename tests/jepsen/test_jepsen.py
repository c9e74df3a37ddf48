"""A short run of the command, and checks that notice what it is there for."""

from __future__ import annotations

import pytest
import trio

from peermesh.testing.history import History
from peermesh.testing.time_limits import limit
from tests.jepsen.run import Found, check, run
from tests.jepsen.violation import Violation
from tests.jepsen.watchers import Watcher, compare

FAILURES = 4


async def test_nothing_that_was_acknowledged_is_lost_in_a_short_run() -> None:
    found = Found()
    with trio.fail_after(limit(120)):
        await run(FAILURES, 1, found)
    assert sum(found.failures.values()) == FAILURES
    assert found.endings["ok"] > 0


def recorded(*calls: tuple[str, tuple[object, ...], tuple[object, ...]]) -> History:
    history, at = History(), 0.0
    for name, arguments, result in calls:
        number = history.begin("client", name, *arguments, at=at)
        history.end(number, *result, at=at + 0.5)
        at += 1
    return history


@pytest.mark.parametrize(
    "last",
    [
        ("get", ("list 0",), ((1,),)),
        ("get", ("list 0",), ((1, 2, 2),)),
        ("get", ("list 0",), ((1, 2, 3),)),
        ("get", ("counter 0",), (2,)),
        ("get", ("register 0",), (5,)),
    ],
    ids=["lost", "twice", "invented", "counted twice", "stale"],
)
def test_what_must_not_be_is_noticed(last) -> None:
    calls = [
        ("push", ("list 0", 1), ()),
        ("push", ("list 0", 2), ()),
        ("increment", ("counter 0", 1), ()),
        ("put", ("register 0", 5), ()),
        ("compare_and_set", ("register 0", 5, 6), (True,)),
    ]
    check(recorded(*calls))
    with pytest.raises(Violation):
        check(recorded(*calls, last))


def test_pushes_that_may_have_happened_and_that_no_list_shows_cost_nothing() -> None:
    history = History()
    for value in range(10):
        history.lose(history.begin("lost", "push", "list 0", value, at=0), at=1)
    for name, arguments, *result in (
        ("push", ["list 0", 10]),
        ("push", ["list 0", 11]),
        ("get", ["list 0"], (10, 7, 11)),
    ):
        history.end(history.begin("client", name, *arguments, at=2), *result, at=3)
    check(history)
    history.end(history.begin("client", "get", "list 0", at=4), (10, 7, 11, 7), at=5)
    with pytest.raises(Violation):
        check(history)


@pytest.mark.parametrize(
    "revisions",
    [[1, 3], [1, 2, 2, 3], [1, 3, 2], [1, -2, 3]],
    ids=["left out", "twice", "late", "another"],
)
def test_watches_that_differ_are_noticed(revisions) -> None:
    def watched(revisions: list[int]) -> Watcher:
        watcher = Watcher(None, 0)  # type: ignore[arg-type]  # it has seen all that it will
        watcher.parts = [[(abs(each), (("k", each),)) for each in revisions]]
        return watcher

    compare([watched([1, 2, 3]), watched([2, 3]), watched([])])
    with pytest.raises(Violation):
        compare([watched([1, 2, 3]), watched(revisions)])
