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
from enum import Enum, auto
from typing import Final

from peermesh.brokers.modules.errors import (
    AddLinkError,
    BrokerError,
    InboxFull,
    InvalidArgument,
    RemoveLinkError,
)
from peermesh.brokers.modules.message import Message
from peermesh.brokers.modules.seat import Inbox, Link, LinkPolicy, ModuleId, Seat

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


class Verdict(Enum):
    """What became of a message that was offered to a link."""

    DELIVERED = auto()
    DROPPED = auto()
    GONE = auto()
    """The link is not there any more."""
    WAIT = auto()
    """Offer it again when there is room."""


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
        self._names: dict[str, Seat] = {}
        self._count = 0
        self._links = 0

    # Modules.

    def add_module(
        self, name: str | None, size: int, inbox: Inbox, lock: AbstractContextManager[object]
    ) -> Seat:
        """Seat a module; ``None`` is a name made of its number.

        Raises ``InvalidArgument`` for a taken name, ``BrokerError`` when there are too many.
        """
        if len(self._seats) >= MODULES_MAX:
            raise BrokerError(f"the broker has {MODULES_MAX} modules already: use another broker")
        name = name if name is not None else f"module {self._count + 1}"
        if not 0 < len(name) <= NAME_SIZE_MAX:
            raise InvalidArgument(f"a module's name has 1 to {NAME_SIZE_MAX} characters")
        if name in self._names:
            raise InvalidArgument(f"there is a module called {name!r}: choose another name")
        return self._seat(name, size, inbox, lock)

    def _seat(
        self, name: str, size: int, inbox: Inbox, lock: AbstractContextManager[object]
    ) -> Seat:
        if not 1 <= size <= INBOX_SIZE_MAX:
            raise InvalidArgument(f"inbox_size={size}; 1 to {INBOX_SIZE_MAX} messages are allowed")
        self._count += 1
        number = ModuleId(self._count)
        seat = self._seats[number] = self._names[name] = Seat(number, name, size, inbox, lock)
        return seat

    def replace_module(
        self, module: ModuleId | str, size: int, inbox: Inbox, lock: AbstractContextManager[object]
    ) -> tuple[Seat, Seat]:
        """Lead all links of a module to and from a new one of its name; give both.

        What the old one has in its inbox still goes along its own links until ``finish``. Raises
        ``BrokerError`` when it is not there.
        """
        old = self.seat(module)
        new = self._seat(old.name, size, inbox, lock)
        del self._seats[old.number]
        old.is_leaving = True
        new.awaited = old
        new.sources, old.sources = old.sources, {}
        for link in new.sources.values():
            with link.source.lock:
                link.lead_to(new)
        for link in old.links:
            link.heir = self._link(new, link.sink, link.policy)
        return old, new

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
        seat = self._names.get(module) if isinstance(module, str) else self._seats.get(module)
        if seat is None:
            raise BrokerError(f"there is no module {module!r}: it was removed, or never added")
        return seat

    def seats(self) -> list[Seat]:
        """List all modules, in the order in which they were added."""
        return list(self._seats.values())

    # Links.

    def add_link(self, source: ModuleId | str, sink: ModuleId | str, policy: LinkPolicy) -> None:
        """Lead what one module publishes to another; raises ``AddLinkError``."""
        begin, end = self._ends(source, sink, AddLinkError)
        if begin.number in end.sources:
            raise AddLinkError(f"{begin.name!r} is linked to {end.name!r} already")
        if self._links >= LINKS_MAX:
            raise AddLinkError(f"the broker has {LINKS_MAX} links already: use another broker")
        self._link(begin, end, policy)

    def _link(self, begin: Seat, end: Seat, policy: LinkPolicy) -> Link:
        self._links += 1
        link = end.sources[begin.number] = Link(begin, end, policy)
        with begin.lock:
            links = begin.links
            begin.set_links((*links, link))
        return link

    def change_link(self, source: ModuleId | str, sink: ModuleId | str, policy: LinkPolicy) -> Seat:
        """Give a link another policy, and give its sink; raises ``AddLinkError``."""
        link = self._find(source, sink, AddLinkError)
        with link.source.lock:
            link.policy = policy
            link.source.set_links(link.source.links)
        return link.sink

    def remove_link(self, source: ModuleId | str, sink: ModuleId | str) -> Seat:
        """End a link, and give its sink; raises ``RemoveLinkError``."""
        link = self._find(source, sink, RemoveLinkError)
        self._unlink(link)
        return link.sink

    def _find(self, source: ModuleId | str, sink: ModuleId | str, kind: type[BrokerError]) -> Link:
        begin, end = self._ends(source, sink, kind)
        link = end.sources.get(begin.number)
        if link is None:
            raise kind(f"{begin.name!r} is not linked to {end.name!r}")
        return link

    def _ends(
        self, source: ModuleId | str, sink: ModuleId | str, kind: type[BrokerError]
    ) -> tuple[Seat, Seat]:
        try:
            return self.seat(source), self.seat(sink)
        except BrokerError as error:
            raise kind(str(error)) from None

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
