"""The plain recount: one loop over the file, without mesh, store or Spark, to compare with."""

from __future__ import annotations

import os

from peermesh.demo.errors import InputError
from peermesh.demo.events import EventReader
from peermesh.demo.keys import BAD, MISSING, BadLine, parse
from peermesh.demo.reading import read_lines
from peermesh.demo.tally import Tally
from peermesh.demo.times import window_of

FIELDS_SHOWN_MAX = 12
"""Fields that are offered to whoever named one that is not there: a line of a terminal."""


def recount(
    path: str | os.PathLike[str], key_field: str, time_field: str, window_seconds: int
) -> Tally:
    """Count the events of a file by window and key; raises ``InputError``.

    A file without any event, and a field that no event has, are mistakes of whoever named them.
    """
    tally, reader = Tally(), EventReader(key_field, time_field)
    for number, line in read_lines(path):
        event = reader.read(number, line)
        tally.cells[window_of(event.time, window_seconds), event.key] += 1
        tally.lateness.add(event.time)
        if event.reason:
            tally.remember_bad(number, event.reason)
    _check(os.fspath(path), key_field, tally)
    return tally


def _check(name: str, key_field: str, tally: Tally) -> None:
    keys = set(tally.totals())
    if not keys:
        raise InputError(f"{name} is empty: there is nothing to count")
    if keys == {BAD}:
        number, reason = tally.bad_lines[0]
        raise InputError(
            f"no line of {name} is an event: line {number} is {reason};"
            " name a file with a JSON object on each line"
        )
    if keys <= {BAD, MISSING}:
        raise InputError(
            f"no event of {name} has the field {key_field!r}: give another --key;"
            f" its first event has {first_fields(name)}"
        )


def first_fields(path: str | os.PathLike[str]) -> str:
    """Name the fields of a file's first event, for whoever has to choose one."""
    for _, line in read_lines(path):
        try:
            fields = list(parse(line))
        except BadLine:
            continue
        more = ", …" if len(fields) > FIELDS_SHOWN_MAX else ""
        return ", ".join(fields[:FIELDS_SHOWN_MAX]) + more or "no field at all"
    return "no field at all"
