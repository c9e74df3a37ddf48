"""Offsets of a stream: of which log they are, how far a batch goes, and what is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from stores.group.positions import Position
from stores.log.bookmarks import LogBookmark
from stores.log.partitions import Span
from stores.log.runs import Run
from wire.errors import InvalidData

Offsets: TypeAlias = dict[int, int]
"""The next offset that is wanted, by partition."""

EARLIEST: Final = -2
LATEST: Final = -1
"""In place of an offset, as in Kafka's source: where the partition begins, and where it ends."""

SKIPPED: Final = "skipped"
"""Beside the partitions of a checkpoint: how many entries the query has skipped in its life."""

LOG: Final = "log"
"""Beside the partitions of a checkpoint: of which log they are, as ``GROUP:TERM:INDEX``."""


@dataclass(frozen=True, slots=True)
class Point:
    """How far a query is."""

    offsets: Offsets
    log: LogBookmark | None = None
    """Of which log they are. Earlier releases did not write it."""
    skipped: int = 0
    """Entries that the query has skipped in its life."""


@dataclass(frozen=True, slots=True)
class Range:
    """Entries of a partition, from ``start`` up to, not including, ``end``."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries of a run, from the one with the number ``first`` up to, not including, ``last``."""

    run: Run
    first: int
    last: int

    @property
    def offset(self) -> int:
        """The offset of the first one."""
        return self.run.first_offset + self.first

    @property
    def count(self) -> int:
        """How many they are."""
        return self.last - self.first


Written: TypeAlias = dict[str, int | str]
"""A point as Spark keeps it."""


def to_json(point: Point) -> Written:
    """Give what Spark writes to its checkpoint: equal points are equal text."""
    offsets = point.offsets
    found: Written = {str(partition): offsets[partition] for partition in sorted(offsets)}
    if point.skipped:
        found[SKIPPED] = point.skipped
    if point.log is not None and point.log.group is not None:
        found[LOG] = f"{point.log.group.hex()}:{point.log.position}"
    return found


def from_json(written: Mapping[str, int | str]) -> Point:
    """Read what Spark kept."""
    left = dict(written)
    log, skipped = left.pop(LOG, None), left.pop(SKIPPED, 0)
    offsets = {int(name): int(offset) for name, offset in left.items()}
    return Point(offsets, None if log is None else _bookmark_of(str(log)), int(skipped))


def _bookmark_of(text: str) -> LogBookmark:
    group, term, index = text.split(":")
    return LogBookmark(bytes.fromhex(group), Position(int(term), int(index)))


def complete(
    explicit: Mapping[int, int], spans: Mapping[int, Span], rest: Offsets, option: str
) -> Offsets:
    """Give explicit offsets for all partitions, ``EARLIEST`` and ``LATEST`` as numbers.

    Raises ``InvalidData``, which names the option, for a partition or an offset that is not there.
    """
    found = dict(rest)
    for number, offset in sorted(explicit.items()):
        span = spans.get(number)
        if span is None:
            raise InvalidData(
                f"option {option}: the log has the partitions 0 to {len(spans) - 1}, not {number}"
            )
        if offset > span.end:
            raise InvalidData(
                f"option {option}: partition {number} ends at offset {span.end}, and {offset} was"
                f" given: give one up to {span.end}, or {LATEST} for the end"
            )
        found[number] = {EARLIEST: span.start, LATEST: span.end}.get(offset, offset)
    return found


def advance(start: Offsets, ends: Offsets, rows_max: int | None) -> Offsets:
    """Say how far the next batch goes: to the ends, or as far as ``rows_max`` rows in all.

    Partitions get equal shares; what one has no use for, the others get. What cannot be shared
    goes to those that are furthest behind, so that none starves.
    """
    if rows_max is None:
        return dict(ends)
    waiting = {number: end - start.get(number, 0) for number, end in ends.items()}
    taken = dict.fromkeys(waiting, 0)
    hungry = [number for number, rows in waiting.items() if rows > 0]
    left = rows_max
    while hungry and left >= len(hungry):
        share = left // len(hungry)
        for number in hungry:
            rows = min(share, waiting[number] - taken[number])
            taken[number] += rows
            left -= rows
        hungry = [number for number in hungry if taken[number] < waiting[number]]
    hungry.sort(key=lambda number: (taken[number] - waiting[number], number))
    for number in hungry[:left]:
        taken[number] += 1
    return {
        number: start.get(number, 0) + rows if waiting[number] > 0 else ends[number]
        for number, rows in taken.items()
    }


def at_most(offsets: Offsets, target: Offsets) -> Offsets:
    """Hold offsets back to a target."""
    return {number: min(offset, target.get(number, offset)) for number, offset in offsets.items()}


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """Say what a batch reads."""
    return [
        Range(number, start.get(number, 0), end[number])
        for number in sorted(end)
        if start.get(number, 0) < end[number]
    ]


