"""How a keeper takes followers in: what of a copy is right, and what it has to remember."""

from __future__ import annotations

from collections.abc import Sequence

from stores.broadcasting import CloneId
from stores.log.changes import EpochEnds
from stores.log.limits import LIVES_TOLD_MAX, PARTITIONS_MAX
from stores.log.memory import Memory, Remembered
from stores.log.messages import Admitted, Cursors, Join, MemoryPage, MemoryQuery
from stores.log.partitions import Partitions

_TOLD_ENDS_MAX = 8 * PARTITIONS_MAX
"""Offsets in the lives that a follower is told of: they travel with all that it is told."""


class Admission:
    """The keeper's: says up to where a copy is right, and keeps pages of the memory at hand."""

    def __init__(
        self,
        log_id: int,
        epoch: int,
        lives: Sequence[EpochEnds],
        partitions: Partitions,
        memory: Memory,
    ) -> None:
        """Take in followers of this life of the log, the last of ``lives``."""
        self._log_id = log_id
        self._epoch = epoch
        self._lives = tuple(lives)
        self._partitions = partitions
        self._memory = memory
        self._pages: dict[CloneId, tuple[int, list[Remembered]]] = {}

    def admit(
        self, follower: CloneId, join: Join, sequence: int, interval_ticks: int, cursors: Cursors
    ) -> Admitted:
        """Say what a follower is told that hears every event after ``sequence``."""
        starts, ends = self._partitions.starts(), self._partitions.ends()
        is_known = join.log_id == self._log_id and join.epoch == self._epoch
        after = join.position if is_known and join.position else None
        self._pages[follower] = sequence, self._memory.since(after, ends)
        return Admitted(
            *(self._epoch, follower.session, sequence, interval_ticks, self._log_id),
            *(starts, ends, self.agreed(join), self._told_lives()),
            *(after is None, cursors),
        )

    def agreed(self, join: Join) -> tuple[int, ...]:
        """Say up to where a copy is right, by what later lives of the keeper began with."""
        ends = self._partitions.ends()
        if join.log_id != self._log_id or len(join.ends) != len(ends):
            return (0,) * len(ends)
        if join.epoch not in [life.epoch for life in self._lives]:
            return (0,) * len(ends)
        later = [life.ends for life in self._lives if life.epoch > join.epoch]
        limits = [ends, join.ends, *later[:1]]
        return tuple(map(min, zip(*limits, strict=True)))

    def page(self, follower: CloneId, query: MemoryQuery) -> MemoryPage:
        """Give a page of what was remembered when the follower was taken in."""
        sequence, pages = self._pages.get(follower, (0, []))
        if sequence != query.sequence or query.page >= len(pages):
            return MemoryPage(query.sequence, query.page, None)
        return MemoryPage(sequence, query.page, pages[query.page])

    def discard(self, follower: CloneId) -> None:
        """Let the pages of a follower go: it has them, or is gone."""
        self._pages.pop(follower, None)

    def retain(self, followers: Sequence[CloneId]) -> None:
        """Let the pages of all others go."""
        for gone in self._pages.keys() - set(followers):
            del self._pages[gone]

    def _told_lives(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        count = max(1, min(LIVES_TOLD_MAX, _TOLD_ENDS_MAX // len(self._partitions)))
        return tuple((life.epoch, life.ends) for life in self._lives[-count:])
