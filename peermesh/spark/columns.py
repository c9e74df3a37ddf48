"""Entries of a log or a store as columns of Arrow, straight from their encoded bytes.

Text and bytes are encoded as they are, behind a head of one to nine bytes, which is cut off. All
else is decoded, and becomes plain JSON.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa

from peermesh.spark.filters import text_of_key
from peermesh.spark.options import ValueFormat
from wire.decoding import decode
from wire.errors import DecodeError
from wire.limits import MIB
from wire.plain import plain
from wire.values import Value

if TYPE_CHECKING:
    from peermesh.spark.offsets import Piece
    from stores.table.rows import Rows

BATCH_COUNT: Final = 16_384
"""Rows of a batch: what a batch costs of its own is lost among them, and both sides have it in
memory as a whole."""

BATCH_SIZE: Final = 8 * MIB
"""Bytes of a batch, keys and values together, as long as a run is not larger."""

KEY_SHOWN: Final = 40
"""Bytes of a key that an error shows."""

Where = Callable[[int], str]
"""Names the place of a row, for errors, by its number in what is converted."""

_TIME: Final = pa.timestamp("us", "UTC")

_TYPES: Final = {ValueFormat.BINARY: pa.binary(), ValueFormat.STRING: pa.string()}

_TEXT_STARTS: Final = tuple(
    0 if not 0x60 <= first < 0x7C else 1 if first < 0x78 else 1 + (1 << first - 0x78)
    for first in range(256)
)
"""By the first byte of an encoded text: where the text begins. Zero for all else."""

_STARTS: Final = tuple(
    _TEXT_STARTS[first + 0x20 if 0x40 <= first < 0x5C else first] for first in range(256)
)
"""The same for bytes, too, whose heads are those of texts less 0x20."""


_REAL: Final = 0xFB

_unpack_real: Final = struct.Struct(">xd").unpack

_NUMBERS: Final = {
    sign + low: size
    for sign in (0, 0x20)
    for low, size in (
        *((low, (1, 0)) for low in range(24)),
        *((24, (2, 24)), (25, (3, 1 << 8)), (26, (5, 1 << 16))),
    )
} | {_REAL: (9, 0)}
"""By the first byte of an encoded number: its bytes, and the least that is encoded so."""


def log_batches(
    pieces: Iterable[Piece], log: str, value_format: ValueFormat
) -> Iterator[pa.RecordBatch]:
    """Give what was read of a log, in batches; raises ``DecodeError`` for what is no entry."""
    batch = _LogBatch(log, value_format)
    for piece in pieces:
        size = len(piece.run.body)
        if batch.count and (
            batch.count + piece.count > BATCH_COUNT or batch.size + size > BATCH_SIZE
        ):
            yield batch.columns()
            batch = _LogBatch(log, value_format)
        batch.add(piece)
    if batch.count:
        yield batch.columns()


class _LogBatch:
    """Rows of a log that become one batch."""

    def __init__(self, log: str, value_format: ValueFormat) -> None:
        self._log = log
        self._format = value_format
        self.count = self.size = 0
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._partitions, self._offsets, self._times = array("i"), array("q"), array("q")

    def add(self, piece: Piece) -> None:
        """Take in what a run has of them."""
        run, count = piece.run, piece.count
        where = _Places(self._log, run.partition, piece.offset)
        try:
            flat = run.entries()
        except DecodeError as error:
            raise DecodeError(f"{where(0)}: the log's entries are damaged: {error}") from None
        span = slice(2 * piece.first, 2 * piece.last, 2)
        self._keys += bare_keys(flat[span], where)
        span = slice(2 * piece.first + 1, 2 * piece.last, 2)
        self._values += bare_values(flat[span], where)
        self._partitions += array("i", (run.partition,)) * count
        self._offsets += array("q", range(piece.offset, piece.offset + count))
        self._times += array("q", (run.timestamp_ns // 1_000,)) * count
        self.count += count
        self.size += len(run.body)

    def columns(self) -> pa.RecordBatch:
        """Give the batch."""
        return pa.record_batch(
            {
                "key": _texts(self._keys, self._place),
                "partition": _numbers(pa.int32(), self._partitions),
                "offset": _numbers(pa.int64(), self._offsets),
                "timestamp": _numbers(_TIME, self._times),
                "value": _values(self._values, self._format),
            }
        )

    def _place(self, number: int) -> str:
        return _Places(self._log, self._partitions[number], self._offsets[number])(0)


class _Places:
    """Names the entries of a log from an offset on."""

    def __init__(self, log: str, partition: int, offset: int) -> None:
        self._log = log
        self._partition = partition
        self._offset = offset

    def __call__(self, number: int) -> str:
        return f"log {self._log}, partition {self._partition}, offset {self._offset + number}"


def store_batches(
    pages: Iterable[Rows], store: str, value_format: ValueFormat
) -> Iterator[pa.RecordBatch]:
    """Give what was read of a store, in batches; raises ``DecodeError`` for what is no entry."""
    batch = _StoreBatch(store, value_format)
    for rows in pages:
        size = sum(map(len, rows.keys)) + sum(map(len, rows.values))
        if batch.count and (
            batch.count + len(rows) > BATCH_COUNT or batch.size + size > BATCH_SIZE
        ):
            yield batch.columns()
            batch = _StoreBatch(store, value_format)
        batch.add(rows, size)
    if batch.count:
        yield batch.columns()


class _StoreBatch:
    """Rows of a store that become one batch."""

    def __init__(self, store: str, value_format: ValueFormat) -> None:
        self._store = store
        self._format = value_format
        self.count = self.size = 0
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._revisions = array("q")

    def add(self, rows: Rows, size: int) -> None:
        """Take in a page, which has so many bytes."""

        def where(number: int) -> str:
            return f"store {self._store}, key {rows.keys[number][:KEY_SHOWN]!r}"

        self._keys += bare_keys(rows.keys, where)
        self._values += bare_values(rows.values, where)
        self._revisions.extend(rows.revisions)
        self.count += len(rows)
        self.size += size

    def columns(self) -> pa.RecordBatch:
        """Give the batch."""
        return pa.record_batch(
            {
                "key": _texts(self._keys, self._place),
                "value": _values(self._values, self._format),
                "revision": _numbers(pa.int64(), self._revisions),
            }
        )

    def _place(self, number: int) -> str:
        return f"store {self._store}, key {(self._keys[number] or b'')[:KEY_SHOWN]!r}"


# -- one column ------------------------------------------------------------------------------------


def bare_keys(items: Sequence[bytes | None], where: Where) -> list[bytes | None]:
    """Give encoded keys as text: text as it is, no key as null, and other keys as JSON."""
    starts = _TEXT_STARTS
    return [
        None
        if item is None
        else item[start:]
        if (start := starts[item[0]])
        else _decoded(item, where(number), "key", text_of_key)
        for number, item in enumerate(items)
    ]


def bare_values(items: Sequence[bytes | None], where: Where) -> list[bytes | None]:
    """Give encoded values as bytes: text and bytes as they are, nothing as null, all else JSON."""
    starts = _STARTS
    return [
        item[start:]
        if item and (start := starts[item[0]])
        else _number(item) or _decoded(item, where(number), "value", _text_of_value)
        for number, item in enumerate(items)
    ]


def _number(item: bytes | None) -> bytes | None:
    """Give integers of up to 32 bits and reals as JSON, at a tenth of the cost of decoding them.

    All else is left: also what is not encoded as short as it can be.
    """
    if not item or (start := _NUMBERS.get(item[0])) is None or len(item) != start[0]:
        return None
    if item[0] == _REAL:
        (real,) = _unpack_real(item)
        return repr(real).encode() if isfinite(real) else None
    number = int.from_bytes(item[1:], "big") if start[0] > 1 else item[0] & 0x1F
    if number < start[1]:
        return None
    return b"%d" % (number if item[0] < 0x20 else -1 - number)


def _decoded(
    item: bytes | None, place: str, column: str, write: Callable[[Value], str | None]
) -> bytes | None:
    try:
        text = write(decode(item or b""))
    except DecodeError as error:
        raise DecodeError(f"{place}, column {column}: it is no value: {error}") from None
    return None if text is None else text.encode()


def _text_of_value(value: Value) -> str | None:
    return None if value is None else plain_json(value)


def plain_json(value: Value) -> str:
    """Write a value as the JSON that ``from_json`` reads: times as ISO text, bytes as base64."""
    found = plain(value)
    try:
        return json.dumps(found, ensure_ascii=False, allow_nan=False)
    except ValueError:  # JSON has no NaN and no infinity, and Spark reads them as text.
        return json.dumps(_finite(found), ensure_ascii=False)


def _finite(found: object) -> object:
    match found:
        case float() if not isfinite(found):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(found)]
        case list():
            return list(map(_finite, found))
        case dict():
            return {name: _finite(each) for name, each in found.items()}
        case _:
            return found


def _texts(items: Sequence[bytes | None], where: Where) -> pa.Array:
    try:
        return _column(items, pa.string())
    except pa.ArrowInvalid as error:
        wrong = (n for n, item in enumerate(items) if item and _text(item).encode() != item)
        raise DecodeError(f"{where(next(wrong))}, column key: it is no text: {error}") from None


def _values(items: Sequence[bytes | None], value_format: ValueFormat) -> pa.Array:
    try:
        return _column(items, _TYPES[value_format])
    except pa.ArrowInvalid:  # Bytes among them are no UTF-8.
        return pa.array([None if item is None else _text(item) for item in items], pa.string())


def _column(items: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Lay items out as Arrow has them; raises ``ArrowInvalid`` where text is wanted and is none.

    ``pa.array`` takes as long, and imports pandas, as long as reading a million rows.
    """
    given = cast("Sequence[bytes]", items)
    try:
        content = b"".join(given)
    except TypeError:  # Some are null.
        if items.count(None) == len(items):
            return pa.nulls(len(items), kind)
        return pa.array(items, pa.binary()).cast(kind)
    ends = array("i", accumulate(map(len, given), initial=0))
    parts = [None, pa.py_buffer(ends), pa.py_buffer(content)]
    found = pa.Array.from_buffers(kind, len(items), parts)
    if not content.isascii():
        found.validate(full=True)
    return found


def _text(item: bytes) -> str:
    try:
        return item.decode()
    except UnicodeDecodeError:
        return plain_json(item)


def _numbers(kind: pa.DataType, items: array[int]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(items)])
