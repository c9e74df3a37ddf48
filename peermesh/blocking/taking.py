"""What a call takes out over there that is given once: it is given back if it reaches no thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")

GiveBack = Callable[[list[Any]], object]
"""Has what was taken come next."""


class Taking:
    """One call. Both methods are for the thread of trio."""

    def __init__(self, give_back: GiveBack) -> None:
        """Take what ``give_back`` would have come again."""
        self._give_back = give_back
        self._taken: list[Any] = []
        self._is_given_up = False

    def took(self, result: Result) -> Result:
        """Note what was taken, an item or a list of them, in the moment in which it was."""
        self._taken = result if isinstance(result, list) else [result]
        if self._is_given_up:
            self._give_back(self._taken)
        return result

    def give_up(self) -> None:
        """Give it back: the thread that asked for it was interrupted, before it came or after."""
        self._is_given_up = True
        if self._taken:
            self._give_back(self._taken)
