"""What goes between a cluster and its nodes, written as plain values and read back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from endpoint.mesh.status import StatusCode, StatusEvent
from endpoint.pubsub.messages import Message, Missed
from endpoint.replicas.handle import GroupMember
from endpoint.replicas.logs.log_reading import LogEntry
from endpoint.replicas.stores.outcomes import Promotion, Verification
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.watching import Change, Commit, WatchItem
from stores.actions import Guard, GuardKind, Initial, Step, StepKind
from stores.batch import Batch
from stores.digests import Digest, ReplicaDigest
from stores.group.positions import Position
from stores.history import ChangeOf
from stores.watches import Bookmark, Gap
from wire.errors import DecodeError, ErrorCode
from wire.identifiers import EndpointId, EntityId

Item = Message | StatusEvent | WatchItem
"""What subscriptions and watches give."""


def _fields(item: Any) -> tuple[Any, ...]:  # noqa: ANN401 - of any of our dataclasses
    names: tuple[str, ...] = type(item).__slots__
    return tuple(getattr(item, name) for name in names)


# What subscriptions give.


def item_to_value(item: Item) -> tuple[Any, ...]:
    """Write what a subscription, or a watch, gave."""
    match item:
        case StatusEvent():
            return (item.status.value, item.endpoint, item.address, int(item.code), item.reason)
        case Entry():
            return ("entry", *_fields(item))
        case Bookmark(revision, position, group):
            at = None if position is None else (position.term, position.index)
            return ("bookmark", revision, at, group)
        case Gap(after, reason):
            return ("gap", after, reason)
        case Commit(revision, writer, changes):
            return ("commit", revision, writer, tuple(map(_change_to_value, changes)))
        case (topic, Missed(count)):
            return (topic, count, True)
        case (topic, data):
            return (topic, data, False)


def message_from_value(value: Any) -> Message:  # noqa: ANN401 - a decoded value
    """Read a message back."""
    topic, data, is_missed = value
    return Message(topic, Missed(data) if is_missed else data)


def event_from_value(value: Any) -> StatusEvent:  # noqa: ANN401 - a decoded value
    """Read a status event back."""
    status, endpoint, address, code, reason = value
    return StatusEvent(
        StatusCode(status),
        None if endpoint is None else EndpointId(endpoint),
        None if address is None else (address[0], address[1]),
        ErrorCode(code),
        reason,
    )


def watch_item_from_value(value: Any) -> WatchItem:  # noqa: ANN401 - a decoded value
    """Read back what a watch gave."""
    match value:
        case ("entry", *fields):
            return Entry(*fields)
        case ("bookmark", revision, position, group):
            return Bookmark(revision, None if position is None else Position(*position), group)
        case ("gap", after, reason):
            return Gap(after, reason)
        case (_, revision, writer, changes):
            endpoint = None if writer is None else EndpointId(writer)
            return Commit(revision, endpoint, tuple(map(_change_from_value, changes)))
        case _:
            raise DecodeError(f"{value!r:.100} is nothing that a watch gives")


def _change_to_value(change: Change) -> tuple[Any, ...]:
    return (change.kind.value, change.key, entry_to_value(change.entry))


def _change_from_value(value: Any) -> Change:  # noqa: ANN401 - a decoded value
    kind, key, entry = value
    return Change(ChangeOf(kind), key, entry_from_value(entry))


def entry_to_value(entry: Entry | None) -> tuple[Any, ...] | None:
    """Write an entry of a store, if there is one."""
    return None if entry is None else _fields(entry)


def entry_from_value(value: Any) -> Entry | None:  # noqa: ANN401 - a decoded value
    """Read it back."""
    return None if value is None else Entry(*value)


def member_to_value(member: GroupMember) -> tuple[Any, ...]:
    """Write what a leader knows of a member."""
    return _fields(member)


def member_from_value(value: Any) -> GroupMember:  # noqa: ANN401 - a decoded value
    """Read it back."""
    return GroupMember(*value)


# Batches.


def batch_to_value(batch: Batch) -> tuple[Any, ...]:
    """Write the guards and both lists of steps."""
    others = None if batch.others is None else tuple(map(_fields, batch.others))
    return tuple(map(_fields, batch.guards)), tuple(map(_fields, batch.steps)), others


def batch_from_value(guards: Any, steps: Any, others: Any) -> Batch:  # noqa: ANN401 - decoded values
    """Read a batch back."""
    batch = Batch()
    batch.guards = [Guard(GuardKind(kind), *rest) for kind, *rest in guards]
    batch.steps = _steps_from_value(steps)
    batch.others = None if others is None else _steps_from_value(others)
    return batch


def _steps_from_value(steps: Iterable[Any]) -> list[Step]:
    return [
        Step(StepKind(kind), key, operand, None if initial is None else Initial(initial), expiry)
        for kind, key, operand, initial, expiry in steps
    ]


# What a store says of itself.


def promotion_to_value(promotion: Promotion) -> tuple[Any, ...]:
    """Write what came of a promotion."""
    return _fields(promotion)


def verification_to_value(verification: Verification) -> tuple[Any, ...]:
    """Write what each replica said."""
    return tuple(
        (row.replica.endpoint, row.replica.object, row.digest and _digest_to_value(row.digest))
        for row in verification.replicas
    )


def _digest_to_value(digest: Digest) -> tuple[Any, ...]:
    return (digest.revision, digest.entry_count, digest.total.to_bytes(16, "big"))


def verification_from_value(rows: Any) -> Verification:  # noqa: ANN401 - a decoded value
    """Read it back."""
    return Verification(tuple(_replica_from_value(*row) for row in rows))


def _replica_from_value(endpoint: bytes, number: int, digest: Any) -> ReplicaDigest:  # noqa: ANN401 - a decoded value
    found = None
    if digest is not None:
        revision, count, total = digest
        found = Digest(revision, count, int.from_bytes(total, "big"))
    return ReplicaDigest(EntityId(EndpointId(endpoint), number), found)


# Logs.


def log_entry_to_value(entry: LogEntry) -> tuple[Any, ...]:
    """Write an entry of a log."""
    return _fields(entry)


def log_entry_from_value(value: Any) -> LogEntry:  # noqa: ANN401 - a decoded value
    """Read it back."""
    return LogEntry(*value)
