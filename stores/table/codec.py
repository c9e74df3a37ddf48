"""The bytes of requests, journal bodies, parts of snapshots and answers: CBOR arrays with a kind.

What is read is looked at field by field. All that is wrong with it is a ``DecodeError``.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import cbor2

from stores import fields, shapes
from stores.actions import (
    Action,
    BatchResultCommand,
    ClearCommand,
    EraseCommand,
    ExpireCommand,
    PutCommand,
    PutUniqueResultCommand,
    RefusalCommand,
    request_range,
)
from stores.encoding import decode_action, encode_action, encode_byte_strings
from stores.judgement import Request
from stores.limits import (
    CHUNK_COUNT_MAX,
    ERROR_TEXT_SIZE_MAX,
    KEY_SIZE_MAX,
    OUTCOMES_MAX,
    RUN_COUNT_MAX,
)
from stores.outcomes import Outcome
from stores.questions import (
    LookUpCommand,
    Question,
    ReadAnswerCommand,
    ReadRefusedCommand,
    ScanCommand,
)
from stores.scanning import PAGE_COUNT_MAX
from stores.table.bodies import (
    Answered,
    Body,
    ChangeQuota,
    Compare,
    Compared,
    EndSession,
    Found,
    OpenSession,
    OutOfOrder,
    Performed,
    QuotaChanged,
    Read,
    Register,
    Registered,
    Registration,
    RenewSession,
    SessionGranted,
    SessionHeard,
    SessionOpened,
    SessionRow,
    SessionsEnded,
    Stamp,
    TableRequest,
    UnknownWriter,
    Write,
)
from stores.table.parts import EntriesPart, HeadPart, Part, SessionsPart, WritersPart
from stores.table.recognition import Recognition
from stores.table.rows import Rows
from stores.table.sessions import SESSIONS_MAX
from stores.table.strings import Strings, packed, unpacked
from stores.table.writers import LedgerRow
from stores.work import SLICE_COUNT
from wire import cbor
from wire.errors import DecodeError

ACTIONS_MAX: Final = 2 * RUN_COUNT_MAX
"""Actions of one entry: a put that is unique comes to two of them."""

NONCE_SIZE: Final = 16
"""Bytes of a session's nonce: as many as an id has."""

_Result = (
    PutCommand
    | PutUniqueResultCommand
    | EraseCommand
    | ClearCommand
    | BatchResultCommand
    | RefusalCommand
)
"""What a request comes to: nothing that a member would have to decide about."""


# -- fields ----------------------------------------------------------------------------------------


def _request(value: object) -> Request:
    action = decode_action(fields.byte_string(value))
    if not isinstance(action, Request) or request_range(action) is None:
        raise DecodeError(f"a writer asks for a {type(action).__name__}: only leaders do that")
    return action


_requests: Final = fields.list_of(_request, RUN_COUNT_MAX)


def _stamp(value: object) -> Stamp:
    match value:
        case [term, revision]:
            return Stamp(fields.count(term), fields.revision(revision))
        case _:
            raise DecodeError("a state that was read has a term and a revision")


def _question(value: object) -> Question:
    count, flag = fields.count, fields.flag
    match value:
        case [number, revision_min, key, has_value]:
            numbers = count(number), count(revision_min)
            return LookUpCommand(*numbers, fields.key(key), flag(has_value))
        case [number, revision_min, start, stop, limit, has_values, revision, step]:
            numbers = count(number), count(revision_min)
            span = fields.byte_string(start), fields.optional_bytes(stop)
            shown = count(limit), flag(has_values)
            moment = fields.optional_count(revision)
            return ScanCommand(*numbers, *span, *shown, moment, fields.step_size(step))
        case _:
            raise DecodeError("a proxy asks for a key, or for a stretch of keys")


def _found(stamp: Stamp, number: int, rows: Rows, continuation: bytes | None) -> Found:
    return Found(stamp, ReadAnswerCommand(number, rows, continuation))


def _rows(value: object) -> Rows:
    match value:
        case [keys, key_ends, values, value_ends, revisions, expiries]:
            rows = Rows(
                _strings(keys, key_ends),
                _strings(values, value_ends),
                fields.revisions(unpacked("Q", fields.byte_string(revisions)).tolist()),
                fields.list_of(fields.optional_count, PAGE_COUNT_MAX)(expiries),
            )
        case _:
            raise DecodeError("entries for a proxy come in four columns, two of them in blocks")
    columns = rows.values, rows.expiries
    if len(rows.revisions) != len(rows) or any(len(each) not in (0, len(rows)) for each in columns):
        raise DecodeError("entries for a proxy have columns of several lengths")
    return rows


