"""What the sessions of the broker ask their connection to do, and the messages they pass on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from peermesh.brokers.qos2.commands import Login


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a topic, on its way to one consumer."""

    topic: str
    offset: int
    payload: bytes

    @property
    def id(self) -> str:
        """The id on the wire. Numbers of a topic only grow, from one."""
        return f"{self.topic}/{self.offset + 1}"


@dataclass(frozen=True, slots=True)
class Send:
    """Send this to the client."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Let what was sent arrive, and end the connection. It says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Tell me after so many seconds, unless I say otherwise before; never for ``None``."""

    seconds: float | None


@dataclass(frozen=True, slots=True)
class Store:
    """Make a message durable on all its topics, then call ``stored``, or ``refused``."""

    publisher: str | None
    """The name under which ``id`` tells a repetition; ``None`` for the old dialogue."""
    id: int | None
    topics: tuple[str, ...]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Enter:
    """Be the only session of this consumer, then call ``entered``, or ``refused``."""

    login: Login


@dataclass(frozen=True, slots=True)
class Open:
    """Make a topic ready to be read, then call ``opened``, or ``refused``."""

    topic: str


@dataclass(frozen=True, slots=True)
class Fetch:
    """Call ``fetched`` with this number and the next message of these topics, when there is one.

    It replaces an earlier one.
    """

    number: int
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Make durable that the consumer has this message, then call ``committed``, or ``lost``."""

    delivery: Delivery


@dataclass(frozen=True, slots=True)
class Bury:
    """Make durable that the message is a dead letter, once, and that the consumer is done with it.

    Then call ``buried``, or ``lost``.
    """

    delivery: Delivery
    reason: str
    attempts: int


Step = Send | Close | Wait | Store | Enter | Open | Fetch | Commit | Bury
Steps = list[Step]

HTTP_REFUSED: Final = (Send(b"ERROR NO HTTP HERE\n"), Close("it spoke HTTP"))
"""How every session answers HTTP, whenever it comes: a web page may be behind it."""

STRANGER_REFUSED: Final = Close("it made a mistake before it was known")
"""How a session ends at the first mistake of a client that has not shown that it knows the
dialogue: whatever follows could be of another protocol, obeyed by accident."""
