"""The bytes of what a proxy asks the leader of a log, and of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stores import fields, shapes
from stores.limits import ERROR_TEXT_SIZE_MAX
from stores.log import log_fields
from stores.log.limits import CONSUMERS_MAX, CURSORS_MAX, PARTITIONS_MAX
from stores.log.messages import (
    Answer,
    Counted,
    CountQuery,
    Fetch,
    Fetched,
    Found,
    Query,
    QueryFailed,
    State,
    StateQuery,
    TimeQuery,
)

_offsets: Final = fields.list_of(log_fields.offset_of, PARTITIONS_MAX)
_runs: Final = fields.list_of(log_fields.kept_run, CURSORS_MAX)
_seen: Final = fields.list_of(shapes.position, PARTITIONS_MAX)
_cursors: Final = fields.list_of(log_fields.cursor, CONSUMERS_MAX)

QUERIES: Final[dict[int, shapes.Shape[Query]]] = {
    20: (Fetch, (fields.count, log_fields.places, fields.count, fields.count, _seen)),
    21: (StateQuery, (fields.count,)),
    22: (TimeQuery, (fields.count, fields.count)),
    23: (CountQuery, (fields.count,)),
}
"""By their kinds, among the requests of a log."""

ANSWERS: Final[dict[int, shapes.Shape[Answer]]] = {
    64: (Fetched, (fields.count, _runs, _offsets)),
    65: (State, (fields.count, _offsets, _offsets, _cursors, shapes.position)),
    66: (Found, (fields.count, _offsets)),
    67: (QueryFailed, (fields.count, fields.error_code, fields.text)),
    68: (Counted, (fields.count, log_fields.partition_count)),
}
"""By their kinds, among the answers of a log; those that stores give have lower ones."""

PACKERS: Final[dict[type, Callable[[Any], list[object]]]] = {
    Fetch: lambda value: [
        *(20, value.query, value.positions, value.size_max),
        *(value.wait_ticks, [[each.term, each.index] for each in value.seen]),
    ],
    StateQuery: lambda value: [21, value.query],
    TimeQuery: lambda value: [22, value.query, value.timestamp_ns],
    Fetched: lambda value: [
        *(64, value.query, [*map(log_fields.packed_kept, value.runs)]),
        value.offsets,
    ],
    State: lambda value: [
        *(65, value.query, value.starts, value.ends, value.cursors),
        [value.last.term, value.last.index],
    ],
    CountQuery: lambda value: [23, value.query],
    Counted: lambda value: [68, value.query, value.partition_count],
    Found: lambda value: [66, value.query, value.offsets],
    QueryFailed: lambda value: [
        *(67, value.query, int(value.code)),
        value.text[:ERROR_TEXT_SIZE_MAX],
    ],
}