def _strings(content: object, ends: object) -> Strings:
    found = Strings.unpacked(fields.byte_string(content), fields.byte_string(ends))
    if len(found) > PAGE_COUNT_MAX:
        raise DecodeError(f"more than {PAGE_COUNT_MAX} entries for a proxy")
    return found


def _gone(number: int, text: str) -> ReadRefusedCommand:
    return ReadRefusedCommand(number, is_stale=False, text=text, is_gone=True)


def _actions(value: object) -> tuple[Action, ...]:
    actions = _results(value)
    if not actions or request_range(actions[-1]) is None:
        raise DecodeError("an entry of a store answers no request")
    if len(actions) > 1 and len({action.writer for action in actions}) != 1:
        raise DecodeError("an entry of a store has several writers")
    return actions


def _action(value: object) -> _Result:
    action = decode_action(fields.byte_string(value))
    if not isinstance(action, _Result):
        raise DecodeError(f"an entry of a store has a {type(action).__name__}, which is no result")
    return action


_results: Final = fields.list_of(_action, ACTIONS_MAX)


def _keys(value: object) -> list[bytes]:
    keys = fields.list_of(fields.byte_string, SLICE_COUNT)(value)
    sizes = set(map(len, keys))
    if not keys or 0 in sizes or max(sizes) > KEY_SIZE_MAX:
        raise DecodeError(f"keys of 1 to {KEY_SIZE_MAX} bytes expire, at least one")
    return list(keys)


def _nonce(value: object) -> bytes:
    nonce = fields.byte_string(value)
    if len(nonce) != NONCE_SIZE:
        raise DecodeError(f"a session's nonce has {NONCE_SIZE} bytes")
    return nonce


def _numbered(nonce: bytes, ttl_ns: int) -> SessionOpened:
    return SessionOpened(nonce, ttl_ns, is_drawn=False)


def _removal(value: object) -> ExpireCommand | None:
    return None if value == [] else ExpireCommand(_keys(value))


def _session(value: object) -> SessionRow:
    match value:
        case [session, nonce, ttl_ns]:
            return SessionRow(fields.count(session), _nonce(nonce), fields.count(ttl_ns))
        case _:
            raise DecodeError("a record of a session has three fields")


def _entries(pairs: object, revisions: object, expiries: object) -> EntriesPart:
    keys_and_values = fields.byte_strings(pairs, 2 * CHUNK_COUNT_MAX)
    numbers, at_ns = fields.revisions(revisions), fields.counts(expiries)
    if len(keys_and_values) != 2 * len(numbers) or len(at_ns) % 2:
        raise DecodeError("a part of a snapshot has columns of several lengths")
    if at_ns and max(at_ns[::2]) >= len(numbers):
        raise DecodeError("a part of a snapshot has an expiry of an entry that is not there")
    if b"" in keys_and_values:
        raise DecodeError("a part of a snapshot has an empty key or value")
    return EntriesPart(tuple(keys_and_values), tuple(numbers), tuple(at_ns))


