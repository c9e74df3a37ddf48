"""Who is linked to whom, what waits for whom, and who may wait: the broker's decisions. Pure.

The broker holds two kinds of locks around it. The table's lock (the seed's ``modules_lock``) is for
all that changes modules and links. A source's own lock is for its links, their numbers and what it
publishes: ``deliver`` needs no other. A change of links needs both, the table's first, so that
nothing goes by a link once it was removed.

A message that finds an inbox full is late, and is offered again under both locks: policies, waiting
and circles concern late messages alone. From the first late message that waits, the inbox has no
room at all (``limit`` is 0) until its worker has it half empty. So none of those that wait is
passed for ever by others that come at the right moment.

A worker that waits for another's inbox, or for its end, holds up what waits for itself. Waiting in
a circle would never end, so none begins: see ``offer`` and ``may_await``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, StrEnum, auto, unique
from typing import Final, NewType, Protocol

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
"""Messages beyond its size that an inbox takes of senders that may not wait. A circle of links in
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


class Inbox(Protocol):
    """A queue of messages that any thread may use without a lock; its worker ends at ``None``."""

    def put(self, message: Message | None) -> None:
        """Append a message, or the end, which is the last that comes."""

    def qsize(self) -> int:
        """Count what waits."""

    def take(self) -> Message | None:
        """Take the oldest message; ``None`` if there is none."""


class Link:
    """A way from a source to a sink. Mutable and slotted: it counts every message."""

    __slots__ = ("delivered", "dropped", "is_there", "policy", "put", "qsize", "sink", "source")

    def __init__(self, source: Seat, sink: Seat, policy: LinkPolicy) -> None:
        self.source = source
        self.sink = sink
        self.policy = policy
        self.put = sink.inbox.put
        self.qsize = sink.inbox.qsize
        self.is_there = True
        self.delivered = 0
        self.dropped = 0


