"""What a history can tell besides operations: a closed union of things that were seen to happen.

Each checker says which of them it needs. A field of the type ``Found`` is empty for "nothing", so
that no value has to stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from wire.scalars import Value

Found: TypeAlias = tuple[Value, ...]
"""One value, or none: ``(value,)`` is what a key holds, ``()`` says that there is no such key."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A master made a change visible, in this order. Changes of one mutation share a revision."""

    revision: int
    key: Value
    after: Found
    kind: str = ""
    """What the change was called, such as ``insert``; empty if nobody cares."""


@dataclass(frozen=True, slots=True)
class WatchBegun:
    """A watch began, or was resumed: it owes every change with a revision after this one."""

    watch: str
    revision: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A watch told of a change. Changes that came in one list share the number of the delivery."""

    watch: str
    delivery: int
    revision: int
    key: Value
    after: Found
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A watch said that it had told of every change up to this revision."""

    watch: str
    revision: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message reached a consumer, who is the process that recorded this."""

    message: Value


@dataclass(frozen=True, slots=True)
class Position:
    """Where the process stood in something numbered: an offset, a revision, a sequence."""

    of: str
    number: int


@dataclass(frozen=True, slots=True)
class Peered:
    """The process had a peering with another endpoint, over this connection."""

    peer: str
    connection: str


@dataclass(frozen=True, slots=True)
class Unpeered:
    """The process had that peering no longer."""

    peer: str
    connection: str


@dataclass(frozen=True, slots=True)
class Published:
    """The process published a message that may cross so many links."""

    message: Value
    ttl: int


@dataclass(frozen=True, slots=True)
class Crossed:
    """A message came to the process over a link, from this neighbour."""

    message: Value
    sender: str


Observation: TypeAlias = (
    Commit
    | WatchBegun
    | Watched
    | Bookmark
    | Delivered
    | Position
    | Peered
    | Unpeered
    | Published
    | Crossed
)
"""Whatever a history may hold besides operations."""

OBSERVATIONS: dict[str, type[Observation]] = {
    "commit": Commit,
    "watch_begun": WatchBegun,
    "watched": Watched,
    "bookmark": Bookmark,
    "delivered": Delivered,
    "position": Position,
    "peered": Peered,
    "unpeered": Unpeered,
    "published": Published,
    "crossed": Crossed,
}
"""Their names in a line of a history."""
