"""What the broker and its clients ask of a registry, whichever it is."""

from __future__ import annotations

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


class Watchers:
    """The watches of a registry, by path."""

    def __init__(self) -> None:
        self._watches: dict[str, dict[Watch, None]] = {}

    def __contains__(self, path: str) -> bool:
        """Tell whether a node is watched."""
        return path in self._watches

    def paths(self) -> list[str]:
        """Give the watched nodes."""
        return list(self._watches)

    def add(self, watch: Watch, path: str) -> bool:
        """Watch a node; tell whether it is the first watch there."""
        watches = self._watches.setdefault(path, {})
        watches[watch] = None
        return len(watches) == 1

    def remove(self, watch: Watch) -> list[str]:
        """End a watch; give the nodes that are watched no longer."""
        left = [path for path, watches in self._watches.items() if watches.keys() == {watch}]
        for path in left:
            del self._watches[path]
        for watches in self._watches.values():
            watches.pop(watch, None)
        return left

    def push(self, path: str) -> None:
        """A node may have changed."""
        for watch in self._watches.get(path, ()):
            watch.push()

    def push_all(self) -> None:
        """Every node may have changed."""
        for path in self._watches:
            self.push(path)


class Registry:
    """A tree of nodes with text in them, in the manner of ZooKeeper.

    Every call waits until the registry can be reached, however long that takes: put a timeout
    around it. ``RegistryError`` is raised for what it refuses.
    """

    def __init__(self, watchers: Watchers | None = None) -> None:
        """Tell changes to ``watchers``, or to new ones."""
        self._watchers = Watchers() if watchers is None else watchers

    @property
    def last_error(self) -> str | None:
        """Why it cannot be reached now; ``None`` while it can."""
        return None

    async def ask(self, operation: str, path: str, data: str = "") -> str:
        """Have something done, and give what was read.

        That is nothing, or one value after ``=``; children are joined by newlines.
        """
        raise NotImplementedError

    async def read(self, path: str) -> str | None:
        """Give a node's data; ``None`` if there is no such node."""
        found = await self.ask("read", path)
        return found[1:] if found else None

    async def children(self, path: str) -> list[str]:
        """Give the names of the nodes right below, sorted."""
        return (await self.ask("children", path)).split()

    async def write(self, path: str, data: str) -> None:
        """Set a node's data, making it and those above it."""
        await self.ask("write", path, data)

    async def remove(self, path: str) -> None:
        """Remove a node and all below it, if it is there."""
        await self.ask("remove", path)

    async def register(self, path: str, data: str) -> None:
        """Make an ephemeral node: it goes with us, and comes back with our next session.

        Nothing happens if the node above is gone: what it belonged to is no more.
        """
        await self.ask("register", path, data)

    async def unregister(self, path: str) -> None:
        """Remove an ephemeral node of ours."""
        await self.ask("unregister", path)

    async def claim(self, path: str, data: str) -> bool:
        """Make an ephemeral node if there is none; tell whether it is there as we wanted it.

        Unlike a registered one it does not come back with our next session.
        """
        return bool(await self.ask("claim", path, data))

    async def clear(self) -> None:
        """Null the addresses that a dead broker has left, unless another one serves.

        An embedded registry has nothing to do: the brokers that hold it clear it.
        """

    def watch(self, *paths: str) -> Watch:
        """Follow the data of some nodes, from now on."""
        watch = Watch()
        for path in paths:
            if self._watchers.add(watch, path):
                self._follow(path)
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Follow them no longer."""
        for path in self._watchers.remove(watch):
            self._unfollow(path)

    def _follow(self, path: str) -> None:
        """Hear of the changes of a node, if that has to be asked for."""

    def _unfollow(self, path: str) -> None:
        """Hear of them no longer."""
