"""What one endpoint wants to hear: topics for its subscribers, commands for its stores. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from endpoint.mesh.news import TOPICS_SIZE_MAX, topics_size
from wire.errors import LimitExceeded
from wire.limits import STORES_MAX, SUBSCRIPTIONS_MAX
from wire.messages import NodeHeader, PackedType
from wire.topics import SubscriptionCounts


class Wishes:
    """Subscribers with their prefixes, stores and services with their topics."""

    def __init__(self, subscriptions_max: int = SUBSCRIPTIONS_MAX) -> None:
        """Want nothing yet, and ``subscriptions_max`` prefixes at most."""
        self._subscriptions_max: Final = subscriptions_max
        self._counts = SubscriptionCounts()
        self._subscribers: dict[object, tuple[str, ...]] = {}
        self._locals: dict[object, None] = {}
        """Subscribers that hear this endpoint's own messages."""
        self._stores: dict[str, object] = {}
        self._services: dict[str, object] = {}

    def subscriptions(self) -> tuple[str, ...]:
        """Give the least set of prefixes that covers all subscribers, sorted."""
        return self._counts.minimal()

    def stores(self) -> tuple[str, ...]:
        """Give the topics that stores hear, in the order in which they were attached."""
        return tuple(self._stores)

    def hears(self, topic: str) -> bool:
        """Tell whether a store here hears commands on this topic."""
        return topic in self._stores

    def want(self, subscriber: object, topics: Iterable[str], *, local: bool) -> None:
        """Add prefixes for a subscriber; ``local`` has it hear this endpoint's messages as well.

        Raises ``LimitExceeded``.
        """
        wanted = self._subscribers.get(subscriber, ())
        known = frozenset(wanted)
        added = tuple(topic for topic in dict.fromkeys(topics) if topic not in known)
        self.add(added)
        self._subscribers[subscriber] = (*wanted, *added)
        if local:
            self._locals[subscriber] = None

    def drop(self, subscriber: object, topics: Iterable[str] | None) -> None:
        """Take prefixes from a subscriber; ``None`` removes the subscriber."""
        wanted = self._subscribers.get(subscriber, ())
        if topics is None:
            self._subscribers.pop(subscriber, None)
            self._locals.pop(subscriber, None)
            self._counts.remove(wanted)
            return
        unwanted = frozenset(topics)
        self._subscribers[subscriber] = tuple(each for each in wanted if each not in unwanted)
        self._counts.remove(tuple(each for each in wanted if each in unwanted))

    def topics_of(self, subscriber: object) -> tuple[str, ...]:
        """Give the prefixes of a subscriber."""
        return self._subscribers.get(subscriber, ())

    def add(self, topics: tuple[str, ...]) -> None:
        """Count more prefixes; raises ``LimitExceeded`` for more than an announcement holds."""
        self._counts.add(topics)
        wanted = self._counts.minimal()
        if len(wanted) > self._subscriptions_max or topics_size(wanted) > TOPICS_SIZE_MAX:
            self._counts.remove(topics)
            raise LimitExceeded(
                f"an endpoint announces up to {self._subscriptions_max} topics, of"
                f" {TOPICS_SIZE_MAX} bytes together: subscribe to their common beginnings"
            )

    def attach(self, topic: str, store: object) -> None:
        """Have a store hear commands on exactly this topic; raises ``LimitExceeded``."""
        is_full = len(self._stores) >= STORES_MAX
        if is_full or topics_size((*self._stores, topic)) > TOPICS_SIZE_MAX:
            raise LimitExceeded(f"an endpoint holds up to {STORES_MAX} stores: use another one too")
        self._stores[topic] = store

    def detach(self, topic: str) -> bool:
        """Have a topic heard by no store any more; false if none heard it."""
        return self._stores.pop(topic, None) is not None

    def offer(self, topic: str, service: object) -> None:
        """Have a service hear commands on this topic that are addressed to this endpoint."""
        self._services[topic] = service

    def receivers(self, header: NodeHeader, *, is_own: bool) -> tuple[object, ...]:
        """Give what hears messages with this header here; ``is_own`` if they were sent here."""
        topic = header.topic
        if header.type is PackedType.COMMAND:
            receiver = None if is_own else self._stores.get(topic)
            if receiver is None and not is_own and header.receiver is not None:
                receiver = self._services.get(topic)
            return () if receiver is None else (receiver,)
        readers = self._locals if is_own else self._subscribers
        return tuple(each for each in readers if topic.startswith(self._subscribers[each]))
