"""The broker's channel map: when a topic gets ports of its own, and when it loses them. Pure.

A topic's messages are accepted from the first one on, by the default channel; its own ports are
opened meanwhile. A topic that only has subscribers sleeps until its first message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from peermesh.brokers.edge.relay import Relay
from wire.errors import LimitExceeded

TOPICS_MAX: Final = 8_192
"""Topics of a broker: with two listening sockets each they use a quarter of all ports there are."""

IDLE_SECONDS: Final = 5.0
"""How long a channel without publishers and subscribers stays: some reconnections."""

ANY_PORT = 0  # One that the system chooses.

Ports = tuple[int, int]


class PortList:
    """The ports that are free for channels, taken in pairs and given back (seed: port list)."""

    def __init__(self, ports: Iterable[int] | None = None) -> None:
        """Use these ports only; without a list the system chooses, and what it chose is reused."""
        self._is_open_ended = ports is None
        self._free = deque(dict.fromkeys(ports or ()))

    @property
    def free(self) -> int:
        """Count the ports that are free, and known."""
        return len(self._free)

    def take(self) -> Ports | None:
        """Take two ports, the longest unused first; ``None`` until some are given back."""
        if len(self._free) >= 2:
            return self._free.popleft(), self._free.popleft()
        return (ANY_PORT, ANY_PORT) if self._is_open_ended else None

    def give_back(self, ports: Ports) -> None:
        """Let ports be used again."""
        self._free.extend(port for port in ports if port != ANY_PORT)


class State(Enum):
    """What a topic has."""

    ASLEEP = auto()
    """Subscribers, perhaps, and no message yet: no ports."""
    WAITING = auto()
    """Messages, and no ports, because none are free; the default channel carries them."""
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


@dataclass(frozen=True, slots=True)
class OpenPorts:
    """Listen at these ports for the topic, and register them; then say ``opened``."""

    topic: str
    ports: Ports


@dataclass(frozen=True, slots=True)
class ClosePorts:
    """Take the topic out of the registry, and end its ports; then say ``closed``."""

    topic: str


Step = OpenPorts | ClosePorts


@dataclass(slots=True, eq=False)
class Topic:
    """A channel, and what its topic has."""

    channel: Relay
    state: State = State.ASLEEP
    ports: Ports | None = None
    publishers: int = 0
    """Connections at the topic's own receiver port."""
    idle_since: float | None = None

    @property
    def is_used(self) -> bool:
        """Tell whether a publisher, a subscriber or a message is left."""
        channel = self.channel
        return bool(self.publishers or channel.has_subscribers or channel.waiting_count)


class ChannelMap:
    """All topics of a broker, and the ports that they share."""

    def __init__(self, name: str, ports: PortList, idle_seconds: float = IDLE_SECONDS) -> None:
        """Begin without topics; ``name`` tells this broker's channels from another's."""
        self._name = name
        self._count = 0
        self._idle_seconds = idle_seconds
        self.ports = ports
        self.is_held = False
        """Whether topics that are made now acknowledge nothing yet."""
        self._topics: dict[str, Topic] = {}
        self._waiting: dict[str, None] = {}

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over the topics."""
        return iter(self._topics.values())

    def open(self) -> list[tuple[str, Ports]]:
        """Give the topics whose ports are open."""
        return [
            (name, topic.ports)
            for name, topic in self._topics.items()
            if topic.state is State.OPEN and topic.ports is not None
        ]

    def find(self, topic: str) -> Topic | None:
        """Find a topic."""
        return self._topics.get(topic)

    def make(self, topic: str) -> Topic:
        """Find a topic, or make it; raises ``LimitExceeded``."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= TOPICS_MAX:
                raise LimitExceeded(f"the broker has {TOPICS_MAX} topics already: use fewer")
            self._count += 1
            name = f"{self._name}/{self._count}"
            channel = Relay(topic, name, is_held=self.is_held)
            found = self._topics[topic] = Topic(channel)
        return found

    def clear(self) -> None:
        """Forget all topics, whose ports were given back."""
        for topic in self._topics.values():
            self._give_back(topic)
        self._topics.clear()
        self._waiting.clear()

    def message_came(self, topic: Topic) -> list[Step]:
        """Give the topic ports, with its first message."""
        topic.idle_since = None
        if topic.state is not State.ASLEEP:
            return []
        return self._open(topic)

    def _open(self, topic: Topic) -> list[Step]:
        ports = self.ports.take()
        if ports is None:
            topic.state = State.WAITING
            self._waiting[topic.channel.topic] = None
            return []
        topic.state = State.OPENING
        topic.ports = ports
        return [OpenPorts(topic.channel.topic, ports)]

    def opened(self, name: str, ports: Ports) -> None:
        """The topic's ports are open, and registered."""
        topic = self._topics[name]
        topic.state = State.OPEN
        topic.ports = ports

    def not_opened(self, name: str) -> list[Step]:
        """Somebody else has one of the ports: others are tried, these again later."""
        topic = self._topics[name]
        self._give_back(topic)
        return self._open(topic)

    def _give_back(self, topic: Topic) -> None:
        if topic.ports is not None:
            self.ports.give_back(topic.ports)
        topic.ports = None

    def closed(self, name: str, *, for_good: bool = False) -> list[Step]:
        """The topic's ports are free: somebody who waits may have them."""
        topic = self._topics[name]
        self._give_back(topic)
        if topic.is_used and not for_good:  # Somebody came by the default channel meanwhile.
            return self._open(topic)
        del self._topics[name]
        return self._serve_waiting()

    def _serve_waiting(self) -> list[Step]:
        for name in list(self._waiting):
            del self._waiting[name]
            steps = self._open(self._topics[name])
            if steps:
                return steps
        return []

    def tick(self, now: float) -> list[Step]:
        """Close what nobody has used for the idle time."""
        steps: list[Step] = []
        for name, topic in list(self._topics.items()):
            if topic.is_used or topic.state in (State.OPENING, State.CLOSING):
                topic.idle_since = None
            elif topic.idle_since is None:
                topic.idle_since = now
            elif now - topic.idle_since >= self._idle_seconds:
                steps += self._end(name, topic)
        return steps

    def _end(self, name: str, topic: Topic) -> list[Step]:
        if topic.state is State.OPEN:
            topic.state = State.CLOSING
            return [ClosePorts(name)]
        self._waiting.pop(name, None)
        del self._topics[name]
        return []
