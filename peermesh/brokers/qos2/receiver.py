"""A consumer's own side of its connection: tells repetitions, and acknowledges what is dealt with.

What has to outlive the consumer is its caller's: the number of the last message of each topic that
it has dealt with, kept together with what was done. A receiver is made for each connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from peermesh.brokers.qos2.commands import LENGTHS
from peermesh.brokers.qos2.errors import DialogueError
from peermesh.brokers.qos2.limits import MESSAGE_SIZE_MAX
from peermesh.brokers.qos2.lines import digest, is_end
from peermesh.brokers.qos2.steps import Close, Send


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message to deal with, for the first time as far as anybody remembers."""

    topic: str
    number: int
    """Numbers of a topic only grow."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class Deal:
    """Deal with this message, and remember its number; then call ``handled`` or ``failed``."""

    message: Incoming


@dataclass(frozen=True, slots=True)
class Declined:
    """The broker refused the login or a topic."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """The broker will never send the message with this id again."""

    id: str


ReceiverStep = Send | Deal | Released | Declined | Close


class Phase(Enum):
    """What the broker has to say next, or the caller to do."""

    LINES = "a line"
    BODY = "a body"
    END = "END"
    HANDLING = "the caller"


class Receiver:
    """The broker's lines in, steps out. One message at a time."""

    def __init__(self, name: str, topics: Iterable[str], handled: Mapping[str, int]) -> None:
        """Begin before the connection is used; ``handled`` is what the caller remembers."""
        self._name = name
        self._topics = tuple(topics)
        self._handled = dict(handled)
        self._phase = Phase.LINES
        self._topic = ""
        self._id = ""
        self._number = 0
        self._length = 0
        self._payload = b""

    @property
    def is_busy(self) -> bool:
        """Whether lines have to wait for the caller."""
        return self._phase is Phase.HANDLING

    @property
    def body_size(self) -> int | None:
        """How many bytes are wanted next; ``None`` for a line."""
        return self._length + 1 if self._phase is Phase.BODY else None

    def start(self) -> list[ReceiverStep]:
        """Say who we are, and what we want."""
        lines = [
            f"LOGIN {self._name} {LENGTHS}\n",
            *(f"SUBSCRIBE {each}\n" for each in self._topics),
        ]
        return [Send("".join(lines).encode())]

    def receive(self, data: bytes) -> list[ReceiverStep]:
        """Take in a line or a body; raises ``DialogueError`` if the broker is none of ours."""
        assert not self.is_busy
        match self._phase:
            case Phase.BODY:
                self._payload = data[:-1]
                self._phase = Phase.END
                return []
            case Phase.END:
                if not is_end(data):
                    raise DialogueError(f"END was expected, not {data[:80]!r}")
                return self._on_message()
            case _:
                return self._on_line(data)

    def _on_line(self, line: bytes) -> list[ReceiverStep]:
        match line.decode("utf-8", "replace").split():
            case ["OK", *_]:
                return []
            case ["BEGIN", topic, *attributes]:
                return self._on_begin(topic, attributes)
            case ["PUBREL", word]:
                return [Send(f"PUBCOMP {word}\n".encode()), Released(word.removeprefix("id="))]
            case ["ERROR", *reason]:
                return [Declined(" ".join(reason)), Close("the broker refused")]
            case _:
                raise DialogueError(f"a message was expected, not {line[:80]!r}")

    def _on_begin(self, topic: str, attributes: list[str]) -> list[ReceiverStep]:
        found = dict(word.partition("=")[::2] for word in attributes)
        number = found.get("id", "").rpartition("/")[2]
        length = found.get("length", "")
        if not (number.isascii() and number.isdigit() and length.isascii() and length.isdigit()):
            raise DialogueError("BEGIN came without id or length")
        if int(length) > MESSAGE_SIZE_MAX:
            raise DialogueError("a message came that is too large")
        self._topic, self._id = topic, found["id"]
        self._number, self._length = int(number), int(length)
        self._phase = Phase.BODY
        return []

    def _on_message(self) -> list[ReceiverStep]:
        if self._number <= self._handled.get(self._topic, 0):
            return self._acknowledge()
        self._phase = Phase.HANDLING
        return [Deal(Incoming(self._topic, self._number, self._payload))]

    def handled(self) -> list[ReceiverStep]:
        """Go on: the caller has dealt with the message, and remembers that for good."""
        assert self.is_busy
        self._handled[self._topic] = self._number
        return self._acknowledge()

    def _acknowledge(self) -> list[ReceiverStep]:
        self._phase = Phase.LINES
        return [Send(f"PUBREC {digest(self._payload)} id={self._id}\n".encode())]

    def failed(self, reason: str, *, is_final: bool = False) -> list[ReceiverStep]:
        """Have it sent again later, or made a dead letter at once."""
        assert self.is_busy
        self._phase = Phase.LINES
        words = ["NACK", f"id={self._id}", *(["final"] if is_final else []), *reason.split()]
        return [Send(" ".join(words).encode() + b"\n")]
