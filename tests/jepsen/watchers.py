"""Who watches the group: one replica after the other, and all see the same commits in one order."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import trio

from peermesh import Commit, Gap
from peermesh.testing.replica_handle import ReplicaHandle
from tests.jepsen.group import Group
from tests.jepsen.violation import Violation
from wire.errors import MeshError

Seen = tuple[tuple[object, object], ...]
"""What one commit changed: keys with their values."""


class Watcher:
    """Follows any replica that lives, and goes on at another one where it was."""

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.parts: list[list[tuple[int, Seen]]] = [[]]
        """Commits without a gap between them, with their revisions."""
        self._revision = 0
        self._chance = Random(seed)
        self._scope = trio.CancelScope()

    async def live(self) -> None:
        """Watch until it is ended."""
        with self._scope:
            while True:
                handles = [each for each in self.group.handles.values() if each.node.is_running]
                if not handles:
                    await self.group.moved.park()
                    continue
                try:
                    await self._follow(self._chance.choice(handles))
                except MeshError:
                    await trio.lowlevel.checkpoint()

    async def _follow(self, handle: ReplicaHandle) -> None:
        async with await handle.watch(from_revision=self._revision + 1) as watch:
            async for item in watch:
                match item:
                    case Gap():
                        self.parts.append([])
                    case Commit(revision, _, changes):
                        seen = tuple(
                            (each.key, each.entry and each.entry.value) for each in changes
                        )
                        self.parts[-1].append((revision, seen))
                        self._revision = revision

    def end(self) -> None:
        """Stop."""
        self._scope.cancel()


def compare(watchers: Iterable[Watcher]) -> None:
    """Raise ``Violation`` where one saw a commit otherwise, twice, late, or not at all."""
    known: dict[int, Seen] = {}
    for watcher in watchers:
        for part in watcher.parts:
            for revision, seen in part:
                if known.setdefault(revision, seen) != seen:
                    raise Violation(f"revision {revision} is {known[revision]}, and {seen}")
    for watcher in watchers:
        for part in watcher.parts:
            revisions = [revision for revision, _ in part]
            if not revisions:
                continue
            first, last = revisions[0], revisions[-1]
            expected = [each for each in sorted(known) if first <= each <= last]
            if revisions != expected:
                raise Violation(
                    f"a watch from {first} to {last} saw other commits than there were, or in"
                    f" another order: {sorted(set(expected) ^ set(revisions))[:10]}"
                )
