"""What tests of damage do with a store and with a log alike: fill a file, and say what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from stores.actions import WriterId
from stores.sealing import StorageKeys
from tests.stores.disk.log_replicas import LogReplicaKind
from tests.stores.disk.replicas import ReplicaKind
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(b"w" * 16), 1), 1)

Commits = Iterator[tuple[Any, object]]
"""Changes, each with the state that a file has behind them; the one before has to be committed."""


class Kind(Protocol):
    """A kind of file, plain or encrypted."""

    tables: tuple[str, ...]
    remedy: str
    """How the advice about a damaged file begins."""

    def make(self, path: Path, **options: Any) -> Any: ...

    def load(self, backend: Any) -> object: ...

    def commits(self, count: int) -> Commits: ...

    def is_right(self, found: object, expected: object) -> bool:
        """Tell whether nothing wrong would be served: all that is lacking is noticed elsewhere."""
        return found == expected


KINDS: dict[str, Callable[[StorageKeys | None], Kind]] = {
    "replica": ReplicaKind,
    "log": LogReplicaKind,
}
