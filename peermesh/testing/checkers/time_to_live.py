"""``no_message_outlives_its_ttl``: a message crosses no more links than its publisher allowed.

Needs ``Published`` and ``Crossed`` observations. With a time to live of 2, on a line of four
endpoints, the second and the third get it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from peermesh.testing.checkers.verdict import Verdict, broken, held
from peermesh.testing.history import History, Seen
from peermesh.testing.observations import Crossed, Published
from wire.encoding import encode

PROMISE: Final = "no_message_outlives_its_ttl"


@dataclass(slots=True)
class _Travel:
    """How far a message has come."""

    ttl: int
    links: dict[str, int] = field(default_factory=dict)
    """For each endpoint that has it: the fewest links that it took to come there."""
    told: dict[str, str] = field(default_factory=dict)
    """For each endpoint: how it came there."""
    senders: dict[str, str] = field(default_factory=dict)


def no_message_outlives_its_ttl(history: History) -> Verdict:
    """Tell whether no message crossed more links than it may. Messages differ from each other.

    Where a message reached an endpoint on several ways, it is taken to have gone on from the
    shortest.
    """
    travels: dict[bytes, _Travel] = {}
    crossings = 0
    for _, event, seen in history.seen(Published, Crossed):
        message = encode(seen.message)
        if isinstance(seen, Published):
            if message in travels:
                return broken(PROMISE, "a message is published twice: number them", [event])
            travels[message] = _Travel(seen.ttl, {event.process: 0})
            continue
        crossings += 1
        travel = travels.get(message)
        if travel is None or seen.sender not in travel.links:
            text = "a message came from an endpoint that does not have it"
            return broken(PROMISE, text, [_told(event, seen)])
        links = travel.links[seen.sender] + 1
        if links > travel.ttl:
            way = [*_way(travel, seen.sender), _told(event, seen)]
            return broken(PROMISE, f"it crossed {links} links, {travel.ttl} are allowed", way)
        if links < travel.links.get(event.process, links + 1):
            travel.links[event.process] = links
            travel.told[event.process] = _told(event, seen)
            travel.senders[event.process] = seen.sender
    return held(PROMISE, f"{len(travels)} messages crossed {crossings} links, and none too many")


def _way(travel: _Travel, process: str) -> list[str]:
    way: list[str] = []
    while process in travel.told:
        way.insert(0, travel.told[process])
        process = travel.senders[process]
    return way


def _told(event: Seen, crossed: Crossed) -> str:
    return f"{event.at:g} s {event.process}: got {crossed.message!r} from {crossed.sender}"
