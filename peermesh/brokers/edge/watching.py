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

    def add(self, paths: tuple[str, ...]) -> Watch:
        """Watch some nodes."""
        watch = Watch()
        for path in paths:
            self._watches.setdefault(path, {})[watch] = None
        return watch

    def remove(self, watch: Watch) -> list[str]:
        """Watch them no longer; give those that nobody watches now."""
        left = []
        for path, watches in list(self._watches.items()):
            if watches.pop(watch, 0) is None and not watches:
                del self._watches[path]
                left.append(path)
        return left

    def push(self, path: str) -> None:
        """A node may have changed."""
        for watch in self._watches.get(path, ()):
            watch.push()

    def push_all(self) -> None:
        """Every node may have changed."""
        for path in self._watches:
            self.push(path)
