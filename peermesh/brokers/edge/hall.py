"""The broker's core: what each message of a client does to the channels, from reign to reign. Pure.

Whoever is connected has a number; effects name it. The driver, and the bridge to the mesh, carry
them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from handshake.principals import UNPROVEN, Principal
from peermesh.brokers.edge.lifecycle import ChannelMap, Step, Topic
from peermesh.brokers.edge.messages import Accepted, Attach, Detach, Taken, Void, read_data
from peermesh.brokers.edge.relay import Relay, Send
from peermesh.brokers.edge.subscription import Line
from peermesh.brokers.edge.tree import check_edge_topic
from wire.errors import MeshError, RemoteProtocolError
from wire.framing import NodeFrame

EXPECTED_MAX: Final = 16_384
"""Subscriptions of an earlier reign that are waited for: as many as a broker has clients."""

Consequence = Send | Step


class Hall:
    """All channels of a broker, and who is connected to which."""

    def __init__(self, channels: ChannelMap) -> None:
        self.channels = channels
        self._attached: dict[Line, set[str]] = {}
        self._held_until: float | None = None
        self._is_leaving = False
        self.bridged: dict[bytes, tuple[Line, tuple[str, ...]]] = {}
        """Subscribers to whole prefixes: they attach to each topic as it comes up."""

    # Reigns.

    def begin(self, held_until: float | None, known: Iterable[tuple[str, bytes]]) -> None:
        """Start a reign, with nothing of an earlier one; wait for the subscribers ``known`` to it.

        Until ``held_until`` nothing is acknowledged, so that subscribers that are not in the
        registry resume, too.
        """
        self.channels.clear()
        self._attached.clear()
        self._held_until = held_until
        self.channels.is_held = held_until is not None
        for count, (name, client) in enumerate(known):
            if count >= EXPECTED_MAX:
                break
            try:
                self.channels.make(check_edge_topic(name)).channel.expect(client)
            except MeshError:
                continue  # A foreign node, or more topics than a broker has.

    def leave(self) -> None:
        """Take no more messages: the publishers keep them for the next broker."""
        self._is_leaving = True

    @property
    def is_taken(self) -> bool:
        """Tell whether every subscriber has everything."""
        return all(topic.channel.is_taken for topic in self.channels)

    # Clients.

    def data(
        self, line: Line, here: str, frame: NodeFrame, principal: Principal = UNPROVEN
    ) -> list[Consequence]:
        """A publisher sends on the default channel, or on the topic's own (``here``)."""
        name, publisher = read_data(frame)
        if here and name != here:
            raise RemoteProtocolError(f"topic {name!r} at the port of {here!r}")
        if self._is_leaving:
            return []
        topic, effects = self.topic(name)
        steps = self.channels.message_came(topic)
        return [*effects, *topic.channel.offer(line, publisher, frame, principal), *steps]

    def refuse_data(self, publisher: bytes, name: str) -> None:
        """Messages of a publisher were not taken: those that it sends next follow on them."""
        topic = self.channels.find(name)
        if topic is not None:
            topic.channel.forget(publisher)

    def void(self, line: Line, publisher: bytes, message: Void, *, may_publish: bool) -> list[Send]:
        """A publisher says which numbers are no messages; without the right it makes no topic."""
        if self._is_leaving:
            return []
        if not may_publish and self.channels.find(message.topic) is None:
            return [Send(line, Accepted(message.topic, message.sequence))]
        topic, effects = self.topic(message.topic)
        return [*effects, *topic.channel.void(line, publisher, message.sequence)]

    def topic(self, name: str) -> tuple[Topic, list[Send]]:
        """Find a topic, or make it, with the bridges that want it."""
        found = self.channels.find(name)
        if found is not None:
            return found, []
        topic = self.channels.make(check_edge_topic(name))
        return topic, self._attach_bridges(topic.channel)

    def _attach_bridges(self, channel: Relay) -> list[Send]:
        """Attach the bridges that want a topic, and are not attached to it, or were dropped."""
        effects: list[Send] = []
        for client, (line, prefixes) in self.bridged.items():
            if client not in channel.subscriptions and channel.topic.startswith(prefixes):
                effects += channel.attach(line, client, is_lodger=True)
        return effects

    def attach(self, line: Line, client: bytes, here: str, message: Attach) -> list[Send]:
        """A subscriber wants a topic here."""
        if here and message.topic != here:
            raise RemoteProtocolError(f"topic {message.topic!r} at the port of {here!r}")
        topic, effects = self.topic(message.topic)
        self._attached.setdefault(line, set()).add(message.topic)
        attached = topic.channel.attach(line, client, is_known=message.is_known)
        return [*effects, *attached]

    def attached(self, line: Line) -> list[str]:
        """Give the topics that were asked for by a connection."""
        return sorted(self._attached.get(line, ()))

    def detach(self, line: Line, client: bytes, message: Detach) -> list[Send]:
        """A subscriber no longer wants a topic, or may not have it any more."""
        self._attached.get(line, set()).discard(message.topic)
        topic = self.channels.find(message.topic)
        return topic.channel.detach(client) if topic is not None else []

    def taken(self, client: bytes, message: Taken) -> list[Send]:
        """A subscriber has messages."""
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
        is_over = self._held_until is not None and now >= self._held_until
        if is_over:
            self._held_until, self.channels.is_held = None, False
        for topic in self.channels:
            if is_over:
                effects += topic.channel.release()
            effects += topic.channel.tick(now)
            effects += self._attach_bridges(topic.channel)
        return [*effects, *self.channels.tick(now)]
