"""The verbs of a store, once for all who have them: its handles in each API, and batches.

Each gives what is to be done, checked and encoded, and asks for nothing yet. A batch gathers steps;
a handle hands a mutation to ``ask`` when it is its turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from stores.actions import Guard, Initial, Step, StepKind
from stores.limits import EXPIRY_END_NS
from stores.requests import Requests
from wire.encoding import encode
from wire.errors import InvalidData
from wire.values import Value

Expiry = float | timedelta | None
"""From now: seconds, or a timespan. ``None`` is for ever, and removes an expiry that was set."""

_NANOSECONDS: Final = 1_000_000_000

_PUT, _ERASE, _ADD, _SUBTRACT = StepKind
_NUMBER, _TEXT, _SET, _TABLE, _VECTOR = Initial
"""As names of this module: a member of an enumeration takes Python 3.11 ten times as long."""

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Unique:
    """Sets a key if it is missing."""

    step: Step


@dataclass(frozen=True, slots=True)
class Clear:
    """Removes everything."""


@dataclass(slots=True)
class Together:
    """Does all of the steps if the guards hold, and the others if not."""

    guards: list[Guard]
    steps: list[Step]
    others: list[Step] | None


Mutation = Step | Unique | Clear | Together
"""What a handle asks for at once."""


def ask(requests: Requests, mutation: Mutation) -> int:
    """Ask for a mutation, and give the number of the request; raises ``InvalidData``."""
    if isinstance(mutation, Step):  # Patterns of steps would take ten times as long.
        key, operand, expiry_ns = mutation.key, mutation.operand, mutation.expiry_ns
        if operand is None:
            return requests.erase(key)
        if mutation.initial is not None:
            return requests.add(key, operand, mutation.initial, expiry_ns)
        if mutation.kind is _PUT:
            return requests.put(key, operand, expiry_ns)
        return requests.subtract(key, operand, expiry_ns)
    match mutation:
        case Unique(Step(_, key, operand, _, expiry_ns)):
            return requests.put_unique(key, operand or b"", expiry_ns)
        case Clear():
            return requests.clear()
        case Together(guards, steps, others):
            return requests.batch(guards, steps, others)


# The verbs.


def put(key: Value, value: Value, expiry: Expiry = None) -> Step:
    """Set a key. Without an expiry it stays for ever, whatever it had before."""
    return Step(_PUT, encode(key), encode(value), None, span_ns(expiry))


def put_unique(key: Value, value: Value, expiry: Expiry = None) -> Unique:
    """Set a key if it is missing."""
    return Unique(put(key, value, expiry))


def erase(key: Value) -> Step:
    """Remove a key, present or not."""
    return Step(_ERASE, encode(key))


def clear() -> Clear:
    """Remove everything."""
    return Clear()


def increment(key: Value, amount: Value = 1, expiry: Expiry = None) -> Step:
    """Add to a number or an instant; a missing key begins at zero."""
    return _add(key, encode(amount), _NUMBER, expiry)


def decrement(key: Value, amount: Value = 1, expiry: Expiry = None) -> Step:
    """Take away from a number or an instant; the key has to be there."""
    return _subtract(key, amount, expiry)


def append(key: Value, text: Value, expiry: Expiry = None) -> Step:
    """Append to a string; a missing key begins empty."""
    return _add(key, encode(text), _TEXT, expiry)


def insert_into(key: Value, index: Value, *value: Value, expiry: Expiry = None) -> Step:
    """Insert an element into a set; or with a value, an entry into a table."""
    if not value:
        return _add(key, encode(index), _SET, expiry)
    if len(value) > 1:
        raise InvalidData(f"insert_into takes one value for an index, not {len(value)}")
    return _add(key, encode((index, value[0])), _TABLE, expiry)


def remove_from(key: Value, index: Value, expiry: Expiry = None) -> Step:
    """Remove an element from a set, or an entry from a table."""
    return _subtract(key, index, expiry)


def push(key: Value, value: Value, expiry: Expiry = None) -> Step:
    """Append an element to a vector; a missing key begins empty."""
    return _add(key, encode(value), _VECTOR, expiry)


def pop(key: Value, expiry: Expiry = None) -> Step:
    """Remove the last element of a vector; from a set or a table, what equals the key."""
    return _subtract(key, key, expiry)  # A vector does not look at it.


def _add(key: Value, operand: bytes, initial: Initial, expiry: Expiry) -> Step:
    return Step(_ADD, encode(key), operand, initial, span_ns(expiry))


def _subtract(key: Value, operand: Value, expiry: Expiry) -> Step:
    return Step(_SUBTRACT, encode(key), encode(operand), None, span_ns(expiry))


def span_ns(expiry: Expiry) -> int | None:
    """Turn an expiry, in seconds or as a timespan from now, into nanoseconds."""
    if expiry is None:
        return None
    if isinstance(expiry, timedelta):
        seconds = expiry.days * 86_400 + expiry.seconds
        return _within(seconds * _NANOSECONDS + expiry.microseconds * 1_000, expiry)
    if isinstance(expiry, bool) or not isinstance(expiry, (int, float)):
        raise InvalidData(f"an expiry is seconds or a timedelta, not {type(expiry).__name__}")
    if not math.isfinite(expiry):
        raise InvalidData(f"an expiry of {expiry} seconds: give a number, or None for no end")
    return round(_within(expiry * _NANOSECONDS, expiry))


def _within(span: _Number, expiry: object) -> _Number:
    if abs(span) >= EXPIRY_END_NS:
        raise InvalidData(f"an expiry of {expiry!r} is beyond 290 years: give None for no end")
    return span
