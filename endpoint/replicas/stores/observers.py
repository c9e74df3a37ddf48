"""Who is told of the changes of one copy of a store."""

from __future__ import annotations

from typing import Protocol

from stores.effects import Changed


class Observer(Protocol):
    """Follows the changes of a store."""

    def push(self, change: Changed) -> None:
        """Take in one change."""

    def end(self) -> None:
        """Learn that nothing comes any more."""


class Observers:
    """Those who follow the changes of one copy."""

    def __init__(self) -> None:
        """Start without one."""
        self._observers: dict[Observer, None] = {}

    def __bool__(self) -> bool:
        """Tell whether changes are to be told."""
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """Tell ``observer`` of every change from now on."""
        self._observers[observer] = None

    def remove(self, observer: Observer) -> None:
        """Tell it no longer."""
        self._observers.pop(observer, None)

    def push(self, change: Changed) -> None:
        """Tell all of a change."""
        for observer in list(self._observers):
            observer.push(change)

    def end(self) -> None:
        """Tell all that nothing comes any more."""
        for observer in self._observers:
            observer.end()
