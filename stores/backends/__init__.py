"""Where masters keep their stores: in memory only, or in an SQLite file."""

from __future__ import annotations

from stores.backends.memory import MemoryBackend

__all__ = ["MemoryBackend"]
