"""``at_most_one_peering``: two endpoints are peers over one connection, whoever dialled.

Needs ``Peered`` and ``Unpeered`` observations of the endpoints.
"""

from __future__ import annotations

from typing import Final

from peermesh.testing.checkers.verdict import Verdict, broken, held
from peermesh.testing.history import History, Seen
from peermesh.testing.observations import Peered, Unpeered

PROMISE: Final = "at_most_one_peering"

_Standing = dict[tuple[str, str], tuple[Seen, str]]
"""For an endpoint and its peer: when and over which connection the peering began."""


def at_most_one_peering(history: History) -> Verdict:
    """Tell whether no endpoint ever had two peerings with another at once.

    Two ends may learn of a peering at different times; at the end of the history they have to name
    the same connection, if both have a peering.
    """
    standing: _Standing = {}
    count = 0
    for _, event, change in history.seen(Peered, Unpeered):
        pair = (event.process, change.peer)
        before = standing.get(pair)
        if isinstance(change, Peered):
            count += 1
            if before is not None:
                text = f"{event.process} has two peerings with {change.peer} at once"
                told = [_told(change.peer, *before), _told(change.peer, event, change.connection)]
                return broken(PROMISE, text, told)
            standing[pair] = (event, change.connection)
        elif before is not None and before[1] == change.connection:
            del standing[pair]
        else:
            text = f"{event.process} lost a peering with {change.peer} that it did not have"
            return broken(PROMISE, text, [_told(change.peer, event, change.connection)])
    verdict = _compare_ends(standing)
    return held(PROMISE, f"{count} peerings, one at a time") if verdict is None else verdict


def _compare_ends(standing: _Standing) -> Verdict | None:
    for (here, there), (event, connection) in standing.items():
        other = standing.get((there, here))
        if other is not None and other[1] != connection:
            text = f"{here} and {there} are peers over different connections in the end"
            told = [_told(there, event, connection), _told(here, *other)]
            return broken(PROMISE, text, told)
    return None


def _told(peer: str, event: Seen, connection: str) -> str:
    return f"{event.at:g} s {event.process}: {peer} over connection {connection}"
