"""What an edge broker and its clients tell of themselves, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from peermesh.brokers.edge.lifecycle import Ports, State, Topic


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """One topic at the broker."""

    topic: str
    state: str
    """``asleep``, ``waiting`` (for ports), ``opening``, ``open`` or ``closing``."""
    ports: Ports | None
    """Receiver and sender."""
    publishers: int
    subscribers: int
    accepted: int
    delivered: int
    """Messages given to subscribers: each counts once for each of them."""
    duplicates: int
    """Messages that came once more, and were taken once."""
    waiting: int
    dropped: int

    @classmethod
    def of(cls, topic: Topic) -> ChannelStatistics:
        """Count."""
        channel = topic.channel
        return cls(
            topic=channel.topic,
            state=topic.state.name.lower(),
            ports=topic.ports if topic.state is State.OPEN else None,
            publishers=topic.publishers,
            subscribers=len(channel.subscriptions),
            accepted=channel.position,
            delivered=channel.delivered,
            duplicates=channel.duplicates,
            waiting=channel.waiting_count,
            dropped=channel.dropped,
        )


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """A broker at one moment."""

    is_active: bool
    """Whether it serves; otherwise it stands by."""
    connections: int
    ports_free: int
    channels: tuple[ChannelStatistics, ...]


@dataclass(frozen=True, slots=True)
class RouteStatistics:
    """One topic at a publisher or subscriber."""

    topic: str
    is_direct: bool
    """Whether it goes by the topic's own channel, rather than by the default channel."""
    count: int
    """Messages accepted by the broker, or received from it."""
    waiting: int
    """Messages in the buffer."""
    repeated: int
    """Messages sent once more, or received once more and taken once."""
