"""Requests and answers of the admin service as bytes, and their limits. Pure.

A request is ``(0, number, verb, arguments)``, an answer ``(1, number, ok, result)``. The result of
what failed is ``(code, text)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wire.decoding import decode
from wire.encoding import encode
from wire.errors import (
    BackendFailure,
    DecodeError,
    EncodeError,
    EndpointClosed,
    ErrorCode,
    InvalidData,
    LimitExceeded,
    MasterExists,
    MeshError,
    NoSuchMaster,
    NotAllowed,
    PromotionRefused,
)
from wire.limits import KIB, MIB, REASON_SIZE_MAX, TOPIC_SIZE_MAX
from wire.scalars import Count
from wire.shape import check_shape
from wire.values import Value

REQUEST_SIZE_MAX: Final = TOPIC_SIZE_MAX + KIB
"""Bytes of a request: the longest name of a store, and what is around it."""

REQUEST_VALUES_MAX: Final = 64
"""Values in a request: five times what any verb takes. Each is made before it is looked at."""

REQUEST_DEPTH_MAX: Final = 4
"""Nesting of a request: arguments are plain values, or lists of such."""

ANSWER_SIZE_MAX: Final = MIB
"""Bytes of an answer: a snapshot with thousands of stores, in eight writes. Longer lists are cut,
which the member ``cut`` says."""

_ERRORS: Final[dict[ErrorCode, type[MeshError]]] = {
    error.code: error
    for error in (
        BackendFailure,
        EndpointClosed,
        InvalidData,
        LimitExceeded,
        MasterExists,
        NoSuchMaster,
        NotAllowed,
        PromotionRefused,
    )
}
"""The errors that an answer may stand for; of any other code it is a ``MeshError``."""

_REQUEST: Final = 0
_ANSWER: Final = 1
_ARRAY_OF_FOUR: Final = 0x84


@dataclass(frozen=True, slots=True)
class Request:
    """One endpoint asks another one for something."""

    number: int
    verb: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request."""

    number: int
    result: Value | Failed


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a request was not carried out."""

    code: ErrorCode
    text: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """Say what went wrong; an error that nothing expects is named by its class."""
        if isinstance(error, MeshError):
            return cls(error.code, str(error))
        return cls(ErrorCode.UNSPECIFIED, f"{type(error).__name__}: {error}")

    def error(self) -> MeshError:
        """Make the error that the asking program gets."""
        return _ERRORS.get(self.code, MeshError)(self.text)


def is_answer(payload: bytes) -> bool:
    """Tell, without decoding it, whether a payload may be an answer; otherwise it is a request."""
    return payload[:2] == bytes((_ARRAY_OF_FOUR, _ANSWER))


def encode_request(request: Request) -> bytes:
    """Write a request; raises ``EncodeError`` for one that no endpoint takes."""
    number = Count(request.number)
    payload = encode((_REQUEST, number, request.verb, request.arguments))
    try:
        _check_request(payload)
    except DecodeError as error:
        raise EncodeError(f"the arguments of {request.verb} are too large: {error}") from None
    return payload


def decode_request(payload: bytes) -> Request:
    """Read a request; raises ``DecodeError``."""
    _check_request(payload)
    match decode(payload):
        case (kind, Count(number), str() as verb, tuple() as arguments) if _is(kind, _REQUEST):
            return Request(number, verb, arguments)
        case _:
            raise DecodeError("this is no request to an endpoint")


def _check_request(payload: bytes) -> None:
    if len(payload) > REQUEST_SIZE_MAX:
        reason = f"a request of {len(payload)} bytes; {REQUEST_SIZE_MAX} are allowed"
        raise DecodeError(reason, ErrorCode.LIMIT_EXCEEDED)
    check_shape(payload, REQUEST_DEPTH_MAX, REQUEST_VALUES_MAX)


def encode_answer(answer: Answer) -> bytes:
    """Write an answer, with its lists cut where it would be too large.

    Raises ``EncodeError`` for a result that is no value, or that cannot be cut.
    """
    number, result = Count(answer.number), answer.result
    if isinstance(result, Failed):
        text = result.text[:REASON_SIZE_MAX].encode(errors="replace").decode()
        return encode((_ANSWER, number, False, (int(result.code), text)))
    payload = encode((_ANSWER, number, True, result))
    while len(payload) > ANSWER_SIZE_MAX:
        result = _cut(result, len(payload))
        payload = encode((_ANSWER, number, True, result))
    return payload


def _cut(result: Value, size: int) -> Value:
    """Leave out half of the largest list in a table, and say how many are left out in all."""
    table: dict[str, Any] = dict(result) if isinstance(result, Mapping) else {}
    lists = {name: each for name, each in table.items() if isinstance(each, list) and each}
    if not lists:
        raise EncodeError(f"an answer of {size} bytes; {ANSWER_SIZE_MAX} are allowed")
    name = max(lists, key=lambda each: len(encode(lists[each])))
    kept = lists[name][: len(lists[name]) // 2]
    cut = dict(table.get("cut", {}))
    cut[name] = cut.get(name, 0) + len(lists[name]) - len(kept)
    return {**table, name: kept, "cut": cut}


def decode_answer(payload: bytes) -> Answer:
    """Read an answer; raises ``DecodeError``."""
    if len(payload) > ANSWER_SIZE_MAX:
        reason = f"an answer of {len(payload)} bytes; {ANSWER_SIZE_MAX} are allowed"
        raise DecodeError(reason, ErrorCode.LIMIT_EXCEEDED)
    match decode(payload):
        case (kind, Count(number), True, result) if _is(kind, _ANSWER):
            return Answer(number, result)
        case (kind, Count(number), False, (int(code), str() as text)) if _is(kind, _ANSWER):
            return Answer(number, Failed(_CODES.get(code, ErrorCode.UNSPECIFIED), text))
        case _:
            raise DecodeError("this is no answer of an endpoint")


def _is(kind: object, wanted: int) -> bool:
    return type(kind) is int and kind == wanted


_CODES: Final = {int(code): code for code in ErrorCode}
