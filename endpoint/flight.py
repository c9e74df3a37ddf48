"""The flight recorder: the last things that happened at an endpoint, always on and bounded. Pure.

It notes peerings, announcements, stores, barriers and errors, never single messages, so that it
costs nothing that could be measured. What an endpoint announces carries its own time; what others
announced and was heard here is noted with the next record. So the records of several endpoints can
be put into causal order later (``peermesh.testing.recorder``), without a byte more on the wire.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from wire.identifiers import EndpointId
from wire.messages import Announcement

RECORDS_MAX: Final = 512
"""Records kept: some minutes of a mesh in trouble, in about 100 KiB. The oldest go first."""

NAMED_MAX: Final = 8
"""Topics or stores that a record names before it only counts them."""

ANNOUNCED: Final = "announced"
"""The kind of the records that others may have heard of; all other kinds are free words."""


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened at one endpoint."""

    node: EndpointId
    number: int
    """The how manieth record of this endpoint it is, from one."""
    at: float
    """Seconds by the recorder's own clock."""
    kind: str
    text: str
    about: EndpointId | None = None
    """The endpoint that it is about, if it is about another one."""
    announced: int = 0
    """The logical time of the announcement that this record is about; 0 for any other record."""
    heard: tuple[tuple[EndpointId, int], ...] = ()
    """Whose announcements came since the record before, and the latest logical time of each."""
    met: tuple[tuple[EndpointId, int], ...] = ()
    """Records of others that are known to have happened before, by their numbers."""


class FlightRecorder:
    """The records of one endpoint. Time is an argument."""

    def __init__(self, node: EndpointId, size_max: int = RECORDS_MAX) -> None:
        """Begin empty, and keep up to ``size_max`` records."""
        self.node = node
        self.number = 0
        """The number of the latest record."""
        self.tap: Callable[[Record], object] | None = None
        """Is given each record as it is made, for whoever keeps it beyond a crash."""
        self._announced = 0
        self._records: deque[Record] = deque()
        self._size_max = size_max
        self._heard: dict[EndpointId, int] = {}
        self._met: dict[EndpointId, int] = {}
        self._lost_heard: dict[EndpointId, int] = {}
        self._lost_met: dict[EndpointId, int] = {}
        self._named: Counter[EndpointId] = Counter()
        """Endpoints that the kept records name, and how often."""

    def note(self, at: float, kind: str, text: str, about: EndpointId | None = None) -> Record:
        """Record something at ``at`` seconds."""
        return self._keep(at, kind, text, about, 0)

    def announce(self, at: float, announcement: Announcement) -> None:
        """Record what the endpoint announces, unless that is recorded already."""
        if announcement.time != self._announced:
            self._announced = announcement.time
            self._keep(at, ANNOUNCED, _describe(announcement), None, announcement.time)

    def hear(self, announcements: Iterable[Announcement]) -> None:
        """Remember that announcements of others came; the next record follows from them."""
        _merge(self._heard, ((each.origin, each.time) for each in announcements))

    def meet(self, known: Mapping[EndpointId, int]) -> None:
        """Remember that somebody knew of these records who made what comes next happen."""
        _merge(self._met, known.items())

    def records(self) -> list[Record]:
        """Give what is kept, oldest first; the oldest takes over what it followed from.

        Of endpoints that no kept record names, that is forgotten.
        """
        kept = list(self._records)
        if kept:
            kept[0] = replace(
                kept[0],
                heard=_joined(self._lost_heard, kept[0].heard),
                met=_joined(self._lost_met, kept[0].met),
            )
        return kept

    def copy(self) -> FlightRecorder:
        """Give another recorder with what is kept here now."""
        copied = FlightRecorder(self.node, self._size_max)
        for record in self.records():
            copied.add(record)
        return copied

    def _keep(
        self, at: float, kind: str, text: str, about: EndpointId | None, announced: int
    ) -> Record:
        self.number += 1
        heard, met = tuple(self._heard.items()), tuple(self._met.items())
        record = Record(self.node, self.number, at, kind, text, about, announced, heard, met)
        self._heard.clear()
        self._met.clear()
        self.add(record)
        if self.tap is not None:
            self.tap(record)
        return record

    def add(self, record: Record) -> None:
        """Keep a record that was made elsewhere by a recorder of the same node."""
        self.number = max(self.number, record.number)
        self._records.append(record)
        self._named.update(_names(record))
        if len(self._records) > self._size_max:
            lost = self._records.popleft()
            _merge(self._lost_heard, lost.heard)
            _merge(self._lost_met, lost.met)
            self._forget(_names(lost))

    def _forget(self, names: Iterable[EndpointId]) -> None:
        """Forget endpoints that no kept record names: in a year there are very many of them."""
        for name in names:
            self._named[name] -= 1
            if not self._named[name]:
                del self._named[name]
                self._lost_heard.pop(name, None)
                self._lost_met.pop(name, None)


def _names(record: Record) -> list[EndpointId]:
    about = [] if record.about is None else [record.about]
    return [*about, *(origin for origin, _ in (*record.heard, *record.met))]


def _merge(times: dict[EndpointId, int], more: Iterable[tuple[EndpointId, int]]) -> None:
    for origin, time in more:
        times[origin] = max(time, times.get(origin, 0))


def _joined(
    base: Mapping[EndpointId, int], more: Iterable[tuple[EndpointId, int]]
) -> tuple[tuple[EndpointId, int], ...]:
    times = dict(base)
    _merge(times, more)
    return tuple(times.items())


def _describe(announcement: Announcement) -> str:
    links = _listed("link", [str(link) for link in announcement.links])
    topics = _listed("topic", [repr(topic) for topic in announcement.subscriptions])
    stores = _listed("store", [repr(store) for store in announcement.stores])
    return f"{links}; {topics}; {stores}"


def _listed(what: str, names: list[str]) -> str:
    """Name a few things, and count the others."""
    if not names:
        return f"no {what}s"
    named = ", ".join(names[:NAMED_MAX])
    rest = f", … {len(names)} in all" if len(names) > NAMED_MAX else ""
    return f"{what}s {named}{rest}"
