"""One module's place in its broker, and the links from there: what publishing passes. Pure.

A source's own lock is all that ``deliver`` needs. What finds an inbox full is late, and the
switchboard's: see there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import NewType, Protocol

from peermesh.brokers.modules.errors import BrokerError, InboxFull
from peermesh.brokers.modules.message import Message

ModuleId = NewType("ModuleId", int)
"""The seed's ``MODULE_HANDLE``: names a module in its broker, and no other one ever after."""


@unique
class LinkPolicy(StrEnum):
    """What becomes of a message for an inbox that is full."""

    WAIT = "wait"
    """The publisher waits: nothing is lost."""
    REFUSE = "refuse"
    """``publish`` raises ``InboxFull``, and no module gets the message."""
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"


class Inbox(Protocol):
    """A queue of messages that any thread may use without a lock; its worker ends at ``None``."""

    def put(self, message: Message | None) -> None:
        """Append a message, or the end, which is the last that comes."""

    def qsize(self) -> int:
        """Count what waits."""

    def take(self) -> Message | None:
        """Take the oldest message; ``None`` if there is none."""


@dataclass(slots=True, eq=False)
class Link:
    """A way from a source to a sink, and how many messages went along it."""

    source: Seat
    sink: Seat
    policy: LinkPolicy
    is_there: bool = True
    delivered: int = 0
    dropped: int = 0
    heir: Link | None = None
    """The same link of the module that took the source's place."""
    put: Callable[[Message], object] = field(init=False)
    qsize: Callable[[], int] = field(init=False)

    def __post_init__(self) -> None:
        self.lead_to(self.sink)

    def lead_to(self, sink: Seat) -> None:
        """Deliver to this module from now on."""
        self.sink = sink
        self.put = sink.inbox.put
        self.qsize = sink.inbox.qsize

    def latest(self) -> Link:
        """Give the link that a message for this one goes along now."""
        link = self
        while not link.is_there and link.heir is not None:
            link = link.heir
        return link


@dataclass(slots=True, eq=False)
class Seat:
    """One module's place in the broker."""

    number: ModuleId
    name: str
    size: int
    inbox: Inbox
    lock: AbstractContextManager[object]
    """Held while the module publishes, and while its links change."""
    awaited: Seat | None = None
    """The module whose room, or whose end, this one's worker waits for."""
    limit: int = field(init=False)
    """Messages from which on the inbox is full; 0 while messages wait for room."""
    links: tuple[Link, ...] = ()
    """Links from here, in the order in which they were added."""
    sources: dict[ModuleId, Link] = field(default_factory=dict)
    """Links to here, by the modules that they come from."""
    is_leaving: bool = False
    """Whether it was removed: nothing more comes in."""
    is_gone: bool = False
    """Whether its worker has ended: nothing more goes out."""
    is_watched: bool = False
    """Whether publishing has to look at more than the sinks' room: see ``_refuse``."""
    received: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self.limit = self.size

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
