"""The bytes of requests, journal bodies, parts of snapshots and answers of a log's machine.

They are CBOR arrays with a kind, as those of a store's are; answers are the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import cbor2

from stores import fields, shapes
from stores.actions import WriterId
from stores.limits import CHUNK_COUNT_MAX, CHUNK_SIZE_MAX, RUN_COUNT_MAX
from stores.log import log_fields, packed_reads
from stores.log.bodies import (
    Begun,
    Body,
    ChangeRetention,
    LogRequest,
    Performed,
    RetentionChanged,
    Write,
)
from stores.log.limits import (
    PARTITIONS_MAX,
)
from stores.log.messages import (
    Answer as Reply,
    Request,
    Requests,
    Trimmed,
)
from stores.log.parts import ROW_SIZE, CursorsPart, HeadPart, Part, ProducersPart, RunsPart
from stores.log.windows import encoded
from stores.table.bodies import ChangeQuota, QuotaChanged, Register, Registered
from stores.table.codec import ANSWERS, encode_answer
from stores.table.parts import WritersPart
from wire import cbor

ROWS_MAX: Final = CHUNK_SIZE_MAX // ROW_SIZE
"""Consumers or producers in one part of a snapshot: each takes so much at least."""


# -- kinds -----------------------------------------------------------------------------------------


def _write(
    number: int, writer: WriterId, first: int, resolved: int, requests: tuple[Request, ...]
) -> Write:
    return Write(number, Requests(writer, first, resolved, requests))


_BODIES: Final[dict[int, shapes.Shape[Body]]] = {
    1: (
        Performed,
        (
            *(fields.writer, fields.count, log_fields.outcomes),
            *(fields.list_of(log_fields.run, RUN_COUNT_MAX), fields.count),
            *(fields.list_of(log_fields.produced, RUN_COUNT_MAX), log_fields.places),
            fields.list_of(log_fields.name, RUN_COUNT_MAX),
            fields.list_of(log_fields.cursor, RUN_COUNT_MAX),
        ),
    ),
    2: (Trimmed, (log_fields.places,)),
    3: (Registered, (fields.writer, fields.count, fields.optional_writer)),
    4: (QuotaChanged, (shapes.quota,)),
    5: (Begun, (log_fields.partition_count, log_fields.registered)),
    6: (RetentionChanged, (log_fields.retention,)),
}
_REQUESTS: Final[dict[int, shapes.Shape[LogRequest]]] = {
    16: (Register, (fields.writer, fields.count)),
    17: (_write, (fields.count, fields.writer, fields.count, fields.count, log_fields.requests)),
    18: (ChangeQuota, (shapes.quota,)),
    19: (ChangeRetention, (log_fields.retention,)),
    **packed_reads.QUERIES,
}
_PARTS: Final[dict[int, shapes.Shape[Part]]] = {
    32: (
        HeadPart,
        (
            *(shapes.position, fields.count, fields.list_of(log_fields.span, PARTITIONS_MAX)),
            *(log_fields.times, shapes.quota, log_fields.retention, shapes.reigns),
        ),
    ),
    33: (RunsPart, (fields.list_of(log_fields.kept_run, CHUNK_COUNT_MAX),)),
    34: (WritersPart, (shapes.ledger_rows,)),
    35: (CursorsPart, (fields.list_of(log_fields.cursor, ROWS_MAX),)),
    36: (ProducersPart, (fields.list_of(log_fields.producer, ROWS_MAX),)),
}


_PRODUCERS_START: Final = cbor.head(cbor.ARRAY, 2) + cbor.head(cbor.UNSIGNED, 36)
_ROW_START: Final = cbor.head(cbor.ARRAY, 3)

_ANSWERS: Final[dict[int, shapes.Shape[Any]]] = {
    **{kind: ANSWERS[kind] for kind in range(48, 53)},  # What writers and members are told.
    **packed_reads.ANSWERS,
}


# -- out -------------------------------------------------------------------------------------------


def _packed_performed(body: Performed) -> list[object]:
    return [
        *(1, body.writer, body.resolved, fields.pack(body.outcomes)),
        *(
            [*map(log_fields.packed_run, body.runs)],
            body.elapsed_ns,
            [*map(log_fields.packed_produced, body.produced)],
        ),
        *(body.starts, body.forgotten, body.moved),
    ]


def _packed_write(write: Write) -> list[object]:
    asked = write.asked
    head = 17, write.number, asked.writer, asked.first_request, asked.resolved_request
    return [*head, [*map(log_fields.packed_request, asked.requests)]]


def _packed_begun(body: Begun) -> list[object]:
    one = body.registered
    assert one is None or one.evicted is None, "the first writer has no other one's place"
    return [5, body.partition_count, one and [one.writer, one.last_request]]


def _packed_head(part: HeadPart) -> list[object]:
    return [
        *(32, [part.position.term, part.position.index], part.after),
        *([[span.start, span.end] for span in part.spans], list(part.times)),
        *(shapes.packed_quota(part.quota), log_fields.packed_retention(part.retention)),
        [list(reign) for reign in part.reigns],
    ]


_PACKERS: Final[dict[type, Callable[[Any], list[object]]]] = {
    Performed: _packed_performed,
    Trimmed: lambda value: [2, value.starts],
    Registered: lambda value: [3, value.writer, value.last_request, value.evicted],
    QuotaChanged: lambda value: [4, shapes.packed_quota(value.quota)],
    Begun: _packed_begun,
    RetentionChanged: lambda value: [6, log_fields.packed_retention(value.retention)],
    Register: lambda value: [16, value.writer, value.last_request],
    Write: _packed_write,
    ChangeQuota: lambda value: [18, shapes.packed_quota(value.quota)],
    ChangeRetention: lambda value: [19, log_fields.packed_retention(value.retention)],
    HeadPart: _packed_head,
    RunsPart: lambda value: [33, [*map(log_fields.packed_kept, value.runs)]],
    WritersPart: lambda value: [34, [*map(shapes.packed_row, value.rows)]],
    CursorsPart: lambda value: [35, value.cursors],
    **packed_reads.PACKERS,
}


def _encoded_producers(part: ProducersPart) -> bytes:
    """Write producers, whose appends are encoded already."""
    pieces = [_PRODUCERS_START, cbor.head(cbor.ARRAY, len(part.rows))]
    for row in part.rows:
        pieces += (_ROW_START, cbor2.dumps(row.name), encoded(row.appended), cbor2.dumps(row.floor))
    return b"".join(pieces)


def _encode(value: object) -> bytes:
    return cbor2.dumps(_PACKERS[type(value)](value))


class LogCodec:
    """All of these as a replica group asks for them: see ``stores.group.codec.MachineCodec``."""

    def encode(self, body: object) -> bytes:
        """Write what a journal entry holds; what requests came to is written once."""
        if not isinstance(body, Performed):
            return _encode(body)
        if body.encoded is None:
            body.encoded = _encode(body)
        return body.encoded

    def decode(self, data: bytes) -> Body:
        """Read what a journal entry holds; raises ``DecodeError``."""
        body = shapes.read(_BODIES, data, "an entry of a log")
        if isinstance(body, Performed):
            body.encoded = data
        return body

    def encode_part(self, part: object) -> bytes:
        """Write a part of a snapshot."""
        return _encoded_producers(part) if isinstance(part, ProducersPart) else _encode(part)

    def decode_part(self, data: bytes) -> Part:
        """Read a part of a snapshot; raises ``DecodeError``."""
        return shapes.read(_PARTS, data, "a part of a snapshot of a log")

    def encode_request(self, request: object) -> bytes:
        """Write a request."""
        return _encode(request)

    def decode_request(self, data: bytes) -> LogRequest:
        """Read a request; raises ``DecodeError``. Whether values are encodings, ``judge`` sees."""
        return shapes.read(_REQUESTS, data, "a request of a log")

    def encode_answer(self, answer: object) -> bytes:
        """Write an answer."""
        return _encode(answer) if isinstance(answer, Reply) else encode_answer(answer)

    def decode_answer(self, data: bytes) -> object:
        """Read an answer; raises ``DecodeError``."""
        return shapes.read(_ANSWERS, data, "an answer of a log")
