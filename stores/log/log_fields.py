"""The fields of what a log's machine writes: for each a suspicious way in, and a way out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from stores import fields
from stores.group.clock import Times
from stores.group.positions import Position
from stores.limits import RUN_COUNT_MAX
from stores.log.bodies import Produced
from stores.log.kept_runs import KeptRun
from stores.log.limits import (
    APPEND_COUNT_MAX,
    NAME_SIZE_MAX,
    OFFSET_END,
    PARTITIONS_MAX,
    PRODUCER_WINDOW,
)
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Positions, Request, Trim
from stores.log.partitions import Retention, Span
from stores.log.producers import ProducerRow
from stores.log.runs import Flat, Run
from stores.log.windows import Appends
from stores.outcomes import Outcome
from stores.table.bodies import Registered
from wire.errors import DecodeError, InvalidData

_BYTES: Final[set[type]] = {bytes}
_BYTES_OR_NONE: Final[set[type]] = {bytes, type(None)}


def _refusal(wanted: str) -> DecodeError:
    return DecodeError(f"something of a log has no {wanted} where one belongs")


# -- single things ---------------------------------------------------------------------------------


def offset_of(value: object) -> int:
    """Accept where an entry is, or may be, in its partition."""
    if type(value) is not int or not 0 <= value < OFFSET_END:
        raise _refusal("offset")
    return value


def partition_of(value: object) -> int:
    """Accept the number of a partition."""
    if type(value) is not int or not 0 <= value < PARTITIONS_MAX:
        raise _refusal("partition")
    return value


def partition_count(value: object) -> int:
    """Accept how many partitions a log has."""
    if type(value) is not int or not 0 < value <= PARTITIONS_MAX:
        raise _refusal("number of partitions")
    return value


def name(value: object) -> str:
    """Accept the name of a consumer or producer."""
    if type(value) is not str or not 0 < len(value) <= NAME_SIZE_MAX:
        raise _refusal("name")
    return value


def span(value: object) -> Span:
    """Accept where a partition begins and ends."""
    match value:
        case [start, end]:
            return Span(offset_of(start), offset_of(end))
        case _:
            raise _refusal("span")


def times(value: object) -> Times:
    """Accept two times of a group."""
    match value:
        case [elapsed_ns, stamp_ns]:
            return Times(fields.count(elapsed_ns), fields.count(stamp_ns))
        case _:
            raise _refusal("pair of times")


def retention(value: object) -> Retention:
    """Accept a rule of what is kept."""
    match value:
        case [age_ns, count, size]:
            try:
                return Retention(*map(fields.optional_count, (age_ns, count, size)))
            except InvalidData as error:
                raise DecodeError(str(error)) from None
        case _:
            raise _refusal("rule of retention")


def registered(value: object) -> Registered | None:
    """Accept the registration of a first writer, or null."""
    match value:
        case None:
            return None
        case [writer, last_request]:
            return Registered(fields.writer(writer), fields.count(last_request), None)
        case _:
            raise _refusal("registration")


# -- runs, and where things are --------------------------------------------------------------------


def _place(value: object) -> tuple[int, int]:
    match value:
        case [partition, offset]:
            return partition_of(partition), offset_of(offset)
        case _:
            raise _refusal("place")


places: Final = fields.list_of(_place, PARTITIONS_MAX)


def run(value: object) -> Run:
    """Accept entries of one partition; what they hold, a reader looks at."""
    match value:
        case [partition, first, count, stamp_ns, body] if count:
            place = partition_of(partition), offset_of(first), fields.count(count)
            found = Run(*place, fields.count(stamp_ns), fields.byte_string(body))
            offset_of(found.end)
            return found
        case _:
            raise _refusal("run")


def kept_run(value: object) -> KeptRun:
    """Accept a run with the entry that it came with."""
    match value:
        case [*rest, term, index, elapsed_ns]:
            at = Position(fields.count(term), fields.count(index))
            return KeptRun.of(run(rest), at, fields.count(elapsed_ns))
        case _:
            raise _refusal("run with its position")


def cursor(value: object) -> tuple[str, Positions]:
    """Accept where a consumer is."""
    match value:
        case [consumer, at]:
            return name(consumer), places(at)
        case _:
            raise _refusal("cursor")


def produced(value: object) -> Produced:
    """Accept what a producer appended."""
    match value:
        case [producer_name, sequence, partition, offset]:
            place = partition_of(partition), offset_of(offset)
            return Produced(name(producer_name), fields.count(sequence), *place)
        case _:
            raise _refusal("append of a producer")


def _appended(value: object) -> tuple[int, int, int]:
    match value:
        case [sequence, partition, offset]:
            return fields.count(sequence), partition_of(partition), offset_of(offset)
        case _:
            raise _refusal("append of a producer")


_window: Final = fields.list_of(_appended, PRODUCER_WINDOW)


def producer(value: object) -> ProducerRow:
    """Accept what is remembered of a producer."""
    match value:
        case [producer_name, appended, floor]:
            known, first = _window(appended), fields.count(floor)
            is_growing = all(one[0] < other[0] for one, other in pairwise(known))
            if not is_growing or not (known[0][0] == first if known else first > 0):
                raise _refusal("row of growing numbers")
            return ProducerRow(name(producer_name), Appends.of(known), first)
        case _:
            raise _refusal("producer")


# -- requests, and what becomes of them ------------------------------------------------------------


_outcomes: Final = fields.list_of(fields.outcome, RUN_COUNT_MAX)


def outcomes(value: object) -> tuple[Outcome, ...]:
    """Accept what became of consecutive requests, one at least."""
    found = _outcomes(value)
    next_request = found[0].first_request if found else 0
    for each in found:
        if not 0 < each.first_request == next_request <= each.last_request:
            raise _refusal("row of outcomes without a gap")
        next_request = each.last_request + 1
    if not found:
        raise _refusal("outcome")
    return found


def _request(value: object) -> Request:
    match value:
        case [0, partition, by, sequence, *entries]:
            by = None if by is None else name(by)
            return Append(partition_of(partition), by, fields.count(sequence), _entries(entries))
        case [1, consumer, at]:
            return MoveCursor(name(consumer), places(at))
        case [2, consumer]:
            return ForgetConsumer(name(consumer))
        case [3, partition, offset]:
            return Trim(partition_of(partition), offset_of(offset))
        case _:
            raise _refusal("request")


def _entries(items: list[Any]) -> Flat:
    if not items or len(items) % 2 or len(items) > 2 * APPEND_COUNT_MAX:
        raise _refusal("row of keys and values in turn")
    if len(items) == 2:  # One that was appended alone, as most are.
        key, value = items
        if type(value) is bytes and (key is None or type(key) is bytes):
            return key, value
    # One set for all types: a look at each item alone would cost ten times as much.
    is_right = set(map(type, items[1::2])) == _BYTES
    if not is_right or not set(map(type, items[::2])) <= _BYTES_OR_NONE:
        raise _refusal("row of encoded keys and values")
    return tuple(items)


requests: Final = fields.list_of(_request, RUN_COUNT_MAX)


# -- the way out -----------------------------------------------------------------------------------


def packed_run(value: Run) -> list[object]:
    """Turn a run into what CBOR can write."""
    return [value.partition, value.first_offset, value.count, value.timestamp_ns, value.body]


def packed_kept(value: KeptRun) -> list[object]:
    """Turn a run with its entry into what CBOR can write."""
    position = value.position
    return [*packed_run(value), position.term, position.index, value.elapsed_ns]


def packed_produced(value: Produced) -> list[object]:
    """Turn what a producer appended into what CBOR can write."""
    return [value.producer, value.sequence, value.partition, value.offset]


def packed_request(request: Request) -> list[object]:
    """Turn a request into what CBOR can write."""
    if isinstance(request, Append):  # Most are: a pattern with its fields takes twice as long.
        return [0, request.partition, request.producer, request.sequence, *request.entries]
    match request:
        case MoveCursor(consumer, at):
            return [1, consumer, at]
        case ForgetConsumer(consumer):
            return [2, consumer]
        case Trim(partition, offset):
            return [3, partition, offset]


def packed_retention(value: Retention) -> list[object]:
    """Turn a rule of what is kept into what CBOR can write."""
    return [value.age_ns, value.count, value.size]
