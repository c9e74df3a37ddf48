"""The broker's core: what each message of a client does to the channels. Pure.

Whoever is connected has a number; effects name it. The driver, and the bridge to the mesh, carry
them out.
"""

from __future__ import annotations

from handshake.principals import UNPROVEN, Principal
from peermesh.brokers.edge.channel import Effect, Line
from peermesh.brokers.edge.lifecycle import ChannelMap, Step, Topic
from peermesh.brokers.edge.messages import Attach, Detach, Taken, read_data
from peermesh.brokers.edge.tree import check_edge_topic
from wire.errors import RemoteProtocolError
from wire.framing import NodeFrame

Consequence = Effect | Step


class Hall:
    """All channels of a broker, and who is connected to which."""

    def __init__(self, channels: ChannelMap) -> None:
        """Begin with nobody."""
        self.channels = channels
        self._attached: dict[Line, set[str]] = {}
        self.bridged: dict[bytes, tuple[Line, tuple[str, ...]]] = {}
        """Subscribers to whole prefixes: they attach to each topic as it comes up."""

    def data(
        self, line: Line, here: str, frame: NodeFrame, principal: Principal = UNPROVEN
    ) -> list[Consequence]:
        """A publisher sends on the default channel, or on the topic's own (``here``)."""
        name, publisher = read_data(frame)
        if here and name != here:
            raise RemoteProtocolError(f"topic {name!r} at the port of {here!r}")
        topic, effects = self.topic(name)
        steps = self.channels.message_came(topic)
        return [*effects, *topic.channel.offer(line, publisher, frame, principal), *steps]

    def refuse_data(self, publisher: bytes, name: str) -> None:
        """Messages of a publisher were not taken: those that it sends next follow on them."""
        topic = self.channels.find(name)
        if topic is not None:
            topic.channel.forget(publisher)

    def topic(self, name: str) -> tuple[Topic, list[Effect]]:
        """Find a topic, or make it, with the bridges that want it."""
        found = self.channels.find(name)
        if found is not None:
            return found, []
        topic = self.channels.make(check_edge_topic(name))
        effects: list[Effect] = []
        for client, (line, prefixes) in self.bridged.items():
            if name.startswith(prefixes):
                effects += topic.channel.attach(line, client, is_lodger=True)
        return topic, effects

    def attach(self, line: Line, client: bytes, here: str, message: Attach) -> list[Effect]:
        """A subscriber wants a topic here."""
        if here and message.topic != here:
            raise RemoteProtocolError(f"topic {message.topic!r} at the port of {here!r}")
        topic, effects = self.topic(message.topic)
        self._attached.setdefault(line, set()).add(message.topic)
        return [*effects, *topic.channel.attach(line, client)]

    def attached(self, line: Line) -> list[str]:
        """Give the topics that were asked for by a connection."""
        return sorted(self._attached.get(line, ()))

    def detach(self, line: Line, client: bytes, message: Detach) -> list[Effect]:
        """A subscriber no longer wants a topic, or may not have it any more."""
        self._attached.get(line, set()).discard(message.topic)
        topic = self.channels.find(message.topic)
        return topic.channel.detach(client) if topic is not None else []

    def taken(self, client: bytes, message: Taken) -> list[Effect]:
        """A subscriber's reader has taken messages."""
        topic = self.channels.find(message.topic)
        if topic is None:
            return []
        return topic.channel.take(client, message.incarnation, message.position)

    def lost(self, line: Line) -> None:
        """A connection ended."""
        for name in self._attached.pop(line, ()):
            topic = self.channels.find(name)
            if topic is not None:
                topic.channel.lose(line)

    def tick(self, now: float) -> list[Consequence]:
        """Drop subscribers that hold others up, and close what nobody uses."""
        effects: list[Consequence] = []
        for topic in self.channels:
            effects += topic.channel.tick(now)
            for client, (line, prefixes) in self.bridged.items():
                topic_name = topic.channel.topic
                if client not in topic.channel.subscriptions and topic_name.startswith(prefixes):
                    effects += topic.channel.attach(line, client, is_lodger=True)
        return [*effects, *self.channels.tick(now)]
