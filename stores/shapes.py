"""How machines of groups write what is theirs: CBOR arrays with a kind, and fields that they share.

What is read is looked at field by field. All that is wrong with it is a ``DecodeError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import call
from typing import Any, Final, TypeVar

from stores import fields
from stores.encoding import load_array
from stores.group.positions import Position
from stores.limits import CHUNK_COUNT_MAX, OUTCOMES_MAX
from stores.quota import Quota
from stores.table.lineage import LINEAGE_MAX, Reign
from stores.table.writers import LedgerRow
from wire.errors import DecodeError, InvalidData

_ReadT = TypeVar("_ReadT")

Accept = Callable[[object], Any]

Shape = tuple[Callable[..., _ReadT], tuple[Accept, ...]]
"""What builds one kind, and what its fields accept, in order."""


def read(shapes: Mapping[int, Shape[_ReadT]], data: bytes, what: str) -> _ReadT:
    """Read one of several kinds; raises ``DecodeError``, which says ``what`` it should be."""
    kind, *items = load_array(data, size_min=1)
    if type(kind) is not int or (shape := shapes.get(kind)) is None:
        raise DecodeError(f"{what} has the unknown kind {kind!r:.40}")
    build, accepts = shape
    if len(items) != len(accepts):
        raise DecodeError(f"{what} of kind {kind} has {len(accepts)} fields, and {len(items)} came")
    return build(*map(call, accepts, items))


def as_is(value: object) -> object:
    """Accept anything: what builds the kind looks at it."""
    return value


# -- fields ----------------------------------------------------------------------------------------


def quota(value: object) -> Quota:
    """Accept a quota."""
    match value:
        case [entries, size]:
            try:
                return Quota(fields.optional_count(entries), fields.optional_count(size))
            except InvalidData as error:
                raise DecodeError(f"a quota that nothing fits in: {error}") from None
        case _:
            raise DecodeError("a quota has two limits")


def position(value: object) -> Position:
    """Accept the name of an entry."""
    match value:
        case [term, index]:
            return Position(fields.count(term), fields.count(index))
        case _:
            raise DecodeError("a position has a term and an index")


def _reign(value: object) -> Reign:
    match value:
        case [term, first]:
            return Reign(fields.count(term), fields.count(first))
        case _:
            raise DecodeError("a reign has a term and an index")


reigns: Final = fields.list_of(_reign, LINEAGE_MAX)


def _ledger_row(value: object) -> LedgerRow:
    match value:
        case [writer, number, last_request, outcomes]:
            known = fields.list_of(fields.outcome, OUTCOMES_MAX)(outcomes)
            numbers = fields.count(number), fields.count(last_request)
            return LedgerRow(fields.writer(writer), *numbers, known)
        case _:
            raise DecodeError("a record of a writer has four fields")


ledger_rows: Final = fields.list_of(_ledger_row, CHUNK_COUNT_MAX)


# -- the way out -----------------------------------------------------------------------------------


def packed_quota(value: Quota) -> list[object]:
    """Turn a quota into what CBOR can write."""
    return [value.max_entries, value.max_bytes]


def packed_row(row: LedgerRow) -> list[object]:
    """Turn a record of a writer into what CBOR can write."""
    return [row.writer, row.number, row.last_request, fields.pack(row.outcomes)]
