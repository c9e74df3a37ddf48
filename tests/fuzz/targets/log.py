"""Messages of logs: read, written again, and taken in by a keeper and a follower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stores.actions import WriterId
from stores.effects import Unicast
from stores.encoding import decode_command
from stores.log import messages
from stores.log.changes import LoadedLog
from stores.log.effects import LogEffect, PersistLog
from stores.log.encoding import (
    decode_event,
    decode_message,
    decode_requests,
    encode_event,
    encode_message,
    encode_requests,
    is_log_message,
)
from stores.log.follower import Follower
from stores.log.keeper import Keeper
from stores.log.messages import Append, ForgetConsumer, MoveCursor, Requests, Trim, Trimmed
from stores.log.partitions import Partition, Retention
from stores.log.runs import Run
from stores.outcomes import Applied, Outcome, Refused
from wire.encoding import encode
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

KEEPER, FOLLOWER = (EntityId(EndpointId(bytes(15) + last), 1) for last in (b"\x01", b"\x02"))
KINDS = range(5)
TO_KEEPER, TO_FOLLOWER, TICK, REQUESTS, EVENT = KINDS
TICK_NS = 100_000_000
WRITER = WriterId.of(FOLLOWER, 1)
RUN = Run(0, 0, 1, 5, encode((None, encode(1))))
PAYLOADS = {REQUESTS: (decode_requests, encode_requests), EVENT: (decode_event, encode_event)}


def check(data: bytes) -> None:
    """Take the bytes apart: where to, a length in two bytes, and a message; and so on."""
    keeper = Keeper(KEEPER, LoadedLog(1, 1, [Partition()]), Retention())
    follower = Follower(
        FOLLOWER, 1, LoadedLog(0, 0, []), patience_ticks=50, stale_interval_ns=None
    )  # fmt: skip
    _carry(keeper, [])
    _carry(follower, follower.start())
    now_ns = 1
    while data:
        kind, size = data[0] % len(KINDS), int.from_bytes(data[1:3])
        said, data = data[3 : 3 + size], data[3 + size :]
        now_ns += TICK_NS
        if kind in PAYLOADS:
            _check_payload(kind, said)
            continue
        for core in (keeper, follower):
            if kind == TICK:
                _carry(core, core.tick(now_ns))
        if kind != TICK:
            _tell(keeper if kind == TO_KEEPER else follower, said, now_ns)


def _tell(core: Keeper | Follower, said: bytes, now_ns: int) -> None:
    try:
        if is_log_message(said):
            sender, message = decode_message(said)
            assert decode_message(encode_message(sender, message)) == (sender, message)
        else:
            sender = decode_command(said).sender
        _carry(core, core.receive(sender.endpoint, said, now_ns))
    except DecodeError:
        pass
    _carry(core, core.flush(now_ns))
    for number in range(len(core.partitions)):
        span = core.partitions[number].span
        assert span.start <= span.end


def _carry(core: Keeper | Follower, effects: Iterable[LogEffect]) -> None:
    """Commit at once whatever is to be."""
    for effect in effects:
        if isinstance(effect, PersistLog):
            _carry(core, core.persisted(effect.token))


def _check_payload(kind: int, said: bytes) -> None:
    read, write = PAYLOADS[kind]
    try:
        found = read(said)
    except DecodeError:
        return
    assert read(write(found)) == found  # type: ignore[arg-type]  # a pair belongs together


def seeds() -> Iterator[bytes]:
    """Give all messages, requests and events, and a follower's first words."""
    for vector in _messages():
        said_by = {TO_KEEPER: FOLLOWER, TO_FOLLOWER: KEEPER}
        for kind, sender in said_by.items():
            yield _item(kind, encode_message(sender, vector)) + _item(TICK, b"")
    moved, forgotten = MoveCursor("consumer", ((0, 1),)), ForgetConsumer("consumer")
    append = Append(0, "producer", 3, (None, encode(1), encode("k"), encode(2)))
    requests = Requests(WRITER, 1, 0, (append, moved, forgotten, Trim(0, 1)))
    yield _item(REQUESTS, encode_requests(requests))
    for event in (RUN, Trimmed(((0, 1),)), moved, forgotten):
        yield _item(EVENT, encode_event(event))
    follower = Follower(
        FOLLOWER, 1, LoadedLog(0, 0, []), patience_ticks=50, stale_interval_ns=None
    )  # fmt: skip
    said = [each.payload for each in follower.start() if isinstance(each, Unicast)]
    for tick in range(8):
        said += [each.payload for each in follower.tick(tick) if isinstance(each, Unicast)]
    yield b"".join(_item(TO_KEEPER, each) for each in said)


def _item(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(2) + body


def _messages() -> Iterator[messages.LogMessage]:
    outcomes = (Outcome(1, 2, Applied(3, 4)), Outcome(3, 3, Refused(ErrorCode.UNSPECIFIED, "no")))
    cursors = (("consumer", ((0, 1),)),)
    yield messages.Hello(1, 1, WRITER, 0)
    yield messages.Welcome(1, 1, 1, 1, 0, 0, outcomes)
    yield messages.Answers(1, 0, outcomes)
    yield messages.Join(1, 1, 1, (0,), 0)
    yield messages.Admitted(1, 1, 0, 5, 1, (0,), (0,), (0,), ((1, (0,)),), False, cursors)
    yield messages.Fetch(1, ((0, 0),), 1000, 3)
    yield messages.Fetched(1, (RUN,), (0,), (1,))
    yield messages.StateQuery(1)
    yield messages.State(1, (0,), (1,), cursors)
    yield messages.TimeQuery(1, 0, 5)
    yield messages.Found(1, 0)
    yield messages.QueryFailed(1, ErrorCode.UNSPECIFIED, "no")
    yield messages.Proclaim(9)
