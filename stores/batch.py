"""A batch in the making: guards and steps in the user's own values (design section 10)."""

from __future__ import annotations

from typing import Self

from stores import mutations
from stores.actions import Guard, GuardKind, Step
from stores.mutations import Expiry, Together
from wire.encoding import encode
from wire.errors import InvalidData
from wire.public import public
from wire.scalars import INTEGER_MAX, shorten
from wire.values import Value

_ABSENT, _EXISTS, _VALUE, _REVISION = GuardKind
"""As names of this module: a member of an enumeration takes Python 3.11 ten times as long."""


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
        return self._guard(Guard(_ABSENT, encode(key)))

    def if_exists(self, key: Value) -> Self:
        """Insist that the key is there."""
        return self._guard(Guard(_EXISTS, encode(key)))

    def if_value(self, key: Value, value: Value) -> Self:
        """Insist that the key has exactly this value, type included."""
        return self._guard(Guard(_VALUE, encode(key), value=encode(value)))

    def if_revision(self, key: Value, revision: int) -> Self:
        """Insist that the mutation with this revision was the key's latest."""
        return self._guard(_latest(encode(key), revision))

    # Steps.

    def put(self, key: Value, value: Value, expiry: Expiry = None) -> Self:
        """Set a key."""
        return self._take(mutations.put(key, value, expiry))

    def erase(self, key: Value) -> Self:
        """Remove a key, present or not."""
        return self._take(mutations.erase(key))

    def increment(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Self:
        """Add to a number or an instant; a missing key begins at zero."""
        return self._take(mutations.increment(key, amount, expiry))

    def decrement(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Self:
        """Take away from a number or an instant."""
        return self._take(mutations.decrement(key, amount, expiry))

    def append(self, key: Value, text: Value, expiry: Expiry = None) -> Self:
        """Append to a string; a missing key begins empty."""
        return self._take(mutations.append(key, text, expiry))

    def insert_into(self, key: Value, index: Value, *value: Value, expiry: Expiry = None) -> Self:
        """Insert an element into a set, or with a value, an entry into a table."""
        return self._take(mutations.insert_into(key, index, *value, expiry=expiry))

    def remove_from(self, key: Value, index: Value, expiry: Expiry = None) -> Self:
        """Remove an element from a set, or an entry from a table."""
        return self._take(mutations.remove_from(key, index, expiry))

    def push(self, key: Value, value: Value, expiry: Expiry = None) -> Self:
        """Append an element to a vector; a missing key begins empty."""
        return self._take(mutations.push(key, value, expiry))

    def pop(self, key: Value, expiry: Expiry = None) -> Self:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        return self._take(mutations.pop(key, expiry))

    def _guard(self, guard: Guard) -> Self:
        self.guards.append(guard)
        return self

    def _take(self, step: Step) -> Self:
        (self.steps if self.others is None else self.others).append(step)
        return self


def batch_of(batch: Batch) -> Batch:
    """Check a batch; raises ``TypeError`` for what is none."""
    if not isinstance(batch, Batch):
        raise TypeError(f"batch={shorten(batch)} is {type(batch).__name__}: give a Batch")
    return batch


def together(batch: Batch) -> Together:
    """Give the mutation that a batch is; raises ``TypeError`` for what is no batch."""
    batch_of(batch)
    return Together(batch.guards, batch.steps, batch.others)


def compare_and_set(
    key: Value, value: Value, revision: int | None, expiry: Expiry = None
) -> Together:
    """Set a key if its revision, ``None`` for a missing one, is this."""
    return _unchanged(mutations.put(key, value, expiry), revision)


def compare_and_erase(key: Value, revision: int) -> Together:
    """Remove a key if its revision is this."""
    return _unchanged(mutations.erase(key), revision)


def _unchanged(step: Step, revision: int | None) -> Together:
    guard = Guard(_ABSENT, step.key) if revision is None else _latest(step.key, revision)
    return Together([guard], [step], None)


def _latest(key: bytes, revision: int) -> Guard:
    is_number = isinstance(revision, int) and not isinstance(revision, bool)
    if not is_number or not 0 <= revision <= INTEGER_MAX:
        raise InvalidData(f"a revision of {revision!r}: give the number that a receipt gave")
    return Guard(_REVISION, key, revision=revision)