def task_count(rows: int, per_task: int, least: int, most: int) -> int:
    """Say how many tasks read so many rows: never more than there are rows."""
    return min(rows, max(least, min(most, -(-rows // per_task))))


def equal_share(rows: int, cores: int, least: int, most: int) -> int:
    """Say how many rows a task has so that all cores are busy, and end at once.

    That is between ``least`` and ``most``: the less there are, the more each costs of its own.
    """
    rounds = max(1, -(-rows // (cores * most)))
    return max(least, -(-rows // (cores * rounds)))


def cut(wanted: Iterable[Range], tasks: int) -> list[tuple[Range, ...]]:
    """Share what a batch reads among so many tasks, or one more, each of as many rows.

    A task has several partitions, or a part of one; it never has two parts of the same.
    """
    left = list(wanted)
    share = max(1, -(-sum(each.end - each.start for each in left) // max(1, tasks)))
    found: list[tuple[Range, ...]] = []
    task: list[Range] = []
    room = share
    for each in left:
        start = each.start
        while start < each.end:
            end = min(each.end, start + room)
            task.append(Range(each.partition, start, end))
            room -= end - start
            start = end
            if not room:
                found.append(tuple(task))
                task, room = [], share
    return [*found, tuple(task)] if task else found


def take(runs: Sequence[Run], places: Offsets, ends: Mapping[int, int]) -> Iterator[Piece]:
    """Give what is wanted of some runs: from these places on, which move, up to these ends.

    A partition whose end is reached has no place any more.
    """
    for run in runs:
        at = places.get(run.partition)
        if at is None or not run.first_offset <= at < run.end:
            continue
        end = min(run.end, ends[run.partition])
        yield Piece(run, at - run.first_offset, end - run.first_offset)
        places[run.partition] = end
        if end == ends[run.partition]:
            del places[run.partition]


def rows_of(lost: Iterable[Range]) -> int:
    """Count the entries of some ranges; one that ends before it begins has none."""
    return sum(max(0, each.end - each.start) for each in lost)


GONE: Final = -1
"""Where a range ends that is lost with its partition."""

ANEW: Final = -2
"""Where a range ends of a log that is gone, and another one began under its name."""


def losses(start: Offsets, spans: Mapping[int, Span]) -> list[Range]:
    """Name what is gone that was wanted next, because retention went past it.

    A range that ends before it begins stands for a log that has fewer entries than were read; one
    that ends at ``GONE``, for a partition that the log does not have.
    """
    found: list[Range] = []
    for number in sorted({*start, *spans}):
        offset, span = start.get(number, 0), spans.get(number)
        if span is None:
            found.append(Range(number, offset, GONE))
        elif offset < span.start:
            found.append(Range(number, offset, span.start))
        elif offset > span.end:
            found.append(Range(number, offset, span.end))
    return found


def gone_with_log(start: Offsets, end: Offsets) -> list[Range]:
    """Name what was to be read of a log that is gone: all of ``end`` from ``start`` on."""
    unread = ranges(start, end)
    begun = {number for number, offset in start.items() if offset}
    return [
        *(Range(number, start.get(number, 0), ANEW) for number in sorted(begun)),
        *unread,
    ]


LOSSES_NAMED_MAX: Final = 20
"""Ranges that a text names: a log of 1,024 partitions may lose some of each."""


def describe_losses(log: str, lost: Sequence[Range]) -> str:
    """Name what is lost."""
    named = "; ".join(_explain(log, each) for each in lost[:LOSSES_NAMED_MAX])
    rest = len(lost) - LOSSES_NAMED_MAX
    return named if rest <= 0 else f"{named}; and more in {rest} other partitions"


def explain_losses(log: str, lost: Sequence[Range]) -> str:
    """Say in a sentence what is lost, and what to do."""
    to_do = "To go on without, set the option failOnDataLoss to false"
    if any(each.end == ANEW for each in lost):
        to_do = (
            "If it began anew under its name, set the option failOnDataLoss to false, or begin a"
            " new checkpoint, and it is read from its beginning; if the query has other sources"
            " than before, or in another order, begin a new checkpoint; read a table again"
        )
    return f"{describe_losses(log, lost)}. {to_do}"


def _explain(log: str, lost: Range) -> str:
    where = f"log {log}, partition {lost.partition}"
    if lost.start < lost.end:
        return f"{where}: the entries {lost.start} to {lost.end - 1} are gone before they were read"
    if lost.end == ANEW:
        return (
            f"{where}: it is another log than the one of which offset {lost.start} was wanted next"
        )
    if lost.end == GONE:
        return (
            f"{where}: the log has no such partition any more, and offset {lost.start} was wanted"
            " next: it is another log"
        )
    return (
        f"{where}: it goes on at offset {lost.end}, and {lost.start} was wanted next: its keeper"
        " lost entries, as when the lead is taken by force, or it is another log"
    )


def skip(start: Offsets, lost: list[Range]) -> Offsets:
    """Go on behind what is lost, and without partitions that are gone."""
    found = {**start, **{each.partition: each.end for each in lost}}
    return {number: offset for number, offset in found.items() if offset != GONE}
