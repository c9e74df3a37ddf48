"""A broker's place in the registry: which of several serves, and what it writes there.

The broker that made the ephemeral node ``/broker`` serves. It removes what another left behind, and
writes its own addresses: so two brokers never destroy each other's, and a killed one is followed by
the next, which reads first who subscribed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from peermesh.brokers.edge.lifecycle import ChannelMap, Ports
from peermesh.brokers.edge.messages import CLIENT_SIZE
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

Begin = Callable[[bool, list[tuple[str, bytes]]], None]
"""Told at the start of a reign whether there was one before, and each topic and subscriber that is
registered."""


class Reign:
    """One broker's claim."""

    def __init__(
        self,
        registry: Registry,
        broker: bytes,
        addresses: Addresses,
        channels: ChannelMap,
    ) -> None:
        """Claim for a default channel at these addresses, and for the topics' channels."""
        self.is_active = False
        self._registry = registry
        self._addresses = addresses
        self._channels = channels
        self._scope = trio.CancelScope()
        self._claim = f"{format_addresses(addresses)}\n{broker.hex()}"

    async def run(self, begin: Begin, stand_by: Callable[[], Awaitable[None]]) -> None:
        """Claim, and claim again whenever the claim is gone; tell what has become of it."""
        with self._scope:
            watch = self._registry.watch(BROKER)
            while True:
                await watch.wait()
                held = await self._registry.read(BROKER)
                if held is None and await self._registry.claim(BROKER, self._claim):
                    await self._rule(begin)
                elif held is None:
                    watch.push()  # Another broker was faster: which one?
                elif held != self._claim and self.is_active:
                    self.is_active = False
                    await stand_by()

    async def _rule(self, begin: Begin) -> None:
        """Make the tree say what is open here, and nothing else."""
        was_there = await self._registry.read(ROOT) is not None
        # From here on no version is that of an earlier reign: see ``ZooKeeperRegistry.clear``.
        await self._registry.write(ROOT, NULL)
        is_new, known = not self.is_active, list[tuple[str, bytes]]()
        for name in await self._registry.children(ROOT):
            topic = topic_of(name)
            if is_new:
                known += [(topic, client) for client in await self._subscribers(topic)]
            if self._channels.find(topic) is None:  # A known one may be about to be opened.
                await self._registry.remove(f"{ROOT}/{name}")
        for topic, ports in self._channels.open():
            await self._write_topic(topic, ports)
        await self._registry.write(ROOT, format_addresses(self._addresses))
        if is_new:
            begin(was_there, known)
            self.is_active = True

    async def _subscribers(self, topic: str) -> list[bytes]:
        names = await self._registry.children(sender_path(topic))
        return [client for name in names if (client := _client_of(name)) is not None]

    async def _write_topic(self, topic: str, ports: Ports) -> None:
        addresses = Addresses.at(self._addresses.receiver.host, ports)
        await self._registry.write(topic_path(topic), NULL)
        await self._registry.write(sender_path(topic), str(addresses.sender))
        await self._registry.write(receiver_path(topic), str(addresses.receiver))

    async def enter_topic(self, topic: str, ports: Ports) -> None:
        """A channel is open."""
        if self.is_active:
            await self._write_topic(topic, ports)

    async def leave_topic(self, topic: str) -> None:
        """A channel is closed."""
        if self.is_active:
            await self._registry.remove(topic_path(topic))

    async def end(self) -> None:
        """Stop: nothing of this broker stays (seed: when the broker stops)."""
        self._scope.cancel()
        if not self.is_active:
            return
        self.is_active = False
        await self._registry.write(ROOT, NULL)
        for name in await self._registry.children(ROOT):
            await self._registry.remove(f"{ROOT}/{name}")
        await self._registry.unregister(BROKER)


def _client_of(name: str) -> bytes | None:
    """Give the client that is registered under a name; ``None`` if it is a foreign one."""
    try:
        client = bytes.fromhex(name)
    except ValueError:
        return None
    return client if len(client) == CLIENT_SIZE else None
