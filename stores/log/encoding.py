"""The bytes of what logs say: values of the wire's own encoding, read with suspicion.

A message is ``[kind, endpoint, object, fields…]``. Kinds begin at 64, where those of store commands
are over: both come on the same topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, assert_never

from stores.actions import WRITER_ID_SIZE, WriterId
from stores.limits import ERROR_TEXT_SIZE_MAX, RUN_COUNT_MAX, WRITERS_MAX
from stores.log import messages
from stores.log.limits import (
    APPEND_COUNT_MAX,
    CONSUMERS_MAX,
    CURSORS_MAX,
    FETCH_POSITIONS_MAX,
    LIVES_TOLD_MAX,
    NAME_SIZE_MAX,
    OFFSET_END,
    OUTCOMES_MAX,
    PARTITIONS_MAX,
    PRODUCER_WINDOW,
    PRODUCERS_MAX,
)
from stores.log.memory import Remembered, WriterNews
from stores.log.messages import (
    Append,
    Event,
    ForgetConsumer,
    LogMessage,
    MoveCursor,
    Positions,
    Request,
    Requests,
    Trim,
    Trimmed,
)
from stores.log.producers import ProducerRow
from stores.log.runs import Flat, Run
from stores.outcomes import Applied, Outcome, Refused
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId, EntityId

_ItemT = TypeVar("_ItemT")
_Accept = Callable[[object], Any]

FIRST_KIND: Final = 64
_COUNT_END: Final = 1 << 63


def is_log_message(data: bytes) -> bool:
    """Tell a message of logs from a command of stores, by its kind."""
    return data[1:2] == b"\x18" and data[2:3] >= bytes((FIRST_KIND,))


# -- single things ---------------------------------------------------------------------------------


def _refusal(wanted: str, value: object) -> DecodeError:
    return DecodeError(f"a message of a log has {type(value).__name__} where {wanted} belongs")


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < _COUNT_END:
        raise _refusal("a count", value)
    return value


def _offset(value: object) -> int:
    if type(value) is not int or not 0 <= value < OFFSET_END:
        raise _refusal("an offset", value)
    return value


def _partition(value: object) -> int:
    if type(value) is not int or not 0 <= value < PARTITIONS_MAX:
        raise _refusal("a partition", value)
    return value


def _blob(value: object) -> bytes:
    if type(value) is not bytes:
        raise _refusal("a byte string", value)
    return value


def _name(value: object) -> str:
    if type(value) is not str or not 0 < len(value) <= NAME_SIZE_MAX:
        raise _refusal("a name", value)
    return value


def _text(value: object) -> str:
    if type(value) is not str or len(value) > ERROR_TEXT_SIZE_MAX:
        raise _refusal("a short text", value)
    return value


def _writer(value: object) -> WriterId:
    if type(value) is not bytes or len(value) != WRITER_ID_SIZE:
        raise _refusal("a writer", value)
    return WriterId(value)


def _code(value: object) -> ErrorCode:
    try:
        return ErrorCode(_count(value))
    except ValueError:
        return ErrorCode.UNSPECIFIED


def _items(value: object, count_max: int) -> tuple[Any, ...]:
    if type(value) is not tuple or len(value) > count_max:
        raise _refusal(f"an array of at most {count_max}", value)
    return value


def _tuple_of(
    accept: Callable[[object], _ItemT], count_max: int
) -> Callable[[object], tuple[_ItemT, ...]]:
    return lambda value: tuple([accept(item) for item in _items(value, count_max)])


def _outcome(value: object) -> Outcome:
    match _items(value, 4):
        case (first, last, code, str() as reason):
            return Outcome(_count(first), _count(last), Refused(_code(code), _text(reason)))
        case (first, last, offset, None | bool() as answer):
            return Outcome(_count(first), _count(last), Applied(_count(offset), answer))
        case _:
            raise _refusal("an outcome", value)


def _run(value: object) -> Run:
    match _items(value, 5):
        case (partition, first, count, timestamp, body) if count:
            return Run(
                _partition(partition), _offset(first), _count(count), _count(timestamp), _blob(body)
            )
        case _:
            raise _refusal("a run", value)


def _position(value: object) -> tuple[int, int]:
    match _items(value, 2):
        case (partition, offset):
            return _partition(partition), _offset(offset)
        case _:
            raise _refusal("a position", value)


_positions: Final = _tuple_of(_position, FETCH_POSITIONS_MAX)


def _consumer(value: object) -> tuple[str, Positions]:
    match _items(value, 2):
        case (name, positions):
            return _name(name), _positions(positions)
        case _:
            raise _refusal("a consumer", value)


_outcomes: Final = _tuple_of(_outcome, OUTCOMES_MAX)


def _writer_news(value: object) -> WriterNews:
    match _items(value, 4):
        case (writer, last, resolved, outcomes):
            return WriterNews(_writer(writer), _count(last), _count(resolved), _outcomes(outcomes))
        case _:
            raise _refusal("what is remembered of a writer", value)


def _appended(value: object) -> tuple[int, int, int]:
    match _items(value, 3):
        case (sequence, partition, offset):
            return _count(sequence), _partition(partition), _offset(offset)
        case _:
            raise _refusal("an append", value)


_window: Final = _tuple_of(_appended, PRODUCER_WINDOW)


def _producer(value: object) -> ProducerRow:
    match _items(value, 3):
        case (name, appended, floor):
            return ProducerRow(_name(name), _window(appended), _count(floor))
        case _:
            raise _refusal("what is remembered of a producer", value)


_several_news: Final = _tuple_of(_writer_news, WRITERS_MAX)
_writers: Final = _tuple_of(_writer, WRITERS_MAX)
_producers: Final = _tuple_of(_producer, PRODUCERS_MAX)
_names: Final = _tuple_of(_name, PRODUCERS_MAX)


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise _refusal("true or false", value)
    return value


def _remembered(value: object) -> Remembered:
    match _items(value, 5):
        case (news, forgotten, producers, names, is_last):
            return Remembered(
                *(_several_news(news), _writers(forgotten)),
                *(_producers(producers), _names(names)),
                is_last=_flag(is_last),
            )
        case _:
            raise _refusal("what is remembered", value)


def _flat(value: tuple[object, ...]) -> Flat:
    if not value or len(value) % 2 or len(value) > 2 * APPEND_COUNT_MAX:
        raise _refusal("keys and values in turn", value)
    if not {type(item) for item in value[1::2]} <= {bytes}:
        raise _refusal("encoded values", value)
    if not {type(item) for item in value[::2]} <= {bytes, type(None)}:
        raise _refusal("encoded keys", value)
    return value  # type: ignore[return-value]  # the types were looked at


# -- payloads of channels --------------------------------------------------------------------------


def _pack_request(request: Request) -> tuple[object, ...]:
    match request:
        case Append(partition, producer, sequence, entries):
            return (0, partition, producer, sequence, *entries)
        case MoveCursor(consumer, positions):
            return (1, consumer, positions)
        case ForgetConsumer(consumer):
            return (2, consumer)
        case Trim(partition, offset):
            return (3, partition, offset)
        case _:
            assert_never(request)


def _request(value: object) -> Request:
    match value:
        case (0, partition, producer, sequence, *entries):
            name = None if producer is None else _name(producer)
            return Append(_partition(partition), name, _count(sequence), _flat(tuple(entries)))
        case (1, consumer, positions):
            return MoveCursor(_name(consumer), _positions(positions))
        case (2, consumer):
            return ForgetConsumer(_name(consumer))
        case (3, partition, offset):
            return Trim(_partition(partition), _offset(offset))
        case _:
            raise _refusal("a request", value)


def encode_requests(requests: Requests) -> bytes:
    """Write what a writer asks."""
    packed = tuple([_pack_request(request) for request in requests.requests])
    head = (bytes(requests.writer), requests.first_request, requests.resolved_request)
    return encode((*head, packed))  # type: ignore[arg-type]  # of values, all the way down


def decode_requests(data: bytes) -> Requests:
    """Read what a writer asks; raises ``DecodeError``."""
    match decode(data):
        case (writer, first, resolved, (_, *_) as requests):
            accept = _tuple_of(_request, RUN_COUNT_MAX)
            return Requests(_writer(writer), _count(first), _count(resolved), accept(requests))
        case _:
            raise DecodeError("a payload that is no request to a log")


def encode_event(event: Event) -> bytes:
    """Write what a keeper did."""
    match event:
        case Run():
            return encode((0, *_pack_run(event)))  # type: ignore[arg-type]  # of values
        case Trimmed(starts):
            return encode((1, starts))
        case MoveCursor(consumer, positions):
            return encode((2, consumer, positions))
        case ForgetConsumer(consumer):
            return encode((3, consumer))
        case Remembered():
            return encode((4, *_pack_fields(event)))
        case _:
            assert_never(event)


def decode_event(data: bytes) -> Event:
    """Read what a keeper did; raises ``DecodeError``."""
    match decode(data):
        case (0, *run):
            return _run(tuple(run))
        case (1, starts):
            return Trimmed(_positions(starts))
        case (2, consumer, positions):
            return MoveCursor(_name(consumer), _positions(positions))
        case (3, consumer):
            return ForgetConsumer(_name(consumer))
        case (4, *remembered):
            return _remembered(tuple(remembered))
        case _:
            raise DecodeError("a payload that is no event of a log")


# -- messages --------------------------------------------------------------------------------------

_offsets: Final = _tuple_of(_offset, PARTITIONS_MAX)
_consumers: Final = _tuple_of(_consumer, CONSUMERS_MAX)
_runs: Final = _tuple_of(_run, CURSORS_MAX)


def _life(value: object) -> tuple[int, tuple[int, ...]]:
    match _items(value, 2):
        case (epoch, ends):
            return _count(epoch), _offsets(ends)
        case _:
            raise _refusal("a life of a keeper", value)


_lives: Final = _tuple_of(_life, LIVES_TOLD_MAX)


def _optional_memory(value: object) -> Remembered | None:
    return None if value is None else _remembered(value)


_SHAPES: Final[dict[int, tuple[type[LogMessage], tuple[_Accept, ...]]]] = {
    64: (messages.Hello, (_count, _count, _writer, _count)),
    65: (messages.Welcome, (_count, _count, _count, _count, _count, _count, _outcomes)),
    66: (messages.Answers, (_count, _count, _outcomes)),
    67: (messages.Join, (_count, _count, _count, _offsets, _count)),
    68: (
        messages.Admitted,
        (
            *(_count, _count, _count, _count, _count, _offsets, _offsets, _offsets),
            *(_lives, _flag, _consumers),
        ),
    ),
    69: (messages.Fetch, (_count, _positions, _count, _count)),
    70: (messages.Fetched, (_count, _runs, _offsets, _offsets)),
    71: (messages.StateQuery, (_count,)),
    72: (messages.State, (_count, _offsets, _offsets, _consumers)),
    73: (messages.TimeQuery, (_count, _partition, _count)),
    74: (messages.Found, (_count, _offset)),
    75: (messages.QueryFailed, (_count, _code, _text)),
    76: (messages.Proclaim, (_count,)),
    77: (messages.MemoryQuery, (_count, _count, _count)),
    78: (messages.MemoryPage, (_count, _count, _optional_memory)),
}
_KINDS: Final = {shape[0]: kind for kind, shape in _SHAPES.items()}


def kinds() -> dict[int, type[LogMessage]]:
    """Give the number of every kind of message, for the documents."""
    return {kind: shape[0] for kind, shape in _SHAPES.items()}


def _pack_run(run: Run) -> tuple[object, ...]:
    return run.partition, run.first_offset, run.count, run.timestamp_ns, run.body


def _pack_outcome(outcome: Outcome) -> tuple[object, ...]:
    match outcome.result:
        case Applied(offset, answer):
            return outcome.first_request, outcome.last_request, offset, answer
        case Refused(code, reason):
            return outcome.first_request, outcome.last_request, int(code), reason


def _pack(value: object) -> Any:  # noqa: ANN401 - any field of any message
    match value:
        case Run():
            return _pack_run(value)
        case Outcome():
            return _pack_outcome(value)
        case WriterId():
            return bytes(value)
        case ErrorCode():
            return int(value)
        case Remembered() | WriterNews() | ProducerRow():
            return _pack_fields(value)
        case tuple():
            return tuple([_pack(item) for item in value])
        case _:
            return value


def _pack_fields(value: object) -> tuple[Any, ...]:
    return tuple([_pack(getattr(value, name)) for name in type(value).__match_args__])  # type: ignore[attr-defined]  # of dataclasses alone


def encode_message(sender: EntityId, message: LogMessage) -> bytes:
    """Write a message."""
    head = (_KINDS[type(message)], bytes(sender.endpoint), sender.object)
    return encode((*head, *_pack_fields(message)))


def decode_message(data: bytes) -> tuple[EntityId, LogMessage]:
    """Read a message and who sent it; raises ``DecodeError``."""
    match decode(data):
        case (int() as kind, bytes() as endpoint, number, *items) if kind in _SHAPES:
            if len(endpoint) != ENDPOINT_ID_SIZE:
                raise DecodeError(f"an endpoint's id has {ENDPOINT_ID_SIZE} bytes")
            sender = EntityId(EndpointId(endpoint), _count(number))
            build, accepts = _SHAPES[kind]
            if len(items) != len(accepts):
                raise DecodeError(f"{build.__name__} has {len(accepts)} fields: {len(items)} came")
            fields = [accept(item) for accept, item in zip(accepts, items, strict=True)]
            return sender, build(*fields)
        case _:
            raise DecodeError("a message of a log that is none")
