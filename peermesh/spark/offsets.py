"""Offsets of a stream: how far a batch goes, what it reads, and what is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stores.log.partitions import Span
from wire.errors import InvalidData

Offsets: TypeAlias = dict[int, int]
"""The next offset that is wanted, by partition."""


@dataclass(frozen=True, slots=True)
class Range:
    """Entries of a partition, from ``start`` up to, not including, ``end``."""

    partition: int
    start: int
    end: int


def to_json(offsets: Mapping[int, int]) -> dict[str, int]:
    """Give what Spark writes to its checkpoint: equal offsets are equal text."""
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


def from_json(offsets: Mapping[str, int]) -> Offsets:
    """Read what Spark kept."""
    return {int(partition): offset for partition, offset in offsets.items()}


def complete(explicit: Mapping[int, int], spans: Mapping[int, Span], rest: Offsets) -> Offsets:
    """Give explicit offsets for all partitions; raises ``InvalidData`` for one too many."""
    unknown = sorted(set(explicit) - set(spans))
    if unknown:
        raise InvalidData(f"the log has the partitions 0 to {len(spans) - 1}, not {unknown[0]}")
    return {**rest, **explicit}


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


def losses(start: Offsets, spans: Mapping[int, Span]) -> list[Range]:
    """Name what is gone that was wanted next, because retention went past it.

    A range that ends before it begins stands for a log that has fewer entries than were read.
    """
    found: list[Range] = []
    for number, span in sorted(spans.items()):
        offset = start.get(number, 0)
        if offset < span.start:
            found.append(Range(number, offset, span.start))
        elif offset > span.end:
            found.append(Range(number, offset, span.end))
    return found


def explain_losses(log: str, lost: list[Range]) -> str:
    """Say in a sentence what is lost, and what to do."""
    return "; ".join(_explain(log, each) for each in lost) + (
        ". To go on without, set the option failOnDataLoss to false"
    )


def _explain(log: str, lost: Range) -> str:
    where = f"log {log}, partition {lost.partition}"
    if lost.start < lost.end:
        return f"{where}: the entries {lost.start} to {lost.end - 1} are gone before they were read"
    return (
        f"{where}: it ends at offset {lost.end}, and {lost.start} was read already: its keeper"
        " lost entries, or it is another log"
    )


def skip(start: Offsets, lost: list[Range]) -> Offsets:
    """Go on behind what is lost."""
    return {**start, **{each.partition: each.end for each in lost}}
