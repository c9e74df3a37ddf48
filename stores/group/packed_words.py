"""The kinds of a group's words that need no codec of a machine: numbers from 32 on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from handshake.access import Right
from stores import fields
from stores.group.effects import Setback
from stores.group.limits import FOLLOWERS_MAX, VOTERS_MAX
from stores.group.membership import MemberStatus
from stores.group.packed_fields import (
    pack_position,
    read_member,
    read_name,
    read_position,
    refusal,
)
from stores.group.packed_messages import Accepts
from stores.group.words import (
    Aim,
    Barred,
    Cede,
    Declined,
    Differs,
    Farewell,
    Greeting,
    JournalEnd,
    Leads,
    Looked,
    Order,
    Row,
    Seek,
    Steer,
    Steered,
    Verdict,
    Verify,
    Word,
)
from stores.limits import ERROR_TEXT_SIZE_MAX
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId

_SETBACKS: Final = tuple(Setback)


def _setback(value: object) -> Setback:
    number = fields.count(value)
    return _SETBACKS[number] if number < len(_SETBACKS) else Setback.UNKNOWN


_RIGHTS: Final = (Right.READ, Right.WRITE, Right.VOTE)


def _right(value: object) -> Right:
    number = fields.count(value)
    if number >= len(_RIGHTS):
        raise refusal("right")
    return _RIGHTS[number]


_ORDERS: Final = tuple(Order)


def _order(value: object) -> Order:
    number = fields.count(value)
    if number >= len(_ORDERS):
        raise refusal("order")
    return _ORDERS[number]


def _status(value: object) -> MemberStatus:
    match value:
        case [member, is_voter, is_whole, match, silent_ticks, *dismissed] if len(dismissed) <= 1:
            return MemberStatus(
                read_member(member),
                fields.flag(is_voter),
                fields.flag(is_whole),
                fields.count(match),
                fields.count(silent_ticks),
                *map(fields.flag, dismissed),
            )
        case _:
            raise refusal("state of a member")


_statuses: Final[Callable[[object], tuple[MemberStatus, ...]]] = fields.list_of(
    _status, FOLLOWERS_MAX
)


def _pack_status(value: MemberStatus) -> list[object]:
    flags = value.is_voter, value.is_whole
    packed = [list(value.member), *flags, value.match, value.silent_ticks]
    return [*packed, True] if value.is_dismissed else packed


def _digest(value: object) -> tuple[int, int, int]:
    match value:
        case [revision, count, total]:
            return fields.count(revision), fields.count(count), fields.count(total)
        case _:
            raise refusal("digest")


def _row(value: object) -> Row:
    match value:
        case [bytes() as where, digest] if len(where) == ENDPOINT_ID_SIZE:
            return EndpointId(where), None if digest is None else _digest(digest)
        case _:
            raise refusal("digest of a member")


_rows: Final = fields.list_of(_row, FOLLOWERS_MAX + 1)


def _pack_row(row: Row) -> list[object]:
    where, digest = row
    return [bytes(where), None if digest is None else list(digest)]


_AIMS: Final = tuple(Aim)


def _aim(value: object) -> Aim:
    number = fields.count(value)
    if number >= len(_AIMS):
        raise refusal("aim")
    return _AIMS[number]


_names: Final = fields.list_of(read_name, VOTERS_MAX)
_count, _flag = fields.count, fields.flag

WORDS: Final[dict[int, tuple[Callable[..., Word], Accepts]]] = {
    32: (Greeting, (_names, _flag, _aim)),
    33: (Declined, (_count, _setback)),
    34: (Barred, (_right, fields.optional_count, fields.text, fields.optional_count)),
    35: (Steer, (_count, _order, read_name)),
    36: (Steered, (_count, _flag, fields.text, _statuses)),
    37: (Farewell, ()),
    38: (Seek, (_count,)),
    39: (Leads, (_count, _count)),
    40: (JournalEnd, (read_position, _flag)),
    41: (Cede, ()),
    42: (Verify, (_count,)),
    43: (Looked, (_count, _digest)),
    44: (Verdict, (_count, _rows)),
    45: (Differs, (_count,)),
}
"""What builds each kind, and what its fields accept, in order."""

GREETING: Final = 32
BARRED: Final = 34
SEEK: Final = 38
JOURNAL_END: Final = 40

PACKERS: Final[dict[type[Word], Callable[[Any], list[object]]]] = {
    Greeting: lambda value: [
        *(GREETING, list(value.voters), value.is_question, _AIMS.index(value.aim))
    ],
    Declined: lambda value: [33, value.ticket, _SETBACKS.index(value.setback)],
    Steer: lambda value: [35, value.ticket, _ORDERS.index(value.order), value.name],
    Steered: lambda value: [
        *(36, value.ticket, value.is_done, value.text[:ERROR_TEXT_SIZE_MAX]),
        [*map(_pack_status, value.members[:FOLLOWERS_MAX])],
    ],
    Farewell: lambda _: [37],
    Barred: lambda value: [
        *(BARRED, _RIGHTS.index(value.right), value.ticket, value.text[:ERROR_TEXT_SIZE_MAX]),
        value.life,
    ],
    Seek: lambda value: [SEEK, value.number],
    Leads: lambda value: [39, value.number, value.term],
    JournalEnd: lambda value: [JOURNAL_END, pack_position(value.end), value.is_led],
    Cede: lambda _: [41],
    Verify: lambda value: [42, value.ticket],
    Looked: lambda value: [43, value.number, list(value.digest)],
    Verdict: lambda value: [44, value.ticket, [*map(_pack_row, value.rows)]],
    Differs: lambda value: [45, value.number],
}
