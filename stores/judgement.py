"""The master's decision about each request: what it does to the store, or why it is refused.

A request becomes the actions that the master broadcasts, in absolute terms: clones have nothing to
compute, and nothing to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat
from typing import Final, get_args

from stores import operations
from stores.actions import (
    Action,
    AddCommand,
    BatchCommand,
    BatchResultCommand,
    Change,
    ClearCommand,
    EraseCommand,
    Guard,
    GuardKind,
    Initial,
    PutCommand,
    PutUniqueCommand,
    PutUniqueResultCommand,
    RefusalCommand,
    Step,
    StepKind,
    SubtractCommand,
    WriterId,
    request_range,
)
from stores.limits import BATCH_SIZE_MAX, ERROR_TEXT_SIZE_MAX, EXPIRY_END_NS, VALUE_SIZE_MAX
from stores.lives import Object, Objections, no_sessions, session_of
from stores.quota import UNLIMITED, Meter, Room
from stores.table import Table
from wire.decoding import check_all, is_canonical
from wire.errors import DecodeError, GuardFailed, InvalidData, QuotaExceeded, StoreError
from wire.limits import PAYLOAD_SIZE_MAX, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX
from wire.shape import check_shape

Request = (
    PutCommand
    | PutUniqueCommand
    | EraseCommand
    | AddCommand
    | SubtractCommand
    | ClearCommand
    | BatchCommand
)
"""What a writer may ask for."""


REQUESTS: Final = get_args(Request)

_ABSENT, _, _VALUE, _REVISION = GuardKind
_PUT: Final = StepKind.PUT
"""As names of this module: a member of an enumeration takes Python 3.11 ten times as long."""

_UNLIMITED: Final = Meter("", UNLIMITED)


def vet(requests: Iterable[Request], table: Table) -> None:
    """Make sure that keys and values from outside are encodings; raises ``DecodeError``.

    An honest writer sends no others. Keys have to be deterministic, so that equal keys are equal
    bytes; those in the table have been looked at. To erase what is no key finds nothing.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    for request in requests:
        if isinstance(request, (PutCommand, AddCommand, SubtractCommand)):
            keys += request.pairs[::2]
            values += request.pairs[1::2]
        elif isinstance(request, PutUniqueCommand):
            keys.append(request.key)
            values.append(request.value)
        elif isinstance(request, BatchCommand):
            steps = request.steps + (request.otherwise or ())
            keys += [step.key for step in steps]
            values += [step.operand for step in steps if step.operand is not None]
    check_all(values)
    for key in {*keys}.difference(table.columns.values):
        if not is_canonical(key):
            raise DecodeError("a key is not the deterministic encoding of a value")


def judge(
    request: Request,
    table: Table,
    now_ns: int,
    meter: Meter = _UNLIMITED,
    object_to: Object = no_sessions,
) -> Sequence[Action]:
    """Give the actions that carry out a request, or refuse it; nothing is applied yet.

    The very object comes back where it is to be broadcast as it is. What would grow beyond the
    quota of ``meter`` is refused, each pair of a run for itself and a batch as a whole. So is what
    is to live with a session, and what ``object_to`` objects to.
    """
    if isinstance(request, (EraseCommand, ClearCommand)):
        return (request,)
    # A batch says for each of its steps how long that lives.
    may_live = isinstance(request, BatchCommand) or request.expiry_ns is not None
    if may_live and (bound := bound_keys(request)) and (errors := _errors(bound, object_to)):
        if isinstance(request, PutCommand) and len(errors) > 1:
            return _judge_operations(request, table, now_ns, meter, errors)
        return _refusals(request, next(filter(None, errors)))
    if isinstance(request, PutCommand) and _fits(request.pairs, table, meter):
        if request.expiry_ns is None:
            return (request,)
        expires_at_ns = _deadline(request.expiry_ns, now_ns)
        return (PutCommand(request.writer, request.request, expires_at_ns, request.pairs),)
    if isinstance(request, (PutCommand, AddCommand, SubtractCommand)):
        return _judge_operations(request, table, now_ns, meter)
    if isinstance(request, BatchCommand):
        return (_judge_batch(request, table, now_ns, meter),)
    return _judge_put_unique(request, table, now_ns, _room(table, meter))