class Seat:
    """One module's place. Mutable and slotted: every message passes it."""

    __slots__ = (
        "awaited",
        "failed",
        "inbox",
        "is_gone",
        "is_leaving",
        "is_watched",
        "limit",
        "links",
        "lock",
        "name",
        "number",
        "received",
        "size",
        "sources",
    )

    def __init__(
        self,
        number: ModuleId,
        name: str,
        size: int,
        inbox: Inbox,
        lock: AbstractContextManager[object],
    ) -> None:
        self.number = number
        self.name = name
        self.size = size
        self.limit = size
        """Messages from which on the inbox is full; 0 while messages wait for room."""
        self.inbox = inbox
        self.lock = lock
        """Held while the module publishes, and while its links change."""
        self.links: tuple[Link, ...] = ()
        """Links from here, in the order in which they were added."""
        self.sources: dict[ModuleId, Link] = {}
        self.is_leaving = False
        """Whether it was removed: nothing more comes in."""
        self.is_gone = False
        """Whether its worker has ended: nothing more goes out."""
        self.is_watched = False
        """Whether publishing has to look at more than the sinks' room: see ``_refuse``."""
        self.awaited: Seat | None = None
        """The module whose room, or whose end, this one's worker waits for."""
        self.received = 0
        self.failed = 0

    def deliver(self, message: Message) -> list[Link] | tuple[()]:
        """Put a message in the inbox of every sink that has room, and give the other links.

        The caller holds ``lock``. Two sources that publish at once may both find the last room: an
        inbox holds a message more for each. Raises ``InboxFull`` for a link that refuses, and
        ``BrokerError`` when the module is gone. SRS_BROKER_17_010.
        """
        late: list[Link] | tuple[()] = ()
        if self.is_watched:
            self._refuse()
        for link in self.links:
            if link.qsize() < link.sink.limit or link.policy is LinkPolicy.REFUSE:
                link.put(message)
                link.delivered += 1
            else:
                late = [*late, link]
        return late

    def _refuse(self) -> None:
        if self.is_gone:
            raise BrokerError(f"the module {self.name!r} was removed: it can publish no more")
        for link in self.links:
            if link.policy is LinkPolicy.REFUSE and (waiting := link.qsize()) >= link.sink.size:
                link.dropped += 1
                raise InboxFull(
                    f"{link.sink.name!r} has {waiting} messages waiting: publish less, or give the"
                    " link another policy"
                )

    def reopen(self) -> bool:
        """Give room again once the inbox is half empty; the caller holds the table's lock."""
        if self.limit or self.inbox.qsize() > self.size // 2:
            return False
        self.limit = self.size
        return True

    def is_full(self) -> bool:
        """Tell whether a late message finds no room, and keep others from it then."""
        if not self.limit:
            return True
        if self.inbox.qsize() < self.size:
            return False
        self.limit = 0
        # The worker may have emptied the inbox before it could see that it has to open it.
        return not self.reopen()

    def set_links(self, links: tuple[Link, ...]) -> None:
        """Lead what is published along these links from now on."""
        self.links = links
        self.is_watched = self.is_gone or any(each.policy is LinkPolicy.REFUSE for each in links)


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
        self._seats: dict[ModuleId, Seat] = {}
        self._names: dict[str, ModuleId] = {}
        self._count = 0
        self._links = 0

    # Modules.

    def add_module(
        self, name: str | None, size: int, inbox: Inbox, lock: AbstractContextManager[object]
    ) -> Seat:
        """Seat a module; ``None`` is a name made of its number.

        Raises ``InvalidArgument`` for a taken name, ``BrokerError`` when there are too many.
        """
        if not 1 <= size <= INBOX_SIZE_MAX:
            raise InvalidArgument(f"inbox_size={size}; 1 to {INBOX_SIZE_MAX} messages are allowed")
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
        seat = self._seats[number] = Seat(number, name, size, inbox, lock)
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
        """End the links from a removed module that has received everything; give their sinks."""
        with seat.lock:
            links = seat.links
            seat.is_gone = True
            seat.set_links(links)
        for link in links:
            self._unlink(link)
        return [link.sink for link in links]

    def seat(self, module: ModuleId | str) -> Seat:
        """Find a module by id or name, without a lock; raises ``BrokerError`` if there is none."""
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
        if begin.number in end.sources:
            raise AddLinkError(f"{begin.name!r} is linked to {end.name!r} already")
        if self._links >= LINKS_MAX:
            raise AddLinkError(f"the broker has {LINKS_MAX} links already: use another broker")
        self._links += 1
        link = end.sources[begin.number] = Link(begin, end, policy)
        with begin.lock:
            links = begin.links
            begin.set_links((*links, link))

    def remove_link(self, source: ModuleId | str, sink: ModuleId | str) -> Seat:
        """End a link, and give its sink; raises ``RemoveLinkError``."""
        try:
            begin, end = self.seat(source), self.seat(sink)
        except BrokerError as error:
            raise RemoveLinkError(str(error)) from None
        link = end.sources.get(begin.number)
        if link is None:
            raise RemoveLinkError(f"{begin.name!r} is not linked to {end.name!r}")
        self._unlink(link)
        return end

    def links(self) -> list[Link]:
        """List all links."""
        return [link for seat in self._seats.values() for link in seat.links]

    def _unlink(self, link: Link) -> None:
        begin = link.source
        with begin.lock:
            link.is_there = False
            begin.set_links(tuple(each for each in begin.links if each is not link))
        del link.sink.sources[begin.number]
        self._links -= 1

    # Late messages.

    def offer(self, link: Link, message: Message, worker: Seat | None) -> Verdict:
        """Deliver a late message if that is possible now; the caller holds the table's lock.

        ``worker`` is the module whose worker publishes; ``None`` for any other thread. Where its
        waiting would never end, because the sink waits for it, the inbox takes the message beyond
        its size. Raises ``InboxFull`` at ``EXCESS_MAX``.
        """
        if worker is not None:
            worker.awaited = None
        with link.source.lock:
            return self._offer(link, message, worker)

    def _offer(self, link: Link, message: Message, worker: Seat | None) -> Verdict:
        sink = link.sink
        if not link.is_there:
            return Verdict.GONE
        if link.policy is LinkPolicy.WAIT:
            if sink.is_full() and self._must_wait(sink, worker):
                return Verdict.WAIT
        elif link.qsize() >= sink.size:
            if link.policy is LinkPolicy.DROP_NEWEST:
                link.dropped += 1
                return Verdict.DROPPED
            if sink.inbox.take() is not None:
                link.dropped += 1
        link.delivered += 1
        link.put(message)
        return Verdict.DELIVERED

    def _must_wait(self, sink: Seat, worker: Seat | None) -> bool:
        if worker is None:
            return True
        if self.may_await(worker, sink):
            worker.awaited = sink
            return True
        if (waiting := sink.inbox.qsize()) >= sink.size + EXCESS_MAX:
            raise InboxFull(
                f"{worker.name!r} and {sink.name!r} send each other more than they receive: "
                f"{waiting} messages wait. Break the circle of links, or publish less"
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
