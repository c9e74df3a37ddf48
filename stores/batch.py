"""A batch in the making: guards and steps in the user's own values (design section 10)."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Final, Self, TypeVar

from stores.actions import Guard, GuardKind, Initial, Step, StepKind
from stores.limits import EXPIRY_END_NS
from wire.encoding import encode
from wire.errors import InvalidData
from wire.public import public
from wire.scalars import INTEGER_MAX, shorten
from wire.values import Value

_NANOSECONDS: Final = 1_000_000_000

_Number = TypeVar("_Number", int, float)


def span_ns(expiry: float | timedelta | None) -> int | None:
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


@public
class Batch:
    """Several operations as one mutation: all of them if all guards hold, else none.

    ``Batch().if_value("at", 41).put("at", 42).increment("count", 1)``, given to
    ``Store.batch``. Each step sees what the steps before it did. The receipt raises
    ``GuardFailed``, or the error of the step that could not be done.

    What follows ``otherwise()`` happens if a guard does not hold, and then there is no
    ``GuardFailed``: the receipt's ``has_held`` tells which of the two it was.
    """

    def __init__(self) -> None:
        """Begin without guards and steps."""
        self.guards: list[Guard] = []
        self.steps: list[Step] = []
        """What happens if the guards hold."""
        self.others: list[Step] | None = None
        """What happens if one does not."""

    def otherwise(self) -> Self:
        """Let the steps that follow be for the case that a guard does not hold."""
        if self.others is not None:
            raise InvalidData("a batch has one otherwise: put all of its steps after it")
        self.others = []
        return self

    # Guards.

    def __repr__(self) -> str:
        """Show how much is in it."""
        others = "" if self.others is None else f" otherwise={len(self.others)}"
        return f"<Batch guards={len(self.guards)} steps={len(self.steps)}{others}>"

    def if_absent(self, key: Value) -> Self:
        """Insist that the key is missing."""
        return self._guard(Guard(GuardKind.ABSENT, encode(key)))

    def if_exists(self, key: Value) -> Self:
        """Insist that the key is there."""
        return self._guard(Guard(GuardKind.EXISTS, encode(key)))

    def if_value(self, key: Value, value: Value) -> Self:
        """Insist that the key has exactly this value, type included."""
        return self._guard(Guard(GuardKind.VALUE, encode(key), value=encode(value)))

    def if_revision(self, key: Value, revision: int) -> Self:
        """Insist that the mutation with this revision was the key's latest."""
        is_number = isinstance(revision, int) and not isinstance(revision, bool)
        if not is_number or not 0 <= revision <= INTEGER_MAX:
            raise InvalidData(f"a revision of {revision!r}: give the number that a receipt gave")
        return self._guard(Guard(GuardKind.REVISION, encode(key), revision=revision))

    # Steps.

    def put(self, key: Value, value: Value, expiry: float | timedelta | None = None) -> Self:
        """Set a key."""
        return self._step(StepKind.PUT, key, encode(value), None, expiry)

    def erase(self, key: Value) -> Self:
        """Remove a key, present or not."""
        return self._take(Step(StepKind.ERASE, encode(key)))

    def increment(
        self, key: Value, amount: Value = 1, expiry: float | timedelta | None = None
    ) -> Self:
        """Add to a number or an instant; a missing key begins at zero."""
        return self._step(StepKind.ADD, key, encode(amount), Initial.NUMBER, expiry)

    def decrement(
        self, key: Value, amount: Value = 1, expiry: float | timedelta | None = None
    ) -> Self:
        """Take away from a number or an instant."""
        return self._step(StepKind.SUBTRACT, key, encode(amount), None, expiry)

    def append(self, key: Value, text: Value, expiry: float | timedelta | None = None) -> Self:
        """Append to a string; a missing key begins empty."""
        return self._step(StepKind.ADD, key, encode(text), Initial.TEXT, expiry)

    def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: float | timedelta | None = None
    ) -> Self:
        """Insert an element into a set, or with a value, an entry into a table."""
        operand, initial = insertion(index, value)
        return self._step(StepKind.ADD, key, operand, initial, expiry)

    def remove_from(
        self, key: Value, index: Value, expiry: float | timedelta | None = None
    ) -> Self:
        """Remove an element from a set, or an entry from a table."""
        return self._step(StepKind.SUBTRACT, key, encode(index), None, expiry)

    def push(self, key: Value, value: Value, expiry: float | timedelta | None = None) -> Self:
        """Append an element to a vector; a missing key begins empty."""
        return self._step(StepKind.ADD, key, encode(value), Initial.VECTOR, expiry)

    def pop(self, key: Value, expiry: float | timedelta | None = None) -> Self:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        return self._step(StepKind.SUBTRACT, key, encode(key), None, expiry)

    def _guard(self, guard: Guard) -> Self:
        self.guards.append(guard)
        return self

    def _step(
        self,
        kind: StepKind,
        key: Value,
        operand: bytes,
        initial: Initial | None,
        expiry: float | timedelta | None,
    ) -> Self:
        return self._take(Step(kind, encode(key), operand, initial, span_ns(expiry)))

    def _take(self, step: Step) -> Self:
        (self.steps if self.others is None else self.others).append(step)
        return self


def parts_of(batch: Batch) -> tuple[list[Guard], list[Step], list[Step] | None]:
    """Give guards, steps and the other steps; raises ``TypeError`` for what is no batch."""
    if not isinstance(batch, Batch):
        raise TypeError(f"batch={shorten(batch)} is {type(batch).__name__}: give a Batch")
    return batch.guards, batch.steps, batch.others


def compare_and_set(
    key: Value, value: Value, revision: int | None, expiry: float | timedelta | None
) -> Batch:
    """Make the batch that sets a key if its revision, ``None`` for a missing one, is this."""
    return _unchanged(key, revision).put(key, value, expiry)


def compare_and_erase(key: Value, revision: int) -> Batch:
    """Make the batch that removes a key if its revision is this."""
    return _unchanged(key, revision).erase(key)


def _unchanged(key: Value, revision: int | None) -> Batch:
    batch = Batch()
    return batch.if_absent(key) if revision is None else batch.if_revision(key, revision)


def insertion(index: Value, value: tuple[Value, ...]) -> tuple[bytes, Initial]:
    """Give the operand of an insertion: an element for a set, a pair for a table."""
    if not value:
        return encode(index), Initial.SET
    if len(value) > 1:
        raise InvalidData(f"insert_into takes one value for an index, not {len(value)}")
    return encode((index, value[0])), Initial.TABLE
