"""Every limit and pace of the QoS-2 broker, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from endpoint import arguments
from wire.limits import KIB, MIB

PUBLISHER_PORT: Final = 4060
"""Where publishers connect, if ``PUBLISHER_PORT`` says nothing else. At the seed's 4040 is
the page of a job of Spark."""

CONSUMER_PORT: Final = 4061
"""Where consumers connect, if ``CONSUMER_PORT`` says nothing else. At 4041 is the page of a second
job of Spark."""

LINE_SIZE_MAX: Final = 64 * KIB
"""Bytes of a line with its end. Longer payloads travel in several lines, or with ``lengths``."""

MESSAGE_SIZE_MAX: Final = MIB
"""Bytes of a payload: a connection holds two of them at most."""

UNFINISHED_SIZE_MAX: Final = 64 * MIB
"""Bytes of all messages that were begun and not released, and of all lines without an end:
sixty-four of the largest messages. A thousand connections at their own limits would hold gigabytes.
Beyond, the connection that holds most is cut, and its publisher sends the message again."""

LINES_AT_ONCE: Final = 256
"""Lines of one connection that are dealt with before others have their turn: a millisecond or two.
What is received at once may be thirty thousand lines."""

NAME_SIZE_MAX: Final = 78
"""Bytes of a topic's or client's name. A topic's is the name of a file, with three letters for each
byte that is none of a plain letter; files' names end at 255, and SQLite appends to them."""

TOPICS_OF_MESSAGE_MAX: Final = 64
"""Topics that one message is published on: it is written once for each."""

TOPICS_OF_CONSUMER_MAX: Final = 256
"""Topics that one connection subscribes to: each has entries read ahead."""

TOPICS_MAX: Final = 1_024
"""Topics of a broker beside ``dead_letter``: each is a log with a file and a task."""

TOPICS_OF_PRINCIPAL_MAX: Final = TOPICS_MAX // 2
"""Topics that one principal has made: one that makes topics without end leaves as many to all
others. Clients without a name are one principal."""

CONSUMERS_MAX: Final = 4_096
"""Names of consumers: twice as many as can be connected. Each has a place in every topic of which
it has had a message, for ever: at most some hundred megabytes of the broker's store."""

CONSUMERS_OF_PRINCIPAL_MAX: Final = CONSUMERS_MAX // 2
"""Names of consumers that one principal has made, as with its topics."""

CONNECTIONS_MAX: Final = 2_000
"""Clients at both ports together, and half of the files that the process may open at most: raise
``ulimit -n`` for more. For one more a publisher makes room that is silent, or it is refused."""

ID_MAX: Final = (1 << 63) - 1
"""The largest message id of a publisher: logs number their producers' entries so."""

MISTAKES_MAX: Final = 100
"""Errors in a row after which a connection is closed: who is answered by nothing but errors does
not read them."""

UNFINISHED: Final = "TOO MUCH IS UNFINISHED"
"""What a publisher is told whose unfinished message made room for others. Trying again helps."""

QUOTA_EXCEEDED: Final = "QUOTA EXCEEDED"
"""What a publisher is told whose message has no room. Trying again helps, once there is some."""

TOPIC_DELETED: Final = "TOPIC DELETED"
"""What a consumer is told whose topic was deleted. It may come back, and makes the topic anew."""

REASON_SIZE_MAX: Final = 200
"""Characters of a reason that are kept with a dead letter."""

READ_AHEAD: Final = 16
"""Messages read at a time from a topic for one consumer."""

RECEIVE_SIZE: Final = 64 * KIB
"""Bytes taken from a connection at a time."""

BURIAL_TOPIC: Final = "dead_letter"
"""The topic of dead letters: the seed's."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the broker waits for what. Seconds."""

    acknowledge_seconds: float = 120.0
    """For a consumer's PUBREC or PUBCOMP: a person has to find out an MD5."""
    silence_seconds: float = 300.0
    """For the next complete line of a publisher, or of a consumer without subscriptions."""
    send_seconds: float = 30.0
    """For a client to take what is sent to it."""
    resend_seconds: float = 0.5
    """Before the first resend; doubled for each one that follows."""
    resend_seconds_max: float = 30.0
    """Before any resend, at most."""
    resends_max: int = 3
    """Resends before a message becomes a dead letter: the seed's."""
    empty_seconds: float = 3600.0
    """Without use, before an empty topic vanishes of which no consumer has had a message. The
    keeper does not know consumers that wait at another broker: each of them connects anew, which
    once an hour costs next to nothing."""

    def __post_init__(self) -> None:
        """Check the arguments."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "resends_max":
                arguments.count(each.name, value, least=0)
            else:
                object.__setattr__(self, each.name, arguments.seconds(each.name, value))

    def pause(self, failures: int) -> float:
        """Give the seconds to wait after so many failures (from one)."""
        return min(self.resend_seconds_max, self.resend_seconds * 2.0 ** min(failures - 1, 30))


STAKES: Final = "read and write the topics of this broker"
"""What an exposed port would let anybody do."""
