"""A gate at which threads wait while a condition holds; opening it for none costs one look."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Gate:
    """A condition variable that knows whether anything waits."""

    __slots__ = ("_condition", "waiting")

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.waiting = 0
        """Threads that wait. Counted before they look, so that one that opens cannot miss them."""

    def wait_while(self, is_shut: Callable[[], object]) -> None:
        """Wait until ``is_shut`` is false, looking again whenever the gate is opened."""
        with self._condition:
            self.waiting += 1
            try:
                while is_shut():
                    self._condition.wait()
            finally:
                self.waiting -= 1

    def open(self) -> None:
        """Have all threads that wait look again."""
        if self.waiting:
            with self._condition:
                self._condition.notify_all()