def bound_keys(request: Action) -> dict[int, Sequence[bytes]]:
    """Give the keys that a request, or what it came to, has live with sessions, by session."""
    if isinstance(request, (BatchCommand, BatchResultCommand)):
        return _bound_in_batch(request)
    expiry_ns: int | None = getattr(request, "expiry_ns", None)
    session = session_of(expiry_ns)
    if session is None:
        return {}
    if isinstance(request, PutUniqueCommand):
        return {session: (request.key,)}
    assert isinstance(request, (PutCommand, AddCommand, SubtractCommand)), request
    return {session: request.pairs[::2]}


def _bound_in_batch(batch: BatchCommand | BatchResultCommand) -> dict[int, Sequence[bytes]]:
    steps: Sequence[Change | Step]
    if isinstance(batch, BatchResultCommand):
        steps = batch.changes
    else:
        steps = (*batch.steps, *(batch.otherwise or ()))
    bound: dict[int, list[bytes]] = {}
    for step in steps:
        if step.expiry_ns is not None and (session := session_of(step.expiry_ns)) is not None:
            bound.setdefault(session, []).append(step.key)
    return {**bound}


def _errors(bound: Mapping[int, Sequence[bytes]], object_to: Object) -> Objections:
    """Give the objections to the keys of each session in turn; nothing if there are none."""
    errors = [each for session, keys in bound.items() for each in object_to(session, keys)]
    return errors if any(errors) else ()


def _refusals(request: Request, error: StoreError) -> Sequence[Action]:
    """Refuse all that a request asks for, each for itself."""
    asked = request_range(request)
    assert asked is not None, request
    return [_refusal(request.writer, each, error) for each in range(asked[0], asked[1] + 1)]


def _fits(pairs: Sequence[bytes], table: Table, meter: Meter) -> bool:
    """Tell whether puts are within the quota, even if all keys are new."""
    columns = table.columns
    entries, size = len(columns.values) + len(pairs) // 2, columns.size
    if meter.holds(entries, size + PAYLOAD_SIZE_MAX):  # No run is larger: there is nothing to add.
        return True
    return meter.holds(entries, size + sum(map(len, pairs)))


def _room(table: Table, meter: Meter) -> Room:
    return meter.room(len(table), table.columns.size)


def _judge_put_unique(
    request: PutUniqueCommand, table: Table, now_ns: int, room: Room
) -> Sequence[Action]:
    writer, key = request.writer, request.key
    if table.get(key) is not None:
        return (PutUniqueResultCommand(writer, request.request, is_inserted=False),)
    try:
        room.replace(key, None, request.value)
    except QuotaExceeded as error:
        return (_refusal(writer, request.request, error),)
    return (
        PutCommand(writer, None, _deadline(request.expiry_ns, now_ns), (key, request.value)),
        PutUniqueResultCommand(writer, request.request, is_inserted=True),
    )


def _judge_operations(
    request: PutCommand | AddCommand | SubtractCommand,
    table: Table,
    now_ns: int,
    meter: Meter,
    errors: Objections = (),
) -> Sequence[Action]:
    """Join what succeeds into as few puts as possible; each sees the values that went before.

    ``errors`` has what is known to be wrong with each, if anything is.
    """
    writer, expires_at_ns = request.writer, _deadline(request.expiry_ns, now_ns)
    initial = request.initial if isinstance(request, AddCommand) else None
    is_put = isinstance(request, PutCommand)
    first = request.request
    assert first is not None, "a writer numbers what it asks for"
    if len(request.pairs) == 2:  # One among others: what serves runs costs half as much again.
        key, operand = request.pairs
        stored = table.get(key)
        try:
            value = operand if is_put else _operate(stored, operand, initial)
            size = table.columns.size + len(key) + len(value)
            if not meter.holds(len(table) + 1, size):  # If it is new: what replaces adds less.
                _room(table, meter).replace(key, stored, value)
        except StoreError as error:
            return (_refusal(writer, first, error),)
        return (PutCommand(writer, first, expires_at_ns, (key, value)),)
    room = _room(table, meter)
    answers: list[Action] = []
    draft: dict[bytes, bytes] = {}
    pairs: list[bytes] = []
    keys, operands = request.pairs[::2], request.pairs[1::2]
    for number, key, operand, wrong in zip(count(first), keys, operands, errors or repeat(None)):
        stored = draft[key] if key in draft else table.get(key)
        try:
            if wrong is not None:
                raise wrong
            value = operand if is_put else _operate(stored, operand, initial)
            room.replace(key, stored, value)
        except StoreError as error:
            if pairs:
                answers.append(PutCommand(writer, first, expires_at_ns, pairs))
            answers.append(_refusal(writer, number, error))
            pairs, first = [], number + 1
            continue
        draft[key] = value
        pairs += (key, value)
    if pairs:
        answers.append(PutCommand(writer, first, expires_at_ns, pairs))
    return answers


