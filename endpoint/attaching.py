"""How a store is asked for: which backend, and the handle that is about to be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from endpoint.store import Store

STALE_SECONDS: Final = 300.0
"""How long a clone serves what it has without its master, before reads raise ``StaleData``: the
interval of Broker."""

BUFFER_SECONDS: Final = 120.0
"""How long a clone keeps a mutation for a master that is not there, before it fails: the
``mutation_buffer_interval`` of Broker."""


class Backend(Enum):
    """Where a master keeps its store; the names are the seed's."""

    Memory = "memory"
    """Nowhere but in memory. The store ends with its master."""
    SQLite = "sqlite"
    """In a file, ``path=...``. What is acknowledged survives a power cut."""


class Attaching:
    """A store that is about to be attached: ``await`` it, or use it with ``async with``."""

    def __init__(self, attach: Callable[[], Awaitable[Store]]) -> None:
        """Attach when it is awaited or entered."""
        self._attach = attach
        self._store: Store | None = None

    def __await__(self) -> Generator[object, object, Store]:
        """Attach, and give the handle."""
        return self._attach().__await__()

    async def __aenter__(self) -> Store:
        """Attach for the block."""
        self._store = await self._attach()
        return self._store

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        assert self._store is not None
        await self._store.close()
