"""``monotonic``: what is numbered never goes back: offsets of a reader, revisions of a replica.

Needs ``Position`` observations.
"""

from __future__ import annotations

from typing import Final

from peermesh.testing.checkers.verdict import Verdict, broken, held
from peermesh.testing.history import History, Seen
from peermesh.testing.observations import Position

PROMISE: Final = "monotonic"


def monotonic(history: History, *, is_strict: bool = False) -> Verdict:
    """Tell whether the positions of each process in each sequence never go back.

    With ``is_strict`` they may not stand still either: nothing is read twice.
    """
    latest: dict[tuple[str, str], tuple[Seen, Position]] = {}
    count = 0
    for _, event, position in history.seen(Position):
        count += 1
        before = latest.get((event.process, position.of))
        if before is not None and position.number < before[1].number + is_strict:
            what = "stood still" if position.number == before[1].number else "went back"
            text = f"{event.process} {what} in {position.of}"
            return broken(PROMISE, text, [_told(*before), _told(event, position)])
        latest[event.process, position.of] = (event, position)
    return held(PROMISE, f"{count} positions in {len(latest)} sequences never go back")


def _told(event: Seen, position: Position) -> str:
    return f"{event.at:g} s {event.process}: at {position.number} of {position.of}"
