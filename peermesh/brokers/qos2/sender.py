"""A publisher's own side of its connection: says a message until it is known to be durable.

What has to outlive the publisher is its caller's: the next id, and the message with that id until
``Completed``. A sender is made for each connection, and begins with the message again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from peermesh.brokers.qos2.commands import LENGTHS
from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.steps import Close, Send


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. Of one publisher's ids, later messages have larger ones."""

    id: int
    topics: tuple[str, ...]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Completed:
    """The message with this id is durable on all its topics: forget it."""

    id: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The broker refused the message with this id, or the login if there is none."""

    id: int | None
    reason: str


SenderStep = Send | Completed | Rejected | Close


class Phase(Enum):
    """What the broker has to say next."""

    ENTERING = "OK"
    IDLE = "nothing"
    SENT = "PUBREC"
    RELEASED = "PUBCOMP"


class Sender:
    """Messages and the broker's lines in, steps out."""

    def __init__(self, name: str) -> None:
        """Begin before the connection is used."""
        self._name = name
        self._phase = Phase.ENTERING
        self._message: Outgoing | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the next message may be given."""
        return self._phase is Phase.IDLE

    def start(self) -> list[SenderStep]:
        """Say who we are."""
        return [Send(f"LOGIN {self._name} {LENGTHS}\n".encode())]

    def publish(self, message: Outgoing) -> list[SenderStep]:
        """Send a message."""
        assert self.is_idle
        self._message = message
        self._phase = Phase.SENT
        head = f"BEGIN {' '.join(message.topics)} id={message.id} length={len(message.payload)}\n"
        return [Send(head.encode() + message.payload + b"\nEND\n")]

    def receive(self, line: bytes) -> list[SenderStep]:
        """Take in a line; raises ``DialogueError`` if the broker is none of ours."""
        words = line.decode("utf-8", "replace").split()
        message = self._message
        named = [] if message is None else [f"id={message.id}"]
        match self._phase, words:
            case _, ["ERROR", *reason]:
                self._message, self._phase = None, Phase.IDLE
                number = None if message is None else message.id
                return [Rejected(number, " ".join(reason)), Close("the broker refused")]
            case Phase.ENTERING, ["OK", *_]:
                self._phase = Phase.IDLE
                return []
            case Phase.SENT, ["PUBREC", *rest] if rest == named:
                self._phase = Phase.RELEASED
                return [Send(f"PUBREL {named[0]}\n".encode())]
            case Phase.RELEASED, ["PUBCOMP", *rest] if rest == named and message is not None:
                self._message, self._phase = None, Phase.IDLE
                return [Completed(message.id)]
        raise DialogueError(f"{self._phase.value} was expected, not {line[:80]!r}")
