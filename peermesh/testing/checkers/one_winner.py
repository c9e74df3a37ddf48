"""``one_winner``: of all who try to set a key first, one succeeds, and everybody hears the same.

Needs operations ``put_unique(key, value)`` or ``compare_and_set(key, expected, value)``, with a
boolean result. In a history that sets the key in any other way there may be several winners, one
after the other: ``linearizable`` is the checker for that, and this one gives up.
"""

from __future__ import annotations

from typing import Final

from peermesh.testing.checkers.verdict import Finding, Verdict, broken, gave_up, held
from peermesh.testing.history import Ending, History, Operation
from wire.encoding import encode

PROMISE: Final = "one_winner"
CONTESTS: Final = ("put_unique", "compare_and_set")
READS: Final = ("get", "exists", "contains")


def one_winner(history: History) -> Verdict:
    """Tell whether each contest has at most one winner, and no loser without one.

    The contenders of a contest name the same key, and with ``compare_and_set`` the same expected
    value, which must not come back: use each value once.
    """
    contests: dict[tuple[bytes, ...], list[Operation]] = {}
    others: dict[bytes, Operation] = {}
    for operation in history.operations():
        if operation.name in CONTESTS:
            is_unique = operation.name == "put_unique"
            terms = operation.arguments[: 1 if is_unique else 2]
            contest = (operation.name.encode(), *map(encode, terms))
            contests.setdefault(contest, []).append(operation)
        elif operation.name not in READS and operation.ending is not Ending.FAILED:
            others[encode(operation.arguments[0]) if operation.arguments else b""] = operation
    undecided: list[Verdict] = []
    for (_, key, *_), contenders in contests.items():
        verdict = _judge(contenders, others.get(key) or others.get(b""))
        if verdict is not None and verdict.finding is Finding.BROKEN:
            return verdict
        undecided += [verdict] if verdict is not None else []
    if undecided:
        return undecided[0]
    return held(PROMISE, f"{len(contests)} contests had one winner each, at most")


def _judge(contenders: list[Operation], other: Operation | None) -> Verdict | None:
    if other is not None:
        text = "the key is set in other ways, too: ask linearizable"
        return gave_up(PROMISE, text, [contenders[0], other])
    won = [each for each in contenders if each.result == (True,)]
    if len(won) > 1:
        return broken(PROMISE, f"{len(won)} winners", won)
    lost = [each for each in contenders if each.result == (False,)]
    possible = won or [each for each in contenders if each.ending is Ending.UNKNOWN]
    # Who lost first lost against somebody who had begun by then; a comparison may also lose
    # because the expected value was never there.
    first = min(lost, key=lambda each: each.last, default=None)
    if first is None or first.name != "put_unique":
        return None
    if not any(each.first < first.last for each in possible):
        return broken(PROMISE, "a loser, and nobody who can have won by then", [first, *won])
    return None