def _outcomes(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    return outcomes


# -- kinds -----------------------------------------------------------------------------------------

_BODIES: Final[dict[int, shapes.Shape[Body]]] = {
    1: (Performed, (fields.count, _actions)),
    2: (ExpireCommand, (_keys,)),
    3: (Registered, (fields.writer, fields.count, fields.optional_writer)),
    4: (QuotaChanged, (shapes.quota,)),
    5: (Compared, (fields.count,)),
    6: (_numbered, (_nonce, fields.count)),
    7: (SessionsEnded, (fields.list_of(fields.count, SESSIONS_MAX), _removal)),
    8: (SessionOpened, (_nonce, fields.count)),
}
_REQUESTS: Final[dict[int, shapes.Shape[TableRequest]]] = {
    16: (Register, (fields.writer, fields.count)),
    17: (Write, (fields.count, _requests, fields.count)),
    18: (ChangeQuota, (shapes.quota,)),
    19: (Compare, (fields.count,)),
    20: (Read, (_stamp, fields.flag, _question)),
    21: (OpenSession, (_nonce, fields.count)),
    22: (RenewSession, (fields.count,)),
    23: (EndSession, (fields.count,)),
}
_PARTS: Final[dict[int, shapes.Shape[Part]]] = {
    32: (
        HeadPart,
        (fields.revision, shapes.position, fields.count, shapes.quota, shapes.reigns),
    ),
    33: (_entries, (shapes.as_is, shapes.as_is, shapes.as_is)),
    34: (WritersPart, (shapes.ledger_rows,)),
    35: (SessionsPart, (fields.list_of(_session, SESSIONS_MAX),)),
}
ANSWERS: Final[dict[int, shapes.Shape[Answered]]] = {
    48: (Registration, (fields.count, fields.count)),
    49: (_outcomes, (fields.list_of(fields.outcome, OUTCOMES_MAX),)),
    50: (UnknownWriter, (fields.count,)),
    51: (OutOfOrder, (fields.count,)),
    52: (lambda: None, ()),
    54: (ReadRefusedCommand, (fields.count, fields.flag, fields.text)),
    55: (SessionGranted, (fields.optional_count,)),
    56: (SessionHeard, (fields.flag,)),
    57: (_gone, (fields.count, fields.text)),
    58: (_found, (_stamp, fields.count, _rows, fields.optional_bytes)),
}


# -- out -------------------------------------------------------------------------------------------

_WRITERS_START: Final = b"\x82\x18\x22"
_PERFORMED_START: Final = b"\x83\x01"
_WRITE_START: Final = b"\x84\x11"
"""An array, and the kind: of ``WritersPart``, of ``Performed``, and of ``Write``."""

_PACKERS: Final[dict[type, Callable[[Any], list[object]]]] = {
    ExpireCommand: lambda value: [2, value.keys],
    Registered: lambda value: [3, value.writer, value.last_request, value.evicted],
    QuotaChanged: lambda value: [4, shapes.packed_quota(value.quota)],
    Compared: lambda value: [5, value.number],
    SessionOpened: lambda value: [8 if value.is_drawn else 6, value.nonce, value.ttl_ns],
    SessionsEnded: lambda value: [
        *(7, value.sessions, [] if value.removal is None else value.removal.keys)
    ],
    Register: lambda value: [16, value.writer, value.last_request],
    ChangeQuota: lambda value: [18, shapes.packed_quota(value.quota)],
    Compare: lambda value: [19, value.number],
    Read: lambda value: [20, list(value.seen), value.is_linear, _packed_question(value.question)],
    OpenSession: lambda value: [21, value.nonce, value.ttl_ns],
    RenewSession: lambda value: [22, value.session],
    EndSession: lambda value: [23, value.session],
    HeadPart: lambda value: [
        *(32, value.revision, [value.position.term, value.position.index], value.entry_count),
        *(shapes.packed_quota(value.quota), [list(reign) for reign in value.reigns]),
    ],
    EntriesPart: lambda value: [33, value.pairs, value.revisions, value.expiries],
    SessionsPart: lambda value: [
        *(35, [[row.session, row.nonce, row.ttl_ns] for row in value.rows])
    ],
    Registration: lambda value: [48, value.number, value.last_request],
    tuple: lambda value: [49, fields.pack(value)],
    UnknownWriter: lambda value: [50, value.number],
    OutOfOrder: lambda value: [51, value.expected],
    type(None): lambda value: [52],
    Found: lambda value: [
        *(58, list(value.stamp), value.answer.number, _packed_rows(value.answer.rows)),
        value.answer.continuation,
    ],
    ReadRefusedCommand: lambda value: (
        [57, value.number, value.text[:ERROR_TEXT_SIZE_MAX]]
        if value.is_gone
        else [54, value.number, value.is_stale, value.text[:ERROR_TEXT_SIZE_MAX]]
    ),
    SessionGranted: lambda value: [55, value.session],
    SessionHeard: lambda value: [56, value.is_alive],
}


def _encoded_row(row: LedgerRow) -> bytes:
    if row.encoded is None:
        row.encoded = cbor2.dumps(shapes.packed_row(row))
    return row.encoded


def _packed_question(question: Question) -> list[object]:
    head: list[object] = [question.number, question.revision_min]
    if isinstance(question, LookUpCommand):
        return [*head, question.key, question.has_value]
    page = [*head, question.start, question.stop, question.limit, question.has_values]
    return [*page, question.revision, question.step]


def _packed_rows(rows: Rows) -> list[object]:
    keys, values = Strings.of(rows.keys), Strings.of(rows.values)
    return [
        *(keys.content, packed(keys.ends), values.content, packed(values.ends)),
        *(packed(array("Q", rows.revisions)), rows.expiries),
    ]


def encode_body(body: Body) -> bytes:
    """Write what a journal entry holds; what a request came to is written once."""
    if not isinstance(body, Performed):
        return _encode(body)
    if body.encoded is None:
        body.encoded = _encoded_performed(body.resolved, _encoded_actions(body.actions))
        for action in body.actions:
            if isinstance(action, PutCommand):
                action.encoded = None  # They are in here now.
    return body.encoded


def encode_request(request: TableRequest) -> bytes:
    """Write a request."""
    if isinstance(request, Write):
        return _encoded_write(request, _encoded_actions(request.requests))
    return _encode(request)


def encode_part(part: Part) -> bytes:
    """Write a part of a snapshot; the record of a writer is encoded once."""
    if not isinstance(part, WritersPart):
        return _encode(part)
    count = cbor.head(cbor.ARRAY, len(part.rows))
    return b"".join((_WRITERS_START, count, *map(_encoded_row, part.rows)))


def encode_answer(answer: object) -> bytes:
    """Write an answer."""
    return _encode(answer)


def _encoded_actions(actions: Sequence[Action]) -> bytes:
    return encode_byte_strings([*map(encode_action, actions)])


def _encoded_performed(resolved: int, actions: bytes) -> bytes:
    return b"".join((_PERFORMED_START, cbor.head(cbor.UNSIGNED, resolved), actions))


def _encoded_write(write: Write, actions: bytes) -> bytes:
    number = cbor.head(cbor.UNSIGNED, write.number)
    return b"".join((_WRITE_START, number, actions, cbor.head(cbor.UNSIGNED, write.resolved)))


def _encode(value: object) -> bytes:
    return cbor2.dumps(_PACKERS[type(value)](value))


# -- in --------------------------------------------------------------------------------------------


def decode_body(data: bytes) -> Body:
    """Read what a journal entry holds; raises ``DecodeError``."""
    body = shapes.read(_BODIES, data, "an entry of a store")
    if isinstance(body, Performed):
        body.encoded = data
        for action in body.actions:
            if isinstance(action, PutCommand):
                action.encoded = None
    return body


def decode_request(data: bytes) -> TableRequest:
    """Read a request; raises ``DecodeError``. Whether keys are encodings, ``judge`` looks at."""
    return shapes.read(_REQUESTS, data, "a request of a store")


def decode_part(data: bytes) -> Part:
    """Read a part of a snapshot; raises ``DecodeError``."""
    return shapes.read(_PARTS, data, "a part of a store's snapshot")


def decode_answer(data: bytes) -> Answered:
    """Read an answer; raises ``DecodeError``."""
    return shapes.read(ANSWERS, data, "an answer of a store")


_Encode = Callable[[object], bytes]
"""How a group writes what is its machine's own: any object, as far as it knows."""


class TableCodec:
    """All of these as a replica group asks for them: see ``stores.group.codec.MachineCodec``."""

    encode = staticmethod(cast("_Encode", encode_body))
    encode_part = staticmethod(cast("_Encode", encode_part))
    encode_answer = staticmethod(encode_answer)
    decode_part = staticmethod(decode_part)
    decode_request = staticmethod(decode_request)
    decode_answer = staticmethod(decode_answer)

    def __init__(self) -> None:
        """Know of nothing that was asked."""
        self._recognition = Recognition()

    def decode(self, data: bytes) -> object:
        """Read what a journal entry holds; raises ``DecodeError``."""
        if (known := self._recognition.find(data)) is not None:
            return known
        body = decode_body(data)
        self._recognition.came(body)
        return body

    def encode_request(self, request: object) -> bytes:
        """Write a request, and know what it comes to when that is in the journal."""
        if not isinstance(request, Write):
            return encode_request(cast("TableRequest", request))
        actions = _encoded_actions(request.requests)
        if self._recognition.is_possible(request):
            body = Performed(request.resolved, request.requests)
            body.encoded = _encoded_performed(request.resolved, actions)
            self._recognition.expect(body, body.encoded)
        return _encoded_write(request, actions)
