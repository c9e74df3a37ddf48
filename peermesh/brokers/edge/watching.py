"""Who watches which node of a registry, and who has to hear of a change. Pure but for its type."""

from __future__ import annotations

from peermesh.brokers.edge.registry import Watch


class Watchers:
    """The watches of a registry, by path."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._watches: dict[str, dict[Watch, None]] = {}

    def __len__(self) -> int:
        """Count the watched nodes."""
        return len(self._watches)

    def __contains__(self, path: str) -> bool:
        """Tell whether somebody watches a node."""
        return path in self._watches

    def paths(self) -> list[str]:
        """Give the nodes that somebody watches."""
        return list(self._watches)

    def add(self, path: str) -> Watch:
        """Watch a node."""
        watch = Watch()
        self._watches.setdefault(path, {})[watch] = None
        return watch

    def remove(self, path: str, watch: Watch) -> None:
        """Watch it no longer."""
        watches = self._watches.get(path, {})
        watches.pop(watch, None)
        if not watches:
            self._watches.pop(path, None)

    def push(self, path: str) -> None:
        """A node may have changed."""
        for watch in self._watches.get(path, ()):
            watch.push()

    def push_all(self) -> None:
        """Every node may have changed."""
        for path in self._watches:
            self.push(path)
