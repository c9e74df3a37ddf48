"""What readers of one member see of a log: what is committed and applied there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

from stores.actions import WriterId
from stores.group.positions import START, Position
from stores.log.kept_runs import AnyRun, KeptRuns
from stores.log.messages import Cursors, Positions
from stores.log.partitions import Partitions, Retention
from stores.outcomes import Outcome
from stores.table.lineage import Lineage
from stores.table.writers import Writers


class AppliedReads:
    """The reads of a member. Which moment they are of is for the group: see ``Member.read``."""

    partitions: Partitions
    """Where each begins and ends; none before the log has begun."""
    cursors: dict[str, dict[int, int]]
    """Where every named consumer is."""
    retention: Retention
    """What the log keeps at least."""
    _runs: KeptRuns
    _lineage: Lineage
    _writers: Writers
    _used: tuple[int, int]

    @property
    def position(self) -> Position:
        """The last entry that is applied."""
        return self._lineage.position

    @property
    def last_run(self) -> Position:
        """The entry that brought what was appended last and is there still.

        Where nothing is there, it is the last that is applied: to forget all that was read would
        have a reader not notice that it is lost.
        """
        last = self._runs.last
        return self.position if last == START else last

    def has_done(self, writer: WriterId, request: int) -> bool:
        """Tell whether readers see what came of a writer's requests up to this one."""
        return self._writers.has_done(writer, request)

    def outcomes_of(self, writer: WriterId, number: int, first: int) -> Sequence[Outcome]:
        """Give what became of a registered writer's requests from ``first`` on that are applied."""
        return self._writers.outcomes_of(writer, number, first)

    @property
    def is_blank(self) -> bool:
        """True before the first entry, and the first consumer."""
        return not any(self.partitions.ends()) and not self.cursors

    @property
    def used(self) -> tuple[int, int]:
        """Entries, and their bytes as stored, in whole blocks of the index."""
        return self._used

    def read(self, partition: int, offset: int, size_max: int) -> list[AnyRun]:
        """Give runs from the one with an offset on, one at least if it is there.

        A run may begin before the offset, and before the partition's start. One whose entries are
        in the member's file alone is given as a ``RunPlace``. Raises ``NoSuchPartition``.
        """
        span = self.partitions[partition].span
        if not span.start <= offset < span.end:
            return []
        return self._runs.read(partition, offset, size_max)

    def gather(self, positions: Positions, size_max: int) -> list[AnyRun]:
        """Give runs from several places on, up to some bytes; one at least, if there is any."""
        found: list[AnyRun] = []
        for partition, offset in positions:
            for run in self.read(partition, offset, size_max):
                if found and run.size > size_max:
                    return found
                size_max -= run.size
                found.append(run)
        return found

    def find(self, timestamp_ns: int) -> tuple[int, ...]:
        """Give the first offset of a time or later in each partition, which may be the end."""
        runs, spans = self._runs, self.partitions.spans()
        found = [runs.find(partition, timestamp_ns) for partition in range(len(spans))]
        return tuple(
            span.end if offset is None else max(offset, span.start)
            for offset, span in zip(found, spans, strict=True)
        )

    def all_cursors(self) -> Cursors:
        """Give where every named consumer is, in order."""
        return tuple((name, tuple(sorted(at.items()))) for name, at in self.cursors.items())

    def goes_on(
        self, positions: Positions, seen: Sequence[Position], *, is_current: bool
    ) -> tuple[int, ...]:
        """Give where each partition goes on for a reader: at its offset, unless entries are gone.

        They went by retention; or they were lost, and others came under their offsets, when the
        lead was taken by force. ``seen`` has the entries of the journal that brought what was read
        last. With ``is_current``, nothing that was ever committed is missing here: what a reader
        has, and this has not, is lost.
        """
        found: list[int] = []
        last_ones = chain(seen, repeat(START))
        for (partition, offset), position in zip(positions, last_ones, strict=False):
            span = self.partitions[partition].span
            at = offset
            if (cut := self._lineage.cut(position)) is not None:
                at = min(at, self._runs.first_from(partition, cut))
            if is_current:
                at = min(at, span.end)
            found.append(max(at, span.start))
        return tuple(found)

    def is_ahead(self, positions: Positions) -> bool:
        """Tell whether a reader has more than there is here, or says so."""
        return any(offset > self.partitions[number].span.end for number, offset in positions)

    def has_news(self, positions: Positions, seen: Sequence[Position], *, is_current: bool) -> bool:
        """Tell whether there is something to read, or something to say against it."""
        if any(offset < self.partitions[number].span.end for number, offset in positions):
            return True
        offsets = self.goes_on(positions, seen, is_current=is_current)
        return any(at != offset for at, (_, offset) in zip(offsets, positions, strict=True))
