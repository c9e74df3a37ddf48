"""A broker's place in the registry: which of several serves, and what it writes there.

The broker that made the ephemeral node ``/broker`` serves. Whoever makes it removes what another
left behind, and writes its own addresses: so two brokers never destroy each other's, and a killed
one is followed by the next.
"""

from __future__ import annotations

from collections.abc import Callable

from peermesh.brokers.edge.registry import Registry
from peermesh.brokers.edge.tree import (
    BROKER,
    NULL,
    ROOT,
    Addresses,
    format_addresses,
    receiver_path,
    sender_path,
    topic_of,
    topic_path,
)

OpenTopics = Callable[[], list[tuple[str, Addresses]]]


class Reign:
    """One broker's claim."""

    def __init__(
        self,
        registry: Registry,
        broker: bytes,
        addresses: Addresses,
        open_topics: OpenTopics,
        is_known: Callable[[str], bool],
    ) -> None:
        """Claim for a default channel at these addresses, and the topics that are open."""
        self.is_active = False
        self._registry = registry
        self._addresses = addresses
        self._open_topics = open_topics
        self._is_known = is_known
        self._claim = f"{format_addresses(addresses)}\n{broker.hex()}"

    async def run(self, begin: Callable[[], None], stand_by: Callable[[], None]) -> None:
        """Claim, and claim again whenever the claim is gone; tell what has become of it."""
        watch = self._registry.watch(BROKER)
        while True:
            await watch.wait()
            held = await self._registry.read(BROKER)
            if held is None and await self._registry.claim(BROKER, self._claim):
                await self._write()
                self.is_active = True
                begin()
            elif held is None:
                watch.push()  # Somebody was faster: who?
            elif held != self._claim and self.is_active:
                self.is_active = False
                stand_by()

    async def _write(self) -> None:
        """Make the tree say what is open here, and nothing else."""
        for name in await self._registry.children(ROOT):
            if not self._is_known(topic_of(name)):
                await self._registry.remove(f"{ROOT}/{name}")
        for topic, addresses in self._open_topics():
            await self._write_topic(topic, addresses)
        await self._registry.write(ROOT, format_addresses(self._addresses))

    async def _write_topic(self, topic: str, addresses: Addresses) -> None:
        await self._registry.write(topic_path(topic), NULL)
        await self._registry.write(sender_path(topic), str(addresses.sender))
        await self._registry.write(receiver_path(topic), str(addresses.receiver))

    async def enter_topic(self, topic: str, addresses: Addresses) -> None:
        """A channel is open."""
        if self.is_active:
            await self._write_topic(topic, addresses)

    async def leave_topic(self, topic: str) -> None:
        """A channel is closed."""
        if self.is_active:
            await self._registry.remove(topic_path(topic))

    async def end(self) -> None:
        """Stop: nothing of this broker stays (seed: when the broker stops)."""
        if not self.is_active:
            return
        self.is_active = False
        for name in await self._registry.children(ROOT):
            await self._registry.remove(f"{ROOT}/{name}")
        await self._registry.write(ROOT, NULL)
        await self._registry.unregister(BROKER)
