"""Under which key an event is counted: the Spark job and the plain recount both ask here. Pure.

A key is a typed value in its deterministic encoding, so that ``1``, ``1.0``, ``true`` and ``"1"``
are four keys. Text, numbers, ``true``, ``false`` and ``null`` count as themselves; arrays, objects
and integers beyond 64 bits as their canonical JSON text, marked as such; and an event without the
field under ``MISSING``, which no JSON value can be.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from wire.decoding import decode
from wire.encoding import encode
from wire.errors import EncodeError
from wire.limits import KIB, MIB
from wire.scalars import INTEGER_MAX, INTEGER_MIN, Enum, Value

MISSING: Final = Enum("missing")
"""The key of events that do not have the field."""

JSON_TEXT: Final = Enum("json")
"""Marks keys that are JSON text: ``(JSON_TEXT, text)``."""

LINE_SIZE_MAX: Final = MIB
"""Bytes of a line: a thousand times a usual event. Of a longer one only the beginning is read."""

DEPTH_MAX: Final = 64
"""Nesting of an event. Python's parser gives up somewhere beyond, depending on who called it; the
job and the recount must agree, so that the line is drawn well before."""

KEY_SIZE_MAX: Final = 32 * KIB
"""Bytes of a key, below what a store takes. A longer value is data rather than a key."""


class BadLine(ValueError):
    """A line that is no event; the text says why, in a few words."""


def key_of(line: bytes, field: str) -> bytes:
    """Give the encoded key of an event, or raise ``BadLine``.

    ``field`` is a name, dots included, or where there is none of that name, a path into nested
    objects.
    """
    try:
        key = encode(_typed(find(parse(line), field)))
    except EncodeError:
        raise BadLine("the value to count by is not Unicode text") from None
    if len(key) > KEY_SIZE_MAX:
        raise BadLine(f"the value to count by is longer than {KEY_SIZE_MAX} bytes")
    return key


def parse(line: bytes) -> dict[str, Any]:
    """Read an event, or raise ``BadLine``: JSON as in RFC 8259, and an object."""
    if len(line) > LINE_SIZE_MAX:
        raise BadLine(f"longer than {LINE_SIZE_MAX} bytes")
    try:
        event = _DECODER.decode(line.decode())
    except UnicodeDecodeError:
        raise BadLine("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    except BadLine:
        raise
    except ValueError:
        raise BadLine("not JSON that can be read: a number has thousands of digits") from None
    if not isinstance(event, dict):
        raise BadLine("not a JSON object")
    if line.count(b"[") + line.count(b"{") > DEPTH_MAX:
        _check_depth(event)
    return event


def find(event: dict[str, Any], field: str) -> Any:  # noqa: ANN401 - any JSON value
    """Give the value of a field, or ``MISSING``."""
    if field in event:
        return event[field]
    value: Any = event
    for name in field.split("."):
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def label(key: bytes) -> str:
    """Write a key for people: text as it is, everything else so that it is not taken for text."""
    value = decode(key)
    match value:
        case str() if value.isprintable() and value:
            return value
        case Enum(name):
            return f"({name})"
        case (Enum(), str(text)):
            return text
        case _:
            return json.dumps(value, ensure_ascii=False)


def _typed(value: Any) -> Value:  # noqa: ANN401 - any JSON value
    match value:
        case None | bool() | str() | Enum():
            return value
        case int() if INTEGER_MIN <= value <= INTEGER_MAX:
            return value
        case float() if math.isfinite(value):
            return value
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
        )
    except ValueError:
        raise BadLine("the value to count by holds a number beyond all limits") from None
    return (JSON_TEXT, text)


def _check_depth(event: object) -> None:
    level = [event]
    for _ in range(DEPTH_MAX):
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        level = inner
    if any(isinstance(value, (dict, list)) for value in level):
        raise _too_deep()


def _too_deep() -> BadLine:
    return BadLine(f"nested deeper than {DEPTH_MAX} levels")


def _refuse(constant: str) -> None:
    raise BadLine(f"not JSON: {constant} is no JSON value")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
