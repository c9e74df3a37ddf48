"""One budget for what all connections of a broker have begun to send and not ended. Pure.

Each connection has its own limit; thousands of them at that limit would still fill the memory.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class Unfinished(Generic[Holder]):
    """Bytes that each holder keeps, and the largest holder once they are too many together."""

    def __init__(self, size_max: int) -> None:
        """Allow so many bytes for all holders together."""
        self._size_max = size_max
        self._sizes: dict[Holder, int] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes that all holders keep now."""
        return self._total

    def note(self, holder: Holder, size: int) -> Holder | None:
        """Note how many bytes a holder keeps now.

        Returns the holder of most bytes, if all together are beyond the budget: it has to be cut,
        and is counted no longer.
        """
        self._total += size - self._sizes.pop(holder, 0)
        if size:
            self._sizes[holder] = size
        if self._total <= self._size_max:
            return None
        largest = max(self._sizes, key=self._sizes.__getitem__)
        self.forget(largest)
        return largest

    def forget(self, holder: Holder) -> None:
        """Count a holder no longer."""
        self._total -= self._sizes.pop(holder, 0)
