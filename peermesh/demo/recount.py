"""The plain recount: one loop over the file, without mesh, store or Spark, to compare with."""

from __future__ import annotations

import os

from peermesh.demo.errors import InputError
from peermesh.demo.keys import MISSING, BadLine, parse
from peermesh.demo.reading import read_lines
from peermesh.demo.tally import Tally
from wire.encoding import encode

FIELDS_SHOWN_MAX = 12
"""Fields that are offered to whoever named one that is not there: a line of a terminal."""


def recount(path: str | os.PathLike[str], by: str) -> Tally:
    """Count the events of a file by a field; raises ``InputError``.

    A file without any event, and a field that no event has, are mistakes of whoever named them.
    """
    tally = Tally()
    for number, line in read_lines(path):
        tally.add(number, line, by)
    name = os.fspath(path)
    if not tally.lines:
        raise InputError(f"{name} is empty: there is nothing to count")
    if not tally.events:
        number, reason = tally.bad_lines[0]
        raise InputError(
            f"no line of {name} is an event: line {number} is {reason};"
            " name a file with a JSON object on each line"
        )
    if set(tally.counts) == {encode(MISSING)}:
        raise InputError(
            f"no event of {name} has the field {by!r}: give another --key;"
            f" its first event has {first_fields(name)}"
        )
    return tally


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
