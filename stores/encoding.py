"""The bytes of actions: CBOR arrays, written fast and read with suspicion.

An action is ``[kind, fields…]``. Kinds 1 to 8 are the seed's, in the seed's order; ours follow from
32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from operator import call
from typing import Any, Final, NoReturn

import cbor2

from stores import actions, fields
from stores.actions import Action, WriterId
from stores.limits import BATCH_COUNT_MAX
from wire import cbor
from wire.errors import DecodeError
from wire.limits import VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX
from wire.shape import check_shape

_Shape = tuple[type[Action], tuple[Callable[[object], Any], ...]]
"""A class, and what its fields accept, in order."""

_ACTION_SHAPES: Final[dict[int, _Shape]] = {
    1: (
        actions.PutCommand,
        (fields.writer, fields.optional_count, fields.optional_count, fields.pairs),
    ),
    2: (
        actions.PutUniqueCommand,
        (fields.writer, fields.count, fields.optional_count, fields.key, fields.byte_string),
    ),
    3: (actions.PutUniqueResultCommand, (fields.writer, fields.count, fields.flag)),
    4: (actions.EraseCommand, (fields.writer, fields.count, fields.keys)),
    5: (actions.ExpireCommand, (fields.keys,)),
    6: (
        actions.AddCommand,
        (fields.writer, fields.count, fields.optional_count, fields.initial, fields.pairs),
    ),
    7: (
        actions.SubtractCommand,
        (fields.writer, fields.count, fields.optional_count, fields.pairs),
    ),
    8: (actions.ClearCommand, (fields.writer, fields.count)),
    33: (
        actions.BatchCommand,
        (
            fields.writer,
            fields.count,
            fields.list_of(fields.guard, BATCH_COUNT_MAX),
            fields.list_of(fields.step, BATCH_COUNT_MAX),
            fields.optional_list_of(fields.step, BATCH_COUNT_MAX),
        ),
    ),
    34: (
        actions.BatchResultCommand,
        (
            fields.writer,
            fields.count,
            fields.flag,
            fields.list_of(fields.change, BATCH_COUNT_MAX),
        ),
    ),
    35: (
        actions.RefusalCommand,
        (fields.writer, fields.count, fields.error_code, fields.text),
    ),
}

_KINDS: Final[dict[type, int]] = {shape[0]: kind for kind, shape in _ACTION_SHAPES.items()}


# -- out -------------------------------------------------------------------------------------------


def encode_action(action: Action) -> bytes:
    """Write an action."""
    if isinstance(action, actions.PutCommand):
        return action.encoded or encode_put(
            action.writer, action.request, action.expiry_ns, action.pairs
        )
    if isinstance(action, actions.EraseCommand):
        return encode_erase(action)
    if isinstance(action, actions.BatchResultCommand):
        return encode_batch_result(action)
    if isinstance(action, actions.BatchCommand):
        return encode_batch(action)
    return cbor2.dumps([_KINDS[type(action)], *_packed(action)])


def _packed(value: Action) -> list[object]:
    return [fields.pack(getattr(value, name)) for name in type(value).__match_args__]


_PUT_KIND: Final = _KINDS[actions.PutCommand]
_PUT_START: Final = b"\x85\x01\x58\x20"
_ERASE_START: Final = b"\x84\x04\x58\x20"
_BATCH_START: Final = b"\x86\x18\x21\x58\x20"
_BATCH_RESULT_START: Final = b"\x85\x18\x22\x58\x20"
"""An array, the kind, and the head of the writer's 32 bytes."""
_CHANGE_HEAD, _GUARD_HEAD, _STEP_HEAD = map(cbor.ARRAY_HEADS.__getitem__, (3, 4, 5))


def _byte_string(item: bytes | None) -> bytes:
    """Write a byte string, or that there is none."""
    if item is None:
        return cbor.NONE
    size = len(item)
    is_usual = size < cbor.HEADS_COUNT
    return (cbor.BYTES_HEADS[size] if is_usual else cbor.head(cbor.BYTES, size)) + item


def _count(number: int | None) -> bytes:
    """Write a count, or that there is none."""
    return cbor.NONE if number is None else cbor.head(cbor.UNSIGNED, number)


def encode_byte_strings(items: Sequence[bytes]) -> bytes:
    """Write an array of byte strings."""
    count = len(items)
    is_usual = count < cbor.HEADS_COUNT
    parts = [cbor.ARRAY_HEADS[count] if is_usual else cbor.head(cbor.ARRAY, count)]
    append, heads = parts.append, cbor.BYTES_HEADS
    for item in items:
        size = len(item)
        append(heads[size] if size < cbor.HEADS_COUNT else cbor.head(cbor.BYTES, size))
        append(item)
    return b"".join(parts)


def encode_put(
    writer: WriterId, request: int | None, expiry_ns: int | None, pairs: Sequence[bytes]
) -> bytes:
    """Write a ``PutCommand``, the one that has to be fast."""
    return b"".join(
        (
            _PUT_START,
            writer,
            cbor.NONE if request is None else cbor.head(cbor.UNSIGNED, request),
            cbor.NONE if expiry_ns is None else cbor.head(cbor.UNSIGNED, expiry_ns),
            encode_byte_strings(pairs),
        )
    )


def encode_erase(erasure: actions.EraseCommand) -> bytes:
    """Write an ``EraseCommand``, as fast as a put."""
    number = cbor.head(cbor.UNSIGNED, erasure.request)
    return b"".join((_ERASE_START, erasure.writer, number, encode_byte_strings(erasure.keys)))


