"""What the broker and its clients ask of a registry, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

Push = Callable[[], object]
"""Called when a node may have changed."""


class Watch:
    """Wakes its one reader when one of some nodes may have changed: read it again then."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        """Start with a change: the first read is due."""
        self.paths = tuple(paths)
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
    """What is called for each node that may have changed."""

    def __init__(self) -> None:
        self._pushes: dict[str, dict[Push, None]] = {}

    def __contains__(self, path: str) -> bool:
        """Tell whether a node is watched."""
        return path in self._pushes

    def paths(self) -> list[str]:
        """Give the watched nodes."""
        return list(self._pushes)

    def add(self, path: str, push: Push) -> bool:
        """Watch a node; tell whether it was not watched before."""
        is_first = path not in self._pushes
        self._pushes.setdefault(path, {})[push] = None
        return is_first

    def remove(self, path: str, push: Push) -> bool:
        """End that; tell whether the node is watched no longer."""
        pushes = self._pushes[path]
        del pushes[push]
        if not pushes:
            del self._pushes[path]
        return not pushes

    def push(self, path: str) -> None:
        """A node may have changed."""
        for push in self._pushes.get(path, ()):
            push()

    def push_all(self) -> None:
        """Every node may have changed."""
        for path in self._pushes:
            self.push(path)


class Registry:
    """A tree of nodes with text in them, in the manner of ZooKeeper.

    Every call waits until the registry can be reached, however long that takes: put a timeout
    around it. ``RegistryError`` is raised for what it refuses.
    """

    def __init__(self, watchers: Watchers | None = None) -> None:
        """Tell changes to ``watchers``, or to new ones."""
        self._watchers = Watchers() if watchers is None else watchers
        self._mine: dict[str, str] = {}
        """The ephemeral nodes that were registered here, to register them again."""

    @property
    def last_error(self) -> str | None:
        """Why it cannot be reached now; ``None`` while it can."""
        return None

    async def ask(self, operation: str, path: str, data: str = "") -> str:
        """Have something done, and give what was read.

        That is nothing, or one value after ``=``; children are joined by newlines.
        """
        if operation == "register":
            self._keep(path, data)
        elif operation == "unregister":
            self._drop(path)
        return await self._do(operation, path, data)

    def _keep(self, path: str, data: str) -> None:
        self._mine[path] = data

    def _drop(self, path: str) -> None:
        self._mine.pop(path, None)

    async def _do(self, operation: str, path: str, data: str) -> str:
        """Do as ``ask`` says."""
        raise NotImplementedError

    async def register_again(self) -> None:
        """Register what is ours, with a session that is new."""
        for path, data in list(self._mine.items()):
            await self._do("register", path, data)

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
        watch = Watch(paths)
        for path in paths:
            self.follow(path, watch.push)
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Follow them no longer."""
        for path in watch.paths:
            self.unfollow(path, watch.push)

    def follow(self, path: str, push: Push) -> None:
        """Call ``push`` whenever a node may have changed, from now on."""
        if self._watchers.add(path, push):
            self._begin_to_follow(path)

    def unfollow(self, path: str, push: Push) -> None:
        """Call it no longer."""
        if self._watchers.remove(path, push):
            self._end_to_follow(path)

    def _begin_to_follow(self, path: str) -> None:
        """Hear of the changes of a node, if that has to be asked for."""

    def _end_to_follow(self, path: str) -> None:
        """Hear of them no longer."""
