"""The fields of store commands: for each a suspicious way in, and a way out if it needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from stores.actions import (
    WRITER_ID_SIZE,
    Change,
    Guard,
    GuardKind,
    Initial,
    Step,
    StepKind,
    WriterId,
)
from stores.limits import (
    COUNT_END,
    ERROR_TEXT_SIZE_MAX,
    KEY_SIZE_MAX,
    RUN_COUNT_MAX,
)
from stores.outcomes import Applied, Outcome, Refused
from wire.errors import DecodeError, ErrorCode

_ItemT = TypeVar("_ItemT")
_REVISION_END: Final = 1 << 63
"""More mutations than a store can have, and where the 64-bit numbers of other systems end."""

_ONLY_BYTES: Final[set[type]] = {bytes}


def _refusal(wanted: str, value: object) -> DecodeError:
    return DecodeError(f"a store command has {type(value).__name__} where {wanted} belongs")


# -- single things ---------------------------------------------------------------------------------


def count(value: object) -> int:
    """Accept an unsigned 64-bit number."""
    if type(value) is not int or not 0 <= value < COUNT_END:
        raise _refusal("a count", value)
    return value


def revision(value: object) -> int:
    """Accept the number of a mutation: the next ones have numbers, too."""
    if (found := count(value)) >= _REVISION_END:
        raise _refusal("a revision", value)
    return found


def optional_count(value: object) -> int | None:
    """Accept a count or null."""
    return None if value is None else count(value)


def step_size(value: object) -> int:
    """Accept by how many entries a scan goes on: one at least."""
    if (found := count(value)) < 1:
        raise _refusal("a step", value)
    return found


def flag(value: object) -> bool:
    """Accept true or false."""
    if type(value) is not bool:
        raise _refusal("a flag", value)
    return value


def text(value: object) -> str:
    """Accept an error's text."""
    if type(value) is not str or len(value) > ERROR_TEXT_SIZE_MAX:
        raise _refusal("a short text", value)
    return value


def byte_string(value: object) -> bytes:
    """Accept bytes."""
    if type(value) is not bytes:
        raise _refusal("a byte string", value)
    return value


def optional_bytes(value: object) -> bytes | None:
    """Accept bytes or null."""
    return None if value is None else byte_string(value)


def key(value: object) -> bytes:
    """Accept what may be an encoded key; whether it is one, the master looks at."""
    if type(value) is not bytes or not 0 < len(value) <= KEY_SIZE_MAX:
        raise _refusal(f"a key of 1 to {KEY_SIZE_MAX} bytes", value)
    return value


def writer(value: object) -> WriterId:
    """Accept the id of a writer."""
    if type(value) is not bytes or len(value) != WRITER_ID_SIZE:
        raise _refusal(f"a writer's {WRITER_ID_SIZE} bytes", value)
    return WriterId(value)


def optional_writer(value: object) -> WriterId | None:
    """Accept the id of a writer, or null."""
    return None if value is None else writer(value)


def error_code(value: object) -> ErrorCode:
    """Accept any code; one of a later version means no more than its text says."""
    try:
        return ErrorCode(count(value))
    except ValueError:
        return ErrorCode.UNSPECIFIED


def initial(value: object) -> Initial:
    """Accept what an addition may start from."""
    try:
        return Initial(count(value))
    except ValueError:
        raise _refusal("an initial type", value) from None


# -- several of them -------------------------------------------------------------------------------


def _items(value: object, count_max: int) -> list[Any]:
    if type(value) is not list or len(value) > count_max:
        raise _refusal(f"an array of at most {count_max} items", value)
    return value


def list_of(
    accept: Callable[[object], _ItemT], count_max: int
) -> Callable[[object], tuple[_ItemT, ...]]:
    """Accept an array of such things."""
    return lambda value: tuple(map(accept, _items(value, count_max)))


def optional_list_of(
    accept: Callable[[object], _ItemT], count_max: int
) -> Callable[[object], tuple[_ItemT, ...] | None]:
    """Accept an array of such things, or null."""
    return lambda value: None if value is None else list_of(accept, count_max)(value)


def byte_strings(value: object, count_max: int) -> list[bytes]:
    """Accept an array of byte strings, maybe of none."""
    # One set for all types: a look at each item alone would cost ten times as much.
    items = _items(value, count_max)
    if not set(map(type, items)) <= _ONLY_BYTES:
        raise _refusal(f"an array of at most {count_max} byte strings", value)
    return items


