"""What operations mean when they happen one after the other: the yardstick of ``linearizable``.

A model is written anew here, and shares no code with the stores: it has to notice their mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from peermesh.testing.history import HistoryError, Operation
from peermesh.testing.observations import Found
from wire.decoding import decode
from wire.encoding import encode
from wire.scalars import Count, Value
from wire.values import Set, Table

State: TypeAlias = Hashable
"""States are compared and remembered, so they are immutable, and typed like the values in them."""


class Step(NamedTuple):
    """What an operation does in a state: the state that follows, and the result it has to give."""

    state: State
    result: Found | None = None
    """``None`` if any will do, such as the revision that a receipt gives."""


class Model(Protocol):
    """A sequential object. Parts of it that do not touch each other are checked on their own."""

    def part(self, operation: Operation) -> Hashable:
        """Name the part that an operation touches; ``None`` for all of them."""
        ...

    def initial(self, *, is_whole: bool) -> State:
        """Give the state at the beginning, of one part or of the whole."""
        ...

    def step(self, state: State, operation: Operation) -> Step | None:
        """Do an operation; ``None`` if it would be refused in this state."""
        ...

    def is_read(self, operation: Operation) -> bool:
        """Tell whether an operation, if it gave this result, cannot have changed anything."""
        ...

    def is_blind(self, operation: Operation, *, is_whole: bool) -> bool:
        """Tell whether it is never refused, and leads to one state from every other."""
        ...


Key: TypeAlias = bytes | None
"""The value of a key, encoded, so that types count; ``None`` if there is no such key."""


class KeyValue:
    """Keys and values, with the operations of a store's handle. Each key is a part of its own.

    Behind the operation stands the result that it has to give.

    ============================================== ================================================
    ``put(key, value)``                            any
    ``get(key)``                                   the value; no result if the key is missing
    ``exists(key)``                                a boolean
    ``put_unique(key, value)``                     whether the key was missing, and is set now
    ``compare_and_set(key, expected, value)``      whether the value was the expected one
    ``erase(key)``, ``clear()``                    any
    ``increment(key, n)``, ``decrement(key, n)``   any; ``increment`` begins at zero
    ``append(key, text)``                          any; begins empty
    ``insert_into(key, element)``, ``remove_from`` any; ``contains(key, element)`` gives a boolean
    ``push(key, value)``, ``pop(key)``             any
    ============================================== ================================================
    """

    def part(self, operation: Operation) -> Hashable:
        """Give the key."""
        if operation.name == "clear":
            return None
        if operation.name not in _STEPS:
            raise HistoryError(
                f"{operation}: this model knows {', '.join(_STEPS)} and clear; "
                "leave other operations out, or write a model"
            )
        if len(operation.arguments) != _ARITIES[operation.name]:
            raise HistoryError(f"{operation}: {_ARITIES[operation.name]} arguments are needed")
        return encode(operation.arguments[0])

    def initial(self, *, is_whole: bool) -> State:
        """Begin empty."""
        return frozenset() if is_whole else None

    def step(self, state: State, operation: Operation) -> Step | None:
        """Do an operation to one key, or to a key of the whole store."""
        if operation.name == "clear":
            return Step(frozenset())
        if not isinstance(state, frozenset):
            return _STEPS[operation.name](state, *operation.arguments[1:])
        whole = dict(state)
        key = encode(operation.arguments[0])
        step = _STEPS[operation.name](whole.pop(key, None), *operation.arguments[1:])
        if step is None:
            return None
        if step.state is not None:
            whole[key] = step.state
        return Step(frozenset(whole.items()), step.result)

    def is_read(self, operation: Operation) -> bool:
        """Tell whether it reads, or was told no."""
        if operation.name in ("put_unique", "compare_and_set"):
            return operation.result == (False,)
        return operation.name in ("get", "exists", "contains")

    def is_blind(self, operation: Operation, *, is_whole: bool) -> bool:
        """Tell whether it sets all there is."""
        return operation.name in (("clear",) if is_whole else ("put", "erase"))


def _get(state: Key) -> Step:
    return Step(state, () if state is None else (decode(state),))


def _put(_state: Key, value: Value) -> Step:
    return Step(encode(value))


def _put_unique(state: Key, value: Value) -> Step:
    return Step(encode(value), (True,)) if state is None else Step(state, (False,))


def _compare_and_set(state: Key, expected: Value, value: Value) -> Step:
    is_expected = state == encode(expected)
    return Step(encode(value) if is_expected else state, (is_expected,))


def _contains(state: Key, element: Value) -> Step:
    stored = None if state is None else decode(state)
    return Step(state, (isinstance(stored, (Set, Table)) and element in stored,))


def _changed(
    change: Callable[[object, Value], Value], begin: Callable[[Value], Found]
) -> Callable[..., Step | None]:
    """Make a step of a function of what is stored and the operand; a misfit is refused."""

    def step(state: Key, operand: Value = None) -> Step | None:
        stored = begin(operand) if state is None else (decode(state),)
        if not stored:
            return None
        try:
            return Step(encode(change(stored[0], operand)))
        except (TypeError, ValueError):
            return None

    return step


def _nowhere(_operand: Value) -> Found:
    return ()


def _at_zero(operand: Value) -> Found:
    match operand:
        case bool():
            return ()
        case int() | float() | Count():
            return (type(operand)(0),)
        case _:
            return ()


def _empty_text(operand: Value) -> Found:
    return (type(operand)(),) if isinstance(operand, (str, bytes)) else ()


def _sum(stored: object, operand: Value) -> Value:
    if isinstance(stored, bool) or type(stored) is not type(operand):
        raise TypeError("other type")
    if isinstance(stored, Count) and isinstance(operand, Count):
        return Count(stored.value + operand.value)
    if isinstance(stored, (int, float)) and isinstance(operand, (int, float)):
        return stored + operand
    raise TypeError("no number")


def _difference(stored: object, operand: Value) -> Value:
    if isinstance(stored, Count) and isinstance(operand, Count):
        return Count(stored.value - operand.value)
    if isinstance(operand, (int, float)):
        return _sum(stored, -operand)
    raise TypeError("no number")


def _appended(stored: object, operand: Value) -> Value:
    match stored, operand:
        case str(), str():
            return stored + operand
        case bytes(), bytes():
            return stored + operand
        case _:
            raise TypeError("no text")


def _inserted(stored: object, operand: Value) -> Value:
    if not isinstance(stored, Set):
        raise TypeError("no set")
    return Set([*stored, operand])


def _removed(stored: object, operand: Value) -> Value:
    encoded = encode(operand)
    if isinstance(stored, Table):
        return Table([pair for pair in stored.items() if encode(pair[0]) != encoded])
    if not isinstance(stored, Set):
        raise TypeError("neither set nor table")
    return Set(each for each in stored if encode(each) != encoded)


def _pushed(stored: object, operand: Value) -> Value:
    if not isinstance(stored, tuple):
        raise TypeError("no vector")
    return (*stored, operand)


def _popped(stored: object, _operand: Value) -> Value:
    if not isinstance(stored, tuple):
        raise TypeError("no vector")
    return stored[:-1]


_STEPS: Final[Mapping[str, Callable[..., Step | None]]] = {
    "put": _put,
    "get": _get,
    "exists": lambda state: Step(state, (state is not None,)),
    "put_unique": _put_unique,
    "compare_and_set": _compare_and_set,
    "erase": lambda _state: Step(None),
    "increment": _changed(_sum, _at_zero),
    "decrement": _changed(_difference, _nowhere),
    "append": _changed(_appended, _empty_text),
    "insert_into": _changed(_inserted, lambda _: (Set(),)),
    "remove_from": _changed(_removed, _nowhere),
    "contains": _contains,
    "push": _changed(_pushed, lambda _: ((),)),
    "pop": _changed(_popped, _nowhere),
}

_ARITIES: Final = {
    **dict.fromkeys(("get", "exists", "erase", "pop"), 1),
    **dict.fromkeys(("put", "put_unique", "increment", "decrement", "append"), 2),
    **dict.fromkeys(("insert_into", "remove_from", "contains", "push"), 2),
    "compare_and_set": 3,
}
