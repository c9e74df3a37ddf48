"""A backend whose method waits, or fails, at a moment that the test chooses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from endpoint.replicas.logs.log import Log
from endpoint.surroundings import ReplicaOpener
from peermesh.testing.time_limits import limit
from stores.disk.ballot import SUFFIX
from stores.disk.founding import Founding
from stores.disk.medium import PrivateMedium
from stores.disk.replica import SQLiteReplica
from stores.group.positions import MemberId
from stores.table.codec import TableCodec

FOUNDING = Founding(bytes(16), MemberId("tester", 1), 0)


class Gate:
    """Stands before one method of a backend, and lets its callers in when it is opened."""

    def __init__(
        self,
        backend: Any,
        method: str,
        failure: Exception | None = None,
        *,
        is_armed: bool = True,
    ) -> None:
        self._backend, self._method, self._failure = backend, method, failure
        self._is_armed = is_armed
        self._is_open = threading.Event()
        self.is_reached = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return self._pass if name == self._method else getattr(self._backend, name)

    def arm(self) -> None:
        """Stand in the way from now on."""
        self._is_armed = True

    def open(self) -> None:
        self._is_open.set()

    def _pass(self, *arguments: Any, **options: Any) -> Any:
        if not self._is_armed:
            return getattr(self._backend, self._method)(*arguments, **options)
        self.is_reached.set()
        assert self._is_open.wait(limit()), "the test has forgotten its gate"
        if self._failure is not None:
            raise self._failure
        return getattr(self._backend, self._method)(*arguments, **options)


def replica_files(rows: Callable[[str, dict[str, object]], Any]) -> ReplicaOpener:
    """Make an opener of a store's files in which ``rows`` gives what holds the rows."""
    return lambda path, options: (rows(path, options), PrivateMedium(path + SUFFIX))


def sqlite_rows(path: str | Path, options: Mapping[str, Any] = {}) -> SQLiteReplica:
    """Give the rows of a store in SQLite."""
    return SQLiteReplica(path, TableCodec(), **options)


def gate(log: Log, method: str, failure: Exception | None = None) -> Gate:
    """Stand before a method of a log's files: ``write`` does all that waits for the disk."""
    log.part.backend = found = Gate(log.part.backend, method, failure)
    return found
