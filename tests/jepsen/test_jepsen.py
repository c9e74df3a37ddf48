"""A short run of the command, and checks that notice what it is there for."""

from __future__ import annotations

import pytest
import trio

from peermesh.testing.history import History
from peermesh.testing.time_limits import limit
from tests.jepsen.run import Found, Violation, check, run

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