def encode_batch(batch: actions.BatchCommand) -> bytes:
    """Write what a compare and set is: CBOR's own writer looks for long at arrays in arrays."""
    parts = [_BATCH_START, batch.writer, cbor.head(cbor.UNSIGNED, batch.request)]
    parts.append(cbor.head(cbor.ARRAY, len(batch.guards)))
    for guard in batch.guards:
        kind = cbor.SMALL_INTEGERS[guard.kind]
        parts += (_GUARD_HEAD, kind, _byte_string(guard.key))
        parts += (_byte_string(guard.value), _count(guard.revision))
    parts += _steps(batch.steps)
    parts += [cbor.NONE] if batch.otherwise is None else _steps(batch.otherwise)
    return b"".join(parts)


def _steps(steps: Sequence[actions.Step]) -> list[bytes]:
    parts = [cbor.head(cbor.ARRAY, len(steps))]
    for step in steps:
        kind = cbor.SMALL_INTEGERS[step.kind]
        parts += (_STEP_HEAD, kind, _byte_string(step.key), _byte_string(step.operand))
        parts += (_count(step.initial), _count(step.expiry_ns))
    return parts


def encode_batch_result(result: actions.BatchResultCommand) -> bytes:
    """Write what a batch came to, as fast as the batch itself."""
    parts = [_BATCH_RESULT_START, result.writer, cbor.head(cbor.UNSIGNED, result.request)]
    parts.append(cbor.TRUE if result.has_held else cbor.FALSE)
    parts.append(cbor.head(cbor.ARRAY, len(result.changes)))
    for change in result.changes:
        parts += (_CHANGE_HEAD, _byte_string(change.key), _byte_string(change.value))
        parts.append(_count(change.expiry_ns))
    return b"".join(parts)


# -- in --------------------------------------------------------------------------------------------


def decode_action(data: bytes) -> Action:
    """Read an action; raises ``DecodeError``."""
    kind, *items = load_array(data, size_min=1)
    if kind == _PUT_KIND and len(items) == 4:
        # What _build would do, in half the time: most actions are puts.
        writer, request, expiry_ns, pairs = items
        put = actions.PutCommand(
            fields.writer(writer),
            None if request is None else fields.count(request),
            None if expiry_ns is None else fields.count(expiry_ns),
            fields.pairs(pairs),
        )
        put.encoded = data
        return put
    return _build(kind, items)


def _build(kind: object, items: list[object]) -> Action:
    if type(kind) is not int or (shape := _ACTION_SHAPES.get(kind)) is None:
        raise DecodeError(f"a store command of the unknown kind {kind!r:.40}")
    build, accepts = shape
    if len(items) != len(accepts):
        name = build.__name__
        raise DecodeError(f"{name} has {len(accepts)} fields, and {len(items)} came")
    return build(*map(call, accepts, items))


def _deny(*_arguments: object) -> NoReturn:
    raise DecodeError("a store command holds a tag")


_DENIED_TAGS: Final = dict.fromkeys(
    (0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000),
    _deny,
)
"""Every tag that cbor2 would act upon: some compile patterns, build cycles or huge numbers."""

_DEPTH_MAX: Final = 7
"""Nesting of the deepest command: an outcome in a record in a chunk. One to spare."""


_PAIR_HEAD: Final = b"\x82"
_MARK: Final = b"\xfe\xed\xfa\xce"
"""Four bytes that occur in no text, and rarely elsewhere."""
_TERMINATOR: Final = b"\x44" + _MARK
"""They as a byte string. It has other forms, of which each has these four bytes."""
_SHORT_SIZE_MAX: Final = 4096
"""Bytes of a command that are searched for the terminator; what is longer takes long anyway."""


def load_array(data: bytes, size_min: int) -> list[Any]:
    """Decode one array, and nothing after it; raises ``DecodeError``."""
    try:
        if len(data) > VALUE_ENTRIES_MAX:  # as each takes a byte at least
            check_shape(data, VALUE_DEPTH_MAX, VALUE_ENTRIES_MAX)
        if len(data) <= _SHORT_SIZE_MAX and _MARK not in data:
            # In half the time of a stream; the terminator tells where it ends (wire.decoding).
            value, end = cbor2.loads(
                _PAIR_HEAD + data + _TERMINATOR,
                semantic_decoders=_DENIED_TAGS,
                max_depth=_DEPTH_MAX + 1,
                allow_indefinite=False,
                strict_hashable_types=True,
            )
            is_whole = end == _MARK
        else:
            value, is_whole = _load_stream(data)
    except Exception as error:  # whatever it trips over, it is the fault of the bytes
        raise DecodeError(f"a store command that is no CBOR of ours: {error!s:.100}") from None
    if type(value) is not list or len(value) < size_min:
        raise DecodeError("a store command that is no array, or too short a one")
    if not is_whole:
        raise DecodeError("a store command with bytes after its end")
    return value


def _load_stream(data: bytes) -> tuple[Any, bool]:
    source = BytesIO(data)
    value = cbor2.CBORDecoder(
        source,
        semantic_decoders=_DENIED_TAGS,
        max_depth=_DEPTH_MAX,
        allow_indefinite=False,
        strict_hashable_types=True,
    ).decode()
    return value, source.tell() == len(data)
