"""Under which key an event is counted: the sensor and the plain recount both ask here. Pure.

A key is JSON text in one canonical form, so that ``1``, ``1.0``, ``true`` and ``"1"`` are four
keys. Events without the field are counted under ``MISSING``, and lines that are no events under
``BAD``: neither is JSON, so that no value can be taken for them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from wire.escaping import is_plain
from wire.limits import KIB, MIB

MISSING: Final = "(missing)"
"""The key of events that do not have the field."""

BAD: Final = "(bad line)"
"""The key of lines that are no events."""

ABSENT: Final = object()
"""What is found where a field is not: no value of JSON."""

LINE_SIZE_MAX: Final = MIB
"""Bytes of a line: a thousand times a usual event. Of a longer one only the beginning is read."""

DEPTH_MAX: Final = 64
"""Nesting of an event. Python's parser gives up somewhere beyond, depending on who called it; the
job and the recount must agree, so that the line is drawn well before."""

KEY_SIZE_MAX: Final = 32 * KIB
"""Bytes of a key, below what a store takes. A longer value is data rather than a key."""


class BadLine(ValueError):
    """A line that is no event; the text says why, in a few words."""


def key_of(event: dict[str, Any], field: str) -> str:
    """Give the key of an event, or raise ``BadLine``.

    ``field`` is a name, dots included, or where there is none of that name, a path into nested
    objects.
    """
    found = find(event, field)
    if found is ABSENT:
        return MISSING
    try:
        key = json.dumps(
            found, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
        )
        size = len(key.encode())
    except UnicodeEncodeError:
        raise BadLine("the value to count by is not Unicode text") from None
    except ValueError:
        raise BadLine("the value to count by holds a number beyond all limits") from None
    if size > KEY_SIZE_MAX:
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
    """Give the value of a field, or ``ABSENT``."""
    if field in event:
        return event[field]
    value: Any = event
    for name in field.split("."):
        if not isinstance(value, dict) or name not in value:
            return ABSENT
        value = value[name]
    return value


def label(key: str) -> str:
    """Write a key for people: text that can be printed as it is, everything else as JSON."""
    if not key.startswith('"'):
        return key
    text = str(json.loads(key))
    return text if text and is_plain(text) else key


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