def pairs(value: object) -> list[bytes]:
    """Accept keys and values in turn, at least one of each."""
    items = byte_strings(value, 2 * RUN_COUNT_MAX)
    if len(items) % 2 or not _are_keys(items[::2]):
        raise _refusal("keys and values in turn", value)
    return items


def keys(value: object) -> list[bytes]:
    """Accept keys, at least one."""
    items = byte_strings(value, RUN_COUNT_MAX)
    if not _are_keys(items):
        raise _refusal(f"keys of 1 to {KEY_SIZE_MAX} bytes", value)
    return items


def _are_keys(items: list[bytes]) -> bool:
    """Tell whether there is one at least, and each is as long as a key may be."""
    sizes = set(map(len, items))
    return bool(sizes) and 0 not in sizes and max(sizes) <= KEY_SIZE_MAX


def counts(value: object) -> list[int]:
    """Accept an array of counts, maybe of none."""
    if type(value) is not list or not _are_counts(value):
        raise _refusal("an array of counts", value)
    return value


def revisions(value: object) -> list[int]:
    """Accept an array of revisions, maybe of none."""
    found = counts(value)
    if found:
        revision(max(found))
    return found


# -- the parts of batches, outcomes and answers ---------------------------------------------------


def guard(value: object) -> Guard:
    """Accept a condition of a batch."""
    match _items(value, 4):
        case [int() as number, name, wanted, revision] if number in _GUARDS:
            kind, accept, accept_revision = _GUARDS[number]
            return Guard(kind, key(name), accept(wanted), accept_revision(revision))
        case _:
            raise _refusal("a guard", value)


def step(value: object) -> Step:
    """Accept an operation of a batch."""
    match _items(value, 5):
        case [int() as number, name, operand, start, expiry_ns] if number in _STEPS:
            kind, accept, accept_start, accept_expiry = _STEPS[number]
            begin = accept_start(start)
            return Step(kind, key(name), accept(operand), begin, accept_expiry(expiry_ns))
        case _:
            raise _refusal("a step of a batch", value)


def _nothing(value: object) -> None:
    if value is not None:
        raise _refusal("nothing", value)


_GUARDS: Final = {
    int(kind): (
        kind,
        byte_string if kind is GuardKind.VALUE else _nothing,
        count if kind is GuardKind.REVISION else _nothing,
    )
    for kind in GuardKind
}
"""By its number, a kind of guards, and what its value and its revision have to be."""

_STEPS: Final = {
    int(kind): (
        kind,
        _nothing if kind is StepKind.ERASE else byte_string,
        initial if kind is StepKind.ADD else _nothing,
        _nothing if kind is StepKind.ERASE else optional_count,
    )
    for kind in StepKind
}
"""By its number, a kind of steps, and what its operand, its initial type and its expiry may be."""


def change(value: object) -> Change:
    """Accept what a batch did to a key."""
    match _items(value, 3):
        case [name, None, None]:
            return Change(key(name), None, None)
        case [name, changed, expiry_ns]:
            return Change(key(name), byte_string(changed), optional_count(expiry_ns))
        case _:
            raise _refusal("a change", value)


def outcome(value: object) -> Outcome:
    """Accept what became of requests."""
    match _items(value, 4):
        case [first, last, code, str() as reason]:
            return Outcome(count(first), count(last), Refused(error_code(code), text(reason)))
        case [first, last, revision, None]:
            return Outcome(count(first), count(last), Applied(count(revision)))
        case [first, last, revision, bool() as answer]:
            return Outcome(count(first), count(last), Applied(count(revision), answer))
        case _:
            raise _refusal("an outcome", value)


def _are_counts(items: list[Any]) -> bool:
    if not items:
        return True
    return set(map(type, items)) == {int} and min(items) >= 0 and max(items) < COUNT_END


# -- the way out -----------------------------------------------------------------------------------


def _pack_outcome(value: Outcome) -> list[object]:
    match value.result:
        case Applied(revision, answer):
            return [value.first_request, value.last_request, revision, answer]
        case Refused(code, reason):
            return [value.first_request, value.last_request, int(code), reason]


_PACKERS: Final[dict[type, Callable[[Any], object]]] = {
    ErrorCode: int,
    Initial: int,
    Outcome: _pack_outcome,
    tuple: lambda value: [pack(item) for item in value],
    WriterId: bytes,
}


def pack(value: object) -> object:
    """Turn a field into what CBOR can write."""
    packer = _PACKERS.get(type(value))
    return value if packer is None else packer(value)
