"""The flight records of several nodes as one history, in causal order. Pure.

Each node's recorder numbers its records. What a node announced has a logical time, and whoever
heard of it noted that time: so it is known which record of one node came before which of another,
however their clocks go. ``merge`` gives each record its vector of record numbers and its Lamport
time, and puts all of them in an order that no vector contradicts. Among records that neither knows
of the other, the clocks decide, since they are good enough for that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from endpoint.flight import Record
from wire.clocks import LamportTime, VectorTime
from wire.identifiers import EndpointId

Key = tuple[EndpointId, int]
"""A record by its node and its number."""


@dataclass(frozen=True, slots=True)
class Event:
    """A record with its place in the history of the cluster."""

    record: Record
    stamp: VectorTime
    """Of each node the latest record that is known to have happened before, this one included."""
    lamport: LamportTime
    """Later than that of every event which happened before."""
    causes: tuple[Key, ...]
    """The records of other nodes that it follows from directly."""

    @property
    def key(self) -> Key:
        """Name it."""
        return (self.record.node, self.record.number)

    def happened_before(self, other: Event) -> bool:
        """Tell whether ``other`` is known to have come later."""
        return self.stamp < other.stamp


class _Logs:
    """The records by node, and where to find what others heard of them."""

    def __init__(self, logs: Iterable[Sequence[Record]]) -> None:
        self.records: dict[Key, Record] = {}
        self._numbers: dict[EndpointId, list[int]] = {}
        self._announced: dict[EndpointId, list[tuple[int, int]]] = {}
        for record in sorted((each for log in logs for each in log), key=_key):
            if _key(record) in self.records:
                continue
            self.records[_key(record)] = record
            self._numbers.setdefault(record.node, []).append(record.number)
            if record.announced:
                times = self._announced.setdefault(record.node, [])
                times.append((record.announced, record.number))

    def causes(self, record: Record) -> list[Key]:
        """Give what a record follows from: of its own node first, then of others."""
        found = [self._latest(record.node, record.number - 1)]
        found += [self._heard(node, time) for node, time in record.heard]
        found += [self._latest(node, number) for node, number in record.met]
        known = dict.fromkeys(cause for cause in found if cause is not None)
        return [cause for cause in known if cause != _key(record)]

    def _latest(self, node: EndpointId, number: int) -> Key | None:
        numbers = self._numbers.get(node, [])
        at = bisect_right(numbers, number)
        return (node, numbers[at - 1]) if at else None

    def _heard(self, node: EndpointId, time: int) -> Key | None:
        times = self._announced.get(node, [])
        at = bisect_right(times, (time, 2**63))
        return (node, times[at - 1][1]) if at else None


def merge(logs: Iterable[Sequence[Record]]) -> list[Event]:
    """Put the records of several nodes into one order that respects causality.

    Records may be missing at the beginning of a log, or come twice. Times are compared as they
    are: give each log's in the same seconds.
    """
    found = _Logs(logs)
    causes = {key: found.causes(record) for key, record in found.records.items()}
    events: dict[Key, Event] = {}
    for key in _order(found.records, causes):
        before = [events[each] for each in causes[key] if each in events]
        events[key] = _event(found.records[key], before)
    return list(events.values())


def _order(records: dict[Key, Record], causes: dict[Key, list[Key]]) -> list[Key]:
    """Sort topologically; of what may come next, the earliest by the clock does."""
    waits_for = {key: set(before) for key, before in causes.items()}
    leads_to: dict[Key, list[Key]] = {}
    for key, before in waits_for.items():
        for cause in before:
            leads_to.setdefault(cause, []).append(key)

    def place(key: Key) -> tuple[float, Key]:
        return (records[key].at, key)

    ready = [place(key) for key, before in waits_for.items() if not before]
    heapify(ready)
    ordered: list[Key] = []
    while ready:
        _, key = heappop(ready)
        ordered.append(key)
        for later in leads_to.get(key, ()):
            waits_for[later].discard(key)
            if not waits_for[later]:
                heappush(ready, place(later))
    # A circle needs a forged record; what is in it still happened, and is shown at the end.
    rest = sorted(set(records) - set(ordered), key=place)
    return ordered + rest


def _event(record: Record, before: list[Event]) -> Event:
    stamp = VectorTime()
    lamport = LamportTime(0)
    for cause in before:
        stamp = stamp.merge(cause.stamp)
        lamport = max(lamport, cause.lamport)
    own = [cause for cause in before if cause.record.node == record.node]
    others = [cause for cause in before if cause.record.node != record.node]
    # Only what is news: neither known here before, nor told by another one of the causes.
    direct = tuple(
        cause.key
        for cause in others
        if not any(cause.happened_before(each) for each in (*own, *others))
    )
    stamp = stamp.advance(record.node, LamportTime(record.number))
    return Event(record, stamp, lamport.next(), direct)


def _key(record: Record) -> Key:
    return (record.node, record.number)
