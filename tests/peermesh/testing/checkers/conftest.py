"""Histories told line by line, on a clock that goes on by itself."""

from __future__ import annotations

from typing import Any

import pytest

from peermesh.testing.history import History


class Script:
    """A history in the making: each event is one millisecond after the one before."""

    def __init__(self) -> None:
        self.history = History()

    @property
    def now(self) -> float:
        return len(self.history) / 1000

    def begin(self, process: str, name: str, *arguments: Any, node: str = "") -> int:
        return self.history.begin(process, name, *arguments, at=self.now, node=node)

    def end(self, number: int, *result: Any) -> None:
        self.history.end(number, *result, at=self.now)

    def lose(self, number: int) -> None:
        self.history.lose(number, at=self.now)

    def fail(self, number: int) -> None:
        self.history.fail(number, at=self.now)

    def do(self, process: str, name: str, *arguments: Any, result: tuple[Any, ...] = ()) -> int:
        number = self.begin(process, name, *arguments)
        self.end(number, *result)
        return number

    def see(self, process: str, *seen: Any) -> None:
        for each in seen:
            self.history.see(process, each, at=self.now)


@pytest.fixture
def script() -> Script:
    return Script()
