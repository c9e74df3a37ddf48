"""What endpoints of a group say besides the group's messages: who they are, and what they ask.

A request travels to the leader, and its answer back. Neither is repeated by itself: an asker asks
again after a time, and the machine knows what was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from handshake.access import Right
from stores.group.effects import Setback
from stores.group.membership import MemberStatus
from stores.group.messages import Message
from stores.group.positions import MemberId


@dataclass(frozen=True, slots=True)
class Greeting:
    """Endpoint to all, or in answer to one: this is the replica here, and what it knows."""

    voters: tuple[str, ...]
    """The names that were declared to it, in their order."""
    is_question: bool
    """True if the others are to answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Endpoint to the leader: have this judged."""

    ticket: int
    request: object
    """The machine's own."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Leader to endpoint: what came of it. A majority has it."""

    ticket: int
    answer: object
    """The machine's own."""


class Order(Enum):
    """What a person may have a group do with one of its members."""

    ADD = "add"
    REMOVE = "remove"
    LEAD = "lead"
    TELL = "tell"
    """Change nothing, and say who there is."""


@dataclass(frozen=True, slots=True)
class Steer:
    """Endpoint to the leader: have this done, or say why it is not. Asked again until it is."""

    ticket: int
    order: Order
    name: str
    """Of the member; of no meaning where nothing changes."""


@dataclass(frozen=True, slots=True)
class Steered:
    """Leader to endpoint: it is done, or this is what is in the way now."""

    ticket: int
    is_done: bool
    text: str
    members: tuple[MemberStatus, ...]
    """What the leader knows of all members."""


@dataclass(frozen=True, slots=True)
class Declined:
    """Endpoint to endpoint: it has no answer here."""

    ticket: int
    setback: Setback


@dataclass(frozen=True, slots=True)
class Barred:
    """Endpoint to endpoint: a letter of yours was not taken. It is never answered itself."""

    right: Right
    """What you lack: ``READ``, ``WRITE`` or ``VOTE``."""
    ticket: int | None
    """Of the ``Ask``, if it was one."""
    text: str


@dataclass(frozen=True, slots=True)
class Farewell:
    """Endpoint to all: the replica here closes. A hint, as a connection that was reset is one."""


Word = Greeting | Ask | Answered | Declined | Barred | Steer | Steered | Farewell


@dataclass(frozen=True, slots=True)
class Letter:
    """All that one payload holds."""

    sender: MemberId
    group: bytes | None
    """The group's id; ``None`` if the sender knows of none. Only ``Greeting`` and ``Barred``
    go without."""
    content: Message | Word
