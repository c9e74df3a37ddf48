"""What a subscription says of its queue, checked, and the mailbox that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final, Literal, TypedDict, Unpack

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.pubsub.mailbox import Mailbox
from endpoint.pubsub.messages import Shape
from endpoint.pubsub.queueing import Overflow, Queueing

QUEUE_SIZE_MAX: Final = 2**24
"""Messages that a subscriber may let wait: of the smallest ones a few gigabytes."""

QUEUE_BYTES_MAX: Final = 2**40
"""Bytes that a subscriber may let wait: more than any machine has."""

AsSet = Literal["as set"]
AS_SET: Final = "as set"
"""The endpoint's settings say it."""


class QueueOptions(TypedDict):
    """What a subscription says of its queue; see ``Endpoint.subscribe``."""

    queue_size: int | None
    queue_bytes: int | None
    overflow: str | None
    stall_seconds: Seconds | AsSet
    name: str | None


def make_mailbox(
    usual: Queueing,
    shape: Shape,
    topics: Sequence[str],
    *,
    may_hold: bool,
    **options: Unpack[QueueOptions],
) -> Mailbox:
    """Make the mailbox of a subscription; what it does not say is as ``usual``.

    Raises ``TypeError`` and ``ValueError`` for what makes no sense.
    """
    queueing, name = usual, options["name"]
    queue_size, queue_bytes = options["queue_size"], options["queue_bytes"]
    overflow, stall_seconds = options["overflow"], options["stall_seconds"]
    if queue_size is not None:
        size = arguments.count("queue_size", queue_size, most=QUEUE_SIZE_MAX)
        queueing = replace(queueing, queue_size=size)
    if queue_bytes is not None:
        size = arguments.count("queue_bytes", queue_bytes, most=QUEUE_BYTES_MAX)
        queueing = replace(queueing, queue_bytes=size)
    if overflow is not None:
        queueing = replace(queueing, overflow=arguments.choice("overflow", overflow, Overflow))
    if stall_seconds != AS_SET:
        seconds = arguments.seconds("stall_seconds", stall_seconds)
        queueing = replace(queueing, stall_seconds=None if seconds == inf else seconds)
    label = topics[0] if name is None else arguments.label("name", name)
    return Mailbox(queueing, shape, may_hold=may_hold, label=label)
