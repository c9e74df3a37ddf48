"""The kinds of a group's messages that need no codec of a machine: numbers below 32."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from channels import CumulativeAck, Heartbeat, Nack, RetransmitFailed, UnknownConsumer
from channels.config import NACK_COUNT_MAX
from stores import fields
from stores.group.messages import (
    Admitted,
    Echo,
    FromFollower,
    HigherTerm,
    Join,
    Keepalive,
    Message,
    PreVote,
    PreVoteGranted,
    ReadFrom,
    ReadIndex,
    SnapshotAck,
    TimeoutNow,
    ToFollower,
    Vote,
    VoteGranted,
)
from stores.group.packed_fields import (
    TERMS_MAX,
    pack_head,
    pack_position,
    read_ends,
    read_head,
    read_position,
    read_times,
    refusal,
)

Accepts = tuple[Callable[[object], Any], ...]
"""What the fields of a kind accept, in order."""


def _nacked(value: object) -> tuple[int, ...]:
    found = fields.list_of(fields.count, NACK_COUNT_MAX)(value)
    if not found or any(one >= other for one, other in pairwise(found)):
        raise refusal("numbers in their order")
    return found


_count, _flag = fields.count, fields.flag

MESSAGES: Final[dict[int, tuple[Callable[..., Message], Accepts]]] = {
    1: (PreVote, (_count, read_position)),
    2: (PreVoteGranted, (_count,)),
    3: (Vote, (_count, read_position, _flag)),
    4: (VoteGranted, (_count,)),
    5: (HigherTerm, (_count,)),
    6: (TimeoutNow, (_count,)),
    7: (Keepalive, (_count, _count, _count, _count, read_times)),
    8: (Echo, (_count, _count)),
    9: (Join, (_count, _count, read_ends, _flag)),
    10: (Admitted, (_count, _count, _count, _count, read_head)),
    11: (SnapshotAck, (_count, _count, _count)),
    12: (ReadIndex, (_count, _count)),
    13: (ReadFrom, (_count, _count, _count)),
    14: (
        lambda term, session, is_whole, sequence: FromFollower(
            term, session, is_whole, CumulativeAck(term, sequence)
        ),
        (_count, _count, _flag, _count),
    ),
    15: (
        lambda term, session, is_whole, lacking: FromFollower(
            term, session, is_whole, Nack(term, lacking)
        ),
        (_count, _count, _flag, _nacked),
    ),
    16: (
        lambda term, session, sequence: ToFollower(term, session, RetransmitFailed(term, sequence)),
        (_count, fields.optional_count, _count),
    ),
    17: (
        lambda term, session: ToFollower(term, session, UnknownConsumer(term)),
        (_count, fields.optional_count),
    ),
    18: (
        lambda term, session, sequence: ToFollower(term, session, Heartbeat(term, sequence)),
        (_count, fields.optional_count, _count),
    ),
}
"""What builds each kind, and what its fields accept, in order."""

PACKERS: Final[dict[type[Message], Callable[[Any], list[object]]]] = {
    PreVote: lambda value: [1, value.term, pack_position(value.last)],
    PreVoteGranted: lambda value: [2, value.term],
    Vote: lambda value: [3, value.term, pack_position(value.last), value.is_handed],
    VoteGranted: lambda value: [4, value.term],
    HigherTerm: lambda value: [5, value.term],
    TimeoutNow: lambda value: [6, value.term],
    Keepalive: lambda value: [
        *(7, value.term, value.round, value.commit, value.end, list(value.times))
    ],
    Echo: lambda value: [8, value.term, value.round],
    Join: lambda value: [
        *(9, value.term, value.session, [*map(pack_position, value.ends[-TERMS_MAX:])]),
        value.wants_vote,
    ],
    Admitted: lambda value: [
        *(10, value.term, value.session, value.agreed, value.end, pack_head(value.snapshot))
    ],
    SnapshotAck: lambda value: [11, value.term, value.session, value.count],
    ReadIndex: lambda value: [12, value.term, value.ticket],
    ReadFrom: lambda value: [13, value.term, value.ticket, value.index],
    FromFollower: lambda value: _OF_CHANNELS[type(value.message)](value),
    ToFollower: lambda value: _OF_CHANNELS[type(value.message)](value),
}
"""Writes each kind. By its type: patterns are tried one after the other, for each letter."""

_OF_CHANNELS: Final[dict[type, Callable[[Any], list[object]]]] = {
    CumulativeAck: lambda value: [
        *(14, value.term, value.session, value.is_whole, value.message.sequence)
    ],
    Nack: lambda value: [15, value.term, value.session, value.is_whole, value.message.sequences],
    RetransmitFailed: lambda value: [16, value.term, value.session, value.message.sequence],
    UnknownConsumer: lambda value: [17, value.term, value.session],
    Heartbeat: lambda value: [18, value.term, value.session, value.message.sequence],
}
