"""Who is linked to whom, what waits for whom, and who may wait: the broker's decisions. Pure.

The broker calls it under its one lock (the seed's ``modules_lock``), and does the waiting. A module
that is removed gets nothing more, and its seat stays with its worker until what was delivered
before is received.

A worker that waits for another's inbox, or for its end, holds up whoever waits for itself. Waiting
in a circle would never end, so nobody begins to: see ``offer`` and ``may_await``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, StrEnum, auto, unique
from typing import Final, NewType

from peermesh.brokers.modules.errors import (
    AddLinkError,
    BrokerError,
    InboxFull,
    InvalidArgument,
    RemoveLinkError,
)
from peermesh.brokers.modules.message import Message

ModuleId = NewType("ModuleId", int)
"""The seed's ``MODULE_HANDLE``: names a module in its broker, and no other one ever after."""

MODULES_MAX: Final = 1_024
"""Modules of a broker. Each has a thread or a task of its own; a thousand threads still work."""

LINKS_MAX: Final = 65_536
"""Links of a broker: a module may be linked with any other one at an average of 64."""

INBOX_SIZE: Final = 1_024
"""Messages that wait for a module before those who publish to it do: some milliseconds of work."""

INBOX_SIZE_MAX: Final = 1_048_576
"""The largest inbox that may be asked for: some hundred megabytes of small messages."""

EXCESS_MAX: Final = 65_536
"""Messages beyond its size that an inbox takes of those who may not wait. A circle of links in
which each message makes more than one would otherwise grow until the memory is full."""

NAME_SIZE_MAX: Final = 256
"""Characters of a module's name: it stands in every report."""


@unique
class LinkPolicy(StrEnum):
    """What becomes of a message for an inbox that is full."""

    WAIT = "wait"
    """Whoever publishes waits: nothing is lost."""
    REFUSE = "refuse"
    """``publish`` raises ``InboxFull``, and nobody gets the message."""
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"


class Verdict(Enum):
    """What became of a message that was offered to a link."""

    DELIVERED = auto()
    DROPPED = auto()
    GONE = auto()
    """The link is not there any more."""
    WAIT = auto()
    """Offer it again when there is room."""


class Link:
    """A way from a source to a sink. Mutable and slotted: it counts every message."""

    __slots__ = ("delivered", "dropped", "is_there", "policy", "sink", "source")

    def __init__(self, source: Seat, sink: Seat, policy: LinkPolicy) -> None:
        """Begin with nothing delivered."""
        self.source = source
        self.sink = sink
        self.policy = policy
        self.is_there = True
        self.delivered = 0
        self.dropped = 0


class Seat:
    """One module's place. Mutable and slotted: every message passes it."""

    __slots__ = (
        "awaited",
        "failed",
        "inbox",
        "is_leaving",
        "links",
        "name",
        "number",
        "received",
        "size",
        "sources",
    )

    def __init__(self, number: ModuleId, name: str, size: int) -> None:
        """Begin without links."""
        self.number = number
        self.name = name
        self.size = size
        self.inbox: deque[Message] = deque()
        self.links: dict[ModuleId, Link] = {}
        """Links from here, by their sinks, in the order in which they were added."""
        self.sources: dict[ModuleId, Link] = {}
        self.is_leaving = False
        self.awaited: Seat | None = None
        """Whose room, or whose end, this module's worker waits for."""
        self.received = 0
        self.failed = 0

    @property
    def has_room(self) -> bool:
        """Whether one more message fits without anybody waiting."""
        return len(self.inbox) < self.size


@dataclass(frozen=True, slots=True)
class LinkStatistics:
    """One link in numbers."""

    source: str
    sink: str
    policy: LinkPolicy
    delivered: int
    dropped: int


@dataclass(frozen=True, slots=True)
class ModuleStatistics:
    """One module in numbers."""

    name: str
    waiting: int
    """Messages in its inbox."""
    received: int
    failed: int
    """Messages at which its ``receive`` raised."""