def _judge_batch(
    request: BatchCommand, table: Table, now_ns: int, meter: Meter
) -> BatchResultCommand | RefusalCommand:
    try:
        has_held = _have_held(request, table)
        steps = request.steps if has_held else request.otherwise or ()
        changes, size = _draft(steps, table, now_ns)
        if not meter.holds(len(table) + len(changes), table.columns.size + size):
            _take_room(changes, table, _room(table, meter))  # Not all of it is new, perhaps.
    except StoreError as error:
        return _refusal(request.writer, request.request, error)
    return BatchResultCommand(request.writer, request.request, has_held, changes)


def _have_held(request: BatchCommand, table: Table) -> bool:
    """Tell whether all guards hold; raises ``GuardFailed`` if nothing else is to be done."""
    for number, guard in enumerate(request.guards):
        if _holds(guard, table):
            continue
        if request.otherwise is None:
            raise GuardFailed(f"guard {number} ({guard.kind.name.lower()}) does not hold")
        return False
    return True


def _holds(guard: Guard, table: Table) -> bool:
    stored = table.get(guard.key)
    if guard.kind is _REVISION:
        return table.columns.revisions.get(guard.key) == guard.revision
    if guard.kind is _VALUE:
        return stored is not None and stored == guard.value
    return (stored is None) is (guard.kind is _ABSENT)


def _draft(steps: Sequence[Step], table: Table, now_ns: int) -> tuple[tuple[Change, ...], int]:
    """Take the steps one after the other, aside, so that one which fails leaves nothing behind.

    Gives what changes, and the bytes of it.
    """
    draft: dict[bytes, Change] = {}
    for number, step in enumerate(steps):
        earlier = draft.get(step.key)
        stored = table.get(step.key) if earlier is None else earlier.value
        try:
            value = _take(step, stored)
        except StoreError as error:
            raise type(error)(f"step {number} ({step.kind.name.lower()}): {error}") from error
        draft[step.key] = Change(step.key, value, _deadline(step.expiry_ns, now_ns))
    size = 0
    for key, change in draft.items():
        size += len(key) + len(change.value or b"")
    if size > BATCH_SIZE_MAX:
        raise InvalidData(f"the batch would change {size} bytes: {BATCH_SIZE_MAX} are possible")
    return tuple(draft.values()), size


def _take_room(changes: Sequence[Change], table: Table, room: Room) -> None:
    """Refuse what a batch adds as a whole beyond the quota: it may put less than it erases."""
    entries = size = 0
    for change in changes:
        before = table.get(change.key)
        more = (change.value is not None) - (before is not None)
        entries += more
        size += more * len(change.key) + len(change.value or b"") - len(before or b"")
    room.take(entries, size)


def _take(step: Step, stored: bytes | None) -> bytes | None:
    """Compute the value that a step leaves; ``None`` if it erases."""
    if step.operand is None or step.kind is _PUT:
        return step.operand
    return _operate(stored, step.operand, step.initial)


def _operate(stored: bytes | None, operand: bytes, initial: Initial | None) -> bytes:
    """Compute the value after an addition, or after a subtraction if nothing is initial."""
    if initial is None:
        value = operations.subtract(stored, operand)
    else:
        value = operations.add(stored, operand, initial)
        _check_entries(value)
    if len(value) > VALUE_SIZE_MAX:
        raise InvalidData(f"the value would grow beyond {VALUE_SIZE_MAX} bytes: use several keys")
    return value


def _check_entries(value: bytes) -> None:
    """Refuse what could not be read, nor changed, any more."""
    if len(value) > VALUE_ENTRIES_MAX:  # as each takes a byte at least
        try:
            check_shape(value, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX)
        except DecodeError:
            raise InvalidData(
                f"the value would hold more than {VALUE_ENTRIES_MAX} values: use several keys"
            ) from None


def _deadline(expiry_ns: int | None, now_ns: int) -> int | None:
    if expiry_ns is None or expiry_ns >= EXPIRY_END_NS:
        return expiry_ns  # a session's number stays as it is
    return min(now_ns + expiry_ns, EXPIRY_END_NS - 1)


def _refusal(writer: WriterId, request: int, error: StoreError) -> RefusalCommand:
    return RefusalCommand(writer, request, error.code, str(error)[:ERROR_TEXT_SIZE_MAX])
