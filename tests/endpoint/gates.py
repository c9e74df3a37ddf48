"""A backend whose method waits, or fails, at a moment that the test chooses."""

from __future__ import annotations

import threading
from typing import Any

from endpoint.replicas.logs.log import Log
from peermesh.testing.time_limits import limit


class Gate:
    """Stands before one method of a backend, and lets its callers in when it is opened."""

    def __init__(self, backend: Any, method: str, failure: Exception | None = None) -> None:
        self._backend, self._method, self._failure = backend, method, failure
        self._is_open = threading.Event()
        self.is_reached = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return self._pass if name == self._method else getattr(self._backend, name)

    def open(self) -> None:
        self._is_open.set()

    def _pass(self, *arguments: Any) -> Any:
        self.is_reached.set()
        assert self._is_open.wait(limit()), "the test has forgotten its gate"
        if self._failure is not None:
            raise self._failure
        return getattr(self._backend, self._method)(*arguments)


def gate(log: Log, method: str, failure: Exception | None = None) -> Gate:
    log.part.backend = found = Gate(log.part.backend, method, failure)
    return found