class Switchboard:
    """The modules and links of one broker."""

    def __init__(self) -> None:
        """Begin empty."""
        self._seats: dict[ModuleId, Seat] = {}
        self._names: dict[str, ModuleId] = {}
        self._count = 0
        self._links = 0

    # Modules.

    def add_module(self, name: str | None, size: int) -> Seat:
        """Seat a module; ``None`` is a name made of its number.

        Raises ``InvalidArgument`` for a taken name, ``BrokerError`` when there are too many.
        """
        if not 1 <= size <= INBOX_SIZE_MAX:
            raise InvalidArgument(f"an inbox of {size} messages; 1 to {INBOX_SIZE_MAX} are allowed")
        if len(self._seats) >= MODULES_MAX:
            raise BrokerError(f"the broker has {MODULES_MAX} modules already: use another broker")
        number = ModuleId(self._count + 1)
        name = name if name is not None else f"module {number}"
        if not 0 < len(name) <= NAME_SIZE_MAX:
            raise InvalidArgument(f"a module's name has 1 to {NAME_SIZE_MAX} characters")
        if name in self._names:
            raise InvalidArgument(f"there is a module called {name!r}: choose another name")
        self._count = number
        self._names[name] = number
        seat = self._seats[number] = Seat(number, name, size)
        return seat

    def remove_module(self, module: ModuleId | str) -> Seat:
        """Take a module out, and all links to it; raises ``BrokerError`` when it is not there.

        The links from it stay until ``finish``: what it has in its inbox still goes its way.
        """
        seat = self.seat(module)
        for link in list(seat.sources.values()):
            self._unlink(link)
        del self._seats[seat.number], self._names[seat.name]
        seat.is_leaving = True
        return seat

    def finish(self, seat: Seat) -> list[Seat]:
        """A removed module has received everything: end the links from it, and give their sinks."""
        links = list(seat.links.values())
        for link in links:
            self._unlink(link)
        return [link.sink for link in links]

    def seat(self, module: ModuleId | str) -> Seat:
        """Find a module by id or name; raises ``BrokerError`` when it is not there."""
        number = self._names.get(module) if isinstance(module, str) else module
        seat = self._seats.get(number) if number is not None else None
        if seat is None:
            raise BrokerError(f"there is no module {module!r}: it was removed, or never added")
        return seat

    def seats(self) -> list[Seat]:
        """List all modules, in the order in which they were added."""
        return list(self._seats.values())

    # Links.

    def add_link(self, source: ModuleId | str, sink: ModuleId | str, policy: LinkPolicy) -> None:
        """Lead what one module publishes to another; raises ``AddLinkError``."""
        try:
            begin, end = self.seat(source), self.seat(sink)
        except BrokerError as error:
            raise AddLinkError(str(error)) from None
        if end.number in begin.links:
            raise AddLinkError(f"{begin.name!r} is linked to {end.name!r} already")
        if self._links >= LINKS_MAX:
            raise AddLinkError(f"the broker has {LINKS_MAX} links already: use another broker")
        self._links += 1
        begin.links[end.number] = end.sources[begin.number] = Link(begin, end, policy)

    def remove_link(self, source: ModuleId | str, sink: ModuleId | str) -> Seat:
        """End a link, and give its sink; raises ``RemoveLinkError``."""
        try:
            begin, end = self.seat(source), self.seat(sink)
        except BrokerError as error:
            raise RemoveLinkError(str(error)) from None
        link = begin.links.get(end.number)
        if link is None:
            raise RemoveLinkError(f"{begin.name!r} is not linked to {end.name!r}")
        self._unlink(link)
        return end

    def _unlink(self, link: Link) -> None:
        link.is_there = False
        del link.source.links[link.sink.number], link.sink.sources[link.source.number]
        self._links -= 1

    def links(self) -> list[Link]:
        """List all links, in the order of their sources."""
        return [link for seat in self._seats.values() for link in seat.links.values()]

    # Messages.

    def begin(self, source: Seat) -> list[Link]:
        """Give the links by which a message leaves; raises ``InboxFull`` where one refuses."""
        links = list(source.links.values())
        for link in links:
            if link.policy is LinkPolicy.REFUSE and not link.sink.has_room:
                link.dropped += 1
                raise InboxFull(
                    f"{link.sink.name!r} has {len(link.sink.inbox)} messages waiting: publish "
                    "less, or give the link another policy"
                )
        return links

    def offer(self, link: Link, message: Message, worker: Seat | None) -> Verdict:
        """Deliver a message if that is possible now.

        ``worker`` is the module whose worker publishes; ``None`` for a thread of somebody else's.
        Where its waiting would never end, because the sink waits for it, the inbox takes the
        message beyond its size. Raises ``InboxFull`` at ``EXCESS_MAX``.
        """
        sink = link.sink
        if worker is not None:
            worker.awaited = None
        if not link.is_there:
            return Verdict.GONE
        if not sink.has_room:
            if link.policy is LinkPolicy.DROP_NEWEST:
                link.dropped += 1
                return Verdict.DROPPED
            if link.policy is LinkPolicy.DROP_OLDEST:
                link.dropped += 1
                sink.inbox.popleft()
            elif self._must_wait(sink, worker):
                return Verdict.WAIT
        link.delivered += 1
        sink.inbox.append(message)
        return Verdict.DELIVERED

    def _must_wait(self, sink: Seat, worker: Seat | None) -> bool:
        if worker is None:
            return True
        if self.may_await(worker, sink):
            worker.awaited = sink
            return True
        if len(sink.inbox) >= sink.size + EXCESS_MAX:
            raise InboxFull(
                f"{worker.name!r} and {sink.name!r} send each other more than they receive: "
                f"{len(sink.inbox)} messages wait. Break the circle of links, or publish less"
            )
        return False

    def may_await(self, worker: Seat, other: Seat) -> bool:
        """Tell whether a worker may wait for another module: not if that one waits for it."""
        # Each waits for one other at most, and no circle ever began: the walk ends.
        seat: Seat | None = other
        while seat is not None:
            if seat is worker:
                return False
            seat = seat.awaited
        return True
