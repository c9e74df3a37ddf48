"""The broker's port list: which ports are free for channels (seed: port list). Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

ANY_PORT = 0
"""A port that the system chooses."""


class PortList:
    """Ports to be taken in pairs, and given back."""

    def __init__(self, ports: Iterable[int] | None = None) -> None:
        """Use these ports only; without a list the system chooses, and what it chose is reused."""
        self._is_open_ended = ports is None
        self._free = deque(dict.fromkeys(ports or ()))

    @property
    def free(self) -> int:
        """Count the ports that are free, and known."""
        return len(self._free)

    def take(self) -> tuple[int, int] | None:
        """Take two ports, the longest unused first; ``None`` until some are given back."""
        if len(self._free) >= 2:
            return self._free.popleft(), self._free.popleft()
        return (ANY_PORT, ANY_PORT) if self._is_open_ended else None

    def give_back(self, ports: Iterable[int]) -> None:
        """Let ports be used again."""
        self._free.extend(port for port in ports if port != ANY_PORT)
