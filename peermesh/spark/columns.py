"""Entries of a log or a store as columns of Arrow, straight from their encoded bytes.

Text and bytes are encoded as they are, behind a head of one to nine bytes, which is cut off. All
else is decoded, and becomes plain JSON.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
from pyarrow import compute as pc

from peermesh.spark.filters import text_of_key
from peermesh.spark.options import ValueFormat
from stores.table.strings import Strings
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

_TEXT_STARTS: Final = bytes(
    0 if not 0x60 <= first < 0x7C else 1 if first < 0x78 else 1 + (1 << first - 0x78)
    for first in range(256)
)
"""By the first byte of an encoded text: where the text begins. Zero for all else."""

_STARTS: Final = bytes(
    _TEXT_STARTS[first + 0x20 if 0x40 <= first < 0x5C else first] for first in range(256)
)
"""The same for bytes, too, whose heads are those of texts less 0x20."""

_EMPTY_TEXT: Final = b"\x60"

_NO_TEXT: Final = b"\xff"
"""What no value is encoded as."""

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
        try:
            flat = run.entries()
        except DecodeError as error:
            place = self._name(run.partition, piece.offset)
            raise DecodeError(f"{place}: the log's entries are damaged: {error}") from None
        self._keys += flat[2 * piece.first : 2 * piece.last : 2]
        self._values += flat[2 * piece.first + 1 : 2 * piece.last : 2]
        self._partitions += array("i", (run.partition,)) * count
        self._offsets += array("q", range(piece.offset, piece.offset + count))
        self._times += array("q", (run.timestamp_ns // 1_000,)) * count
        self.count += count
        self.size += len(run.body)

    def columns(self) -> pa.RecordBatch:
        """Give the batch."""
        return pa.record_batch(
            {
                "key": key_column(encoded_column(self._keys), self._place),
                "partition": _numbers(pa.int32(), self._partitions),
                "offset": _numbers(pa.int64(), self._offsets),
                "timestamp": _numbers(_TIME, self._times),
                "value": value_column(encoded_column(self._values), self._place, self._format),
            }
        )

    def _place(self, number: int) -> str:
        return self._name(self._partitions[number], self._offsets[number])

    def _name(self, partition: int, offset: int) -> str:
        return f"log {self._log}, partition {partition}, offset {offset}"


def store_batches(
    pages: Iterable[Rows], store: str, value_format: ValueFormat
) -> Iterator[pa.RecordBatch]:
    """Give what was read of a store, in batches; raises ``DecodeError`` for what is no entry."""
    batch = _StoreBatch(store, value_format)
    for rows in pages:
        keys, values = Strings.of(rows.keys), Strings.of(rows.values)
        size = len(keys.content) + len(values.content)
        if batch.count and (
            batch.count + len(rows) > BATCH_COUNT or batch.size + size > BATCH_SIZE
        ):
            yield batch.columns()
            batch = _StoreBatch(store, value_format)
        batch.add(keys, values, rows.revisions)
    if batch.count:
        yield batch.columns()


class _StoreBatch:
    """Rows of a store that become one batch."""

    def __init__(self, store: str, value_format: ValueFormat) -> None:
        self._store = store
        self._format = value_format
        self.count = self.size = 0
        self._keys: list[pa.BinaryArray] = []
        self._values: list[pa.BinaryArray] = []
        self._revisions = array("q")

    def add(self, keys: Strings, values: Strings, revisions: Sequence[int]) -> None:
        """Take in a page."""
        self._keys.append(array_of(keys))
        self._values.append(array_of(values))
        self._revisions.extend(revisions)
        self.count += len(keys)
        self.size += len(keys.content) + len(values.content)

    def columns(self) -> pa.RecordBatch:
        """Give the batch."""
        keys, values = pa.concat_arrays(self._keys), pa.concat_arrays(self._values)

        def place(number: int) -> str:
            key = keys[number].as_py()
            start = _TEXT_STARTS[key[0]]
            return f"store {self._store}, key {key[start : start + KEY_SHOWN]!r}"

        return pa.record_batch(
            {
                "key": key_column(keys, place),
                "value": value_column(values, place, self._format),
                "revision": _numbers(pa.int64(), self._revisions),
            }
        )


# -- one column ------------------------------------------------------------------------------------


def key_column(encoded: pa.BinaryArray, where: Where) -> pa.StringArray:
    """Give encoded keys as text: text as it is, no key as null, and other keys as JSON.

    Raises ``DecodeError`` for what is no key; ``where`` says where it is.
    """
    if encoded.null_count == len(encoded):
        return encoded.cast(pa.string())

    def write(number: int, item: bytes) -> bytes | None:
        return _decoded(item, where(number), "key", text_of_key)

    if encoded.null_count:
        found = pc.if_else(
            encoded.is_valid(), _bare(encoded.fill_null(_EMPTY_TEXT), _TEXT_STARTS, write), None
        )
    else:
        found = _bare(encoded, _TEXT_STARTS, write)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid as error:
        items = enumerate(found.to_pylist())
        wrong = next(n for n, item in items if item and _text(item).encode() != item)
        raise DecodeError(f"{where(wrong)}, column key: it is no text: {error}") from None


def value_column(encoded: pa.BinaryArray, where: Where, value_format: ValueFormat) -> pa.Array:
    """Give encoded values: text and bytes as they are, nothing as null, all else as JSON.

    Raises ``DecodeError`` for what is no value; ``where`` says where it is.
    """

    def write(number: int, item: bytes) -> bytes | None:
        return _number(item) or _decoded(item, where(number), "value", _text_of_value)

    if encoded.null_count:
        encoded = encoded.fill_null(_NO_TEXT)
    found = _bare(encoded, _STARTS, write)
    if value_format is ValueFormat.BINARY:
        return found
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:  # Bytes among them are no UTF-8.
        texts = [None if item is None else _text(item) for item in found.to_pylist()]
        return pa.array(texts, pa.string())


def _bare(
    encoded: pa.BinaryArray, starts: bytes, write: Callable[[int, bytes], bytes | None]
) -> pa.BinaryArray:
    """Cut off the heads of those of which ``starts`` knows where they end, and write the others."""
    lengths = pc.binary_length(encoded)
    if pc.min(lengths).as_py() == 0:
        encoded = pc.if_else(pc.equal(lengths, 0), _NO_TEXT, encoded)
    sizes = heads_of(encoded).translate(starts)
    found = None
    for size in set(sizes) - {0}:
        bare = pc.binary_replace_slice(encoded, 0, size, b"")
        found = bare if found is None else pc.if_else(_are(sizes, size), bare, found)
    if 0 not in sizes:
        return found
    others = encoded.filter(_are(sizes, 0)).to_pylist()
    numbers = [number for number, size in enumerate(sizes) if not size]
    written = encoded_column(list(map(write, numbers, others)))
    return written if found is None else pc.replace_with_mask(found, _are(sizes, 0), written)


def heads_of(encoded: pa.BinaryArray) -> bytes:
    """Give the first byte of each item; none is empty."""
    found: bytes = pc.binary_slice(encoded, 0, 1).buffers()[2].to_pybytes()
    return found[: len(encoded)]


def _are(sizes: bytes, size: int) -> pa.BooleanArray:
    """Tell which sizes are this one. A scalar to compare with would import pandas, too."""
    flags = sizes.translate(bytes(each == size for each in range(256)))
    return _numbers(pa.uint8(), flags).cast(pa.bool_())


def _number(item: bytes) -> bytes | None:
    """Give integers of up to 32 bits and reals as JSON, at a tenth of the cost of decoding them.

    All else is left: also what is not encoded as short as it can be.
    """
    if (start := _NUMBERS.get(item[0])) is None or len(item) != start[0]:
        return None
    if item[0] == _REAL:
        (real,) = _unpack_real(item)
        return repr(real).encode() if isfinite(real) else None
    number = int.from_bytes(item[1:], "big") if start[0] > 1 else item[0] & 0x1F
    if number < start[1]:
        return None
    return b"%d" % (number if item[0] < 0x20 else -1 - number)


def _decoded(
    item: bytes, place: str, column: str, write: Callable[[Value], str | None]
) -> bytes | None:
    try:
        text = write(decode(item))
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


def encoded_column(items: Sequence[bytes | None]) -> pa.BinaryArray:
    """Lay encoded items out as Arrow has them.

    ``pa.array`` takes as long, and imports pandas, as long as reading a million rows.
    """
    try:
        return array_of(Strings.of(cast("Sequence[bytes]", items)))
    except TypeError:  # Some are null.
        if items.count(None) == len(items):
            return pa.nulls(len(items), pa.binary())
        return pa.array(items, pa.binary())


def array_of(items: Strings) -> pa.BinaryArray:
    """Give byte strings to Arrow as they are."""
    parts = [None, pa.py_buffer(items.ends), pa.py_buffer(items.content)]
    return pa.Array.from_buffers(pa.binary(), len(items), parts)


def _text(item: bytes) -> str:
    try:
        return item.decode()
    except UnicodeDecodeError:
        return plain_json(item)


def _numbers(kind: pa.DataType, items: array[int] | bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, len(items), [None, pa.py_buffer(items)])
