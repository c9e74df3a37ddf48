"""What the broker and its clients ask of a registry, whichever it is."""

from __future__ import annotations

from typing import Protocol

import trio


class Watch:
    """Wakes whoever follows a node whenever it may have changed: read it again then."""

    def __init__(self) -> None:
        """Begin with a change: the first read is due."""
        self._event = trio.Event()
        self._event.set()

    def push(self) -> None:
        """The node may have changed."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until the node may have changed since the last time."""
        await self._event.wait()
        self._event = trio.Event()


class Registry(Protocol):
    """A tree of nodes with text in them, in the manner of ZooKeeper.

    Every call waits until the registry can be reached, however long that takes: put a timeout
    around it. ``RegistryError`` is raised for what it refuses.
    """

    async def read(self, path: str) -> str | None:
        """Give a node's data; ``None`` if there is no such node."""

    async def children(self, path: str) -> list[str]:
        """Give the names of the nodes right below, sorted."""

    async def write(self, path: str, data: str) -> None:
        """Set a node's data, making it and those above it."""

    async def remove(self, path: str) -> None:
        """Remove a node and all below it, if it is there."""

    async def register(self, path: str, data: str) -> None:
        """Make an ephemeral node: it goes with us, and comes back with our next session.

        Nothing happens if the node above is gone: what it belonged to is no more.
        """

    async def unregister(self, path: str) -> None:
        """Remove an ephemeral node of ours."""

    async def claim(self, path: str, data: str) -> bool:
        """Make an ephemeral node if there is none; tell whether it is there as we wanted it.

        Unlike a registered one it does not come back with our next session.
        """

    async def clear(self) -> None:
        """Null the addresses that a dead broker has left, unless another one serves."""

    def watch(self, *paths: str) -> Watch:
        """Follow the data of some nodes, from now on."""

    def unwatch(self, watch: Watch) -> None:
        """Follow them no longer."""
