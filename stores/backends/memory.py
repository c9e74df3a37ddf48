"""The backend that keeps nothing: a master's table is in memory already."""

from __future__ import annotations

from stores.persistence import Changes, Loaded


class MemoryBackend:
    """Gives an empty store at every start, and has nothing to commit."""

    @property
    def is_durable(self) -> bool:
        """Nothing is kept, so that nothing is waited for."""
        return False

    def load(self, epoch_min: int) -> Loaded:
        """Give an empty store; the caller's epoch, from a clock, is one that was never used."""
        return Loaded(epoch_min)

    def commit(self, changes: Changes) -> None:
        """Do nothing: no master asks for it."""

    def close(self) -> None:
        """Do nothing."""
