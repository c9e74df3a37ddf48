"""What adding and subtracting mean, type by type, whatever the caller's operation was called.

The rules are Broker's, with two differences: a failed operation leaves nothing behind, and a number
that does not fit is an error where Broker's wraps around. Bytes are appended like strings.

| stored | add(x) | subtract(x) |
|---|---|---|
| integer, count, real | x of the same type | x of the same type |
| timespan, timestamp | a timespan | a timespan |
| string, bytes | appends x of the same type | no |
| set | inserts x | removes x, if it is there |
| table | x is a vector of key and value: sets the key | removes the key x, if it is there |
| vector | appends x | removes the last element, if there is one |
| anything else | no | no |
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from operator import add as plus, sub as minus
from typing import Any, Final

from stores import containers
from stores.actions import Initial
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import EncodeError, InvalidData, NoSuchKey, TypeClash
from wire.scalars import EPOCH, nanoseconds_in, nanoseconds_since_epoch
from wire.values import Count, Set, Table, Timespan, Timestamp, Value

_Operation = Callable[[Any, Any], Value]
_NUMBER, _TEXT, _SET, _, _VECTOR = Initial
"""As names of this module: a member of an enumeration takes Python 3.11 ten times as long."""

_NO_ELEMENTS: Final = encode(())

_Time = datetime | Timestamp | timedelta | Timespan


def add(stored: bytes | None, operand: bytes, initial: Initial) -> bytes:
    """Give the encoded value after an addition; ``None`` is a missing key.

    Raises ``TypeClash`` or ``InvalidData``.
    """
    amount = decode(operand)
    if stored is None:
        if initial is _NUMBER:
            return _operate(_ADDITIONS, "add to", _zero(amount), amount)
        stored = _empty(amount, initial)
    change = containers.addition_to(stored)
    if change is not None:
        return change(stored, amount)
    value = decode(stored)
    if isinstance(value, _CONTAINERS):
        return add(encode(value), operand, initial)
    return _operate(_ADDITIONS, "add to", value, amount)


def subtract(stored: bytes | None, operand: bytes) -> bytes:
    """Give the encoded value after a subtraction.

    Raises ``NoSuchKey``, ``TypeClash`` or ``InvalidData``.
    """
    if stored is None:
        raise NoSuchKey("the key is missing: there is nothing to take away from")
    amount = decode(operand)
    change = containers.subtraction_from(stored)
    if change is not None:
        return change(stored, amount)
    value = decode(stored)
    if isinstance(value, _CONTAINERS):
        return subtract(encode(value), operand)
    return _operate(_SUBTRACTIONS, "take away from", value, amount)


def look_up(value: Value, index: Value) -> Value:
    """Look into a value, as Broker's ``get_index_from_value`` does.

    An element of a vector by its position, whether a set holds the index, a table's value of that
    key; of any other type the value itself. Raises ``NoSuchKey`` or ``TypeClash``.
    """
    match value:
        case tuple():
            return _element(value, index)
        case Set():
            return index in value
        case Table():
            if index not in value:
                raise NoSuchKey(f"the table has no key {index!r}")
            found: Value = value[index]
            return found
        case _:
            return value


def _element(vector: tuple[Any, ...], index: Value) -> Value:
    position = index.value if isinstance(index, Count) else index
    if type(position) is not int or position < 0:
        raise TypeClash(f"a vector is indexed by a number from zero on, not by {index!r}")
    if position >= len(vector):
        raise NoSuchKey(f"the vector has {len(vector)} elements, none at {position}")
    found: Value = vector[position]
    return found


def _operate(operations: dict[type, _Operation], what: str, value: Value, amount: Value) -> bytes:
    operation = operations.get(type(value))
    if operation is None:
        raise TypeClash(f"nothing can {what} {_name(value)}")
    try:
        return encode(operation(value, amount))
    except EncodeError as error:
        # The types were right, and the result is beyond 64 bits, or too large.
        raise InvalidData(str(error)) from error


def _empty(amount: Value, initial: Initial) -> bytes:
    """Give what an addition to a missing key starts from, unless it counts."""
    if initial is _VECTOR:
        return _NO_ELEMENTS
    if initial is _TEXT:
        return encode(b"" if isinstance(amount, bytes) else "")
    return encode(Set() if initial is _SET else Table())


def _zero(amount: Value) -> Value:
    zero = _ZEROS.get(type(amount))
    if zero is None:
        raise TypeClash(f"counting starts with a number or a timespan, not with {_name(amount)}")
    return zero


# -- numbers and times -----------------------------------------------------------------------------


def _same(value: Value, amount: Value) -> None:
    if type(value) is not type(amount):
        raise TypeClash(f"the value is {_name(value)}, the operand {_name(amount)}")


def _add_number(value: Value, amount: Value) -> Value:
    _same(value, amount)
    result: Value = plus(value, amount)
    return result


def _subtract_number(value: Value, amount: Value) -> Value:
    _same(value, amount)
    result: Value = minus(value, amount)
    return result


def _count(amount: Value) -> int:
    if not isinstance(amount, Count):
        raise TypeClash(f"the value is a count, the operand {_name(amount)}")
    return amount.value


def _add_count(value: Count, amount: Value) -> Value:
    return Count(value.value + _count(amount))


def _subtract_count(value: Count, amount: Value) -> Value:
    return Count(value.value - _count(amount))


def _span(value: Value, amount: Value) -> int:
    match amount:
        case timedelta():
            return nanoseconds_in(amount)
        case Timespan(nanoseconds):
            return nanoseconds
        case _:
            raise TypeClash(
                f"the value is {_name(value)}, the operand {_name(amount)}, no timespan"
            )


def _nanoseconds(value: _Time) -> int:
    match value:
        case datetime():
            return nanoseconds_since_epoch(value)
        case timedelta():
            return nanoseconds_in(value)
        case Timestamp(nanoseconds) | Timespan(nanoseconds):
            return nanoseconds


def _move(value: _Time, nanoseconds: int) -> Value:
    kind = Timestamp if isinstance(value, (datetime, Timestamp)) else Timespan
    return kind.of(_nanoseconds(value) + nanoseconds)


def _add_span(value: _Time, amount: Value) -> Value:
    return _move(value, _span(value, amount))


def _subtract_span(value: _Time, amount: Value) -> Value:
    return _move(value, -_span(value, amount))


_CONTAINERS: Final = (Set, Table)
"""What does not begin as expected was encoded elsewhere, with a longer head."""

_ADDITIONS: Final[dict[type, _Operation]] = {
    int: _add_number,
    float: _add_number,
    Count: _add_count,
    timedelta: _add_span,
    Timespan: _add_span,
    datetime: _add_span,
    Timestamp: _add_span,
    str: _add_number,
    bytes: _add_number,
}

_SUBTRACTIONS: Final[dict[type, _Operation]] = {
    int: _subtract_number,
    float: _subtract_number,
    Count: _subtract_count,
    timedelta: _subtract_span,
    Timespan: _subtract_span,
    datetime: _subtract_span,
    Timestamp: _subtract_span,
}

_ZEROS: Final[dict[type, Value]] = {
    int: 0,
    float: 0.0,
    Count: Count(0),
    timedelta: EPOCH,
    Timespan: EPOCH,
}
"""Where counting starts. Spans are counted from the epoch of time, as in Broker."""

_NAMES: Final[dict[type, str]] = {
    type(None): "none",
    bool: "a boolean",
    int: "an integer",
    Count: "a count",
    float: "a real",
    str: "a string",
    bytes: "bytes",
    datetime: "a timestamp",
    Timestamp: "a timestamp",
    timedelta: "a timespan",
    Timespan: "a timespan",
    Set: "a set",
    Table: "a table",
    tuple: "a vector",
}


def _name(value: Value) -> str:
    return _NAMES.get(type(value), type(value).__name__)
