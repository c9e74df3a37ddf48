"""The fields of what a group says: for each a suspicious way in, and a way out if it needs one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from stores import fields
from stores.group.clock import Times
from stores.group.limits import DISMISSED_MAX, SNAPSHOT_PARTS_MAX, VOTERS_MAX
from stores.group.messages import SnapshotHead
from stores.group.positions import Dismissed, MemberId, Position, Voters
from wire.errors import DecodeError

NAME_SIZE_MAX: Final = 256
"""Characters of a member's name: as many as a certificate's name may reasonably have."""

TERMS_MAX: Final = 4_096
"""Terms in a ``Join``, the latest ones: two journals share one of them, or a snapshot is taken."""


def refusal(wanted: str) -> DecodeError:
    """Make the error for a field of another kind."""
    return DecodeError(f"a message of a replica group has no {wanted} where one belongs")


# -- in --------------------------------------------------------------------------------------------


def read_name(value: object) -> str:
    """Accept a member's name."""
    if type(value) is not str or not 0 < len(value) <= NAME_SIZE_MAX:
        raise refusal("name")
    return value


def read_member(value: object) -> MemberId:
    """Accept a member."""
    match value:
        case [name, life]:
            return MemberId(read_name(name), fields.count(life))
        case _:
            raise refusal("member")


read_voters: Final[Callable[[object], Voters]] = fields.list_of(read_member, VOTERS_MAX)
"""Accepts voters."""

_names: Final[Callable[[object], Dismissed]] = fields.list_of(read_name, DISMISSED_MAX)


def read_configuration(value: object) -> tuple[Voters, Dismissed]:
    """Accept voters, with the names that a person took the vote."""
    match value:
        case [voters, dismissed]:
            return read_voters(voters), _names(dismissed)
        case _:
            raise refusal("configuration")


def read_position(value: object) -> Position:
    """Accept the name of an entry."""
    match value:
        case [term, index]:
            return Position(fields.count(term), fields.count(index))
        case _:
            raise refusal("position")


def read_ends(value: object) -> tuple[Position, ...]:
    """Accept the ends of terms, at least one, in their order."""
    ends = fields.list_of(read_position, TERMS_MAX)(value)
    if not ends or any(one >= other for one, other in pairwise(ends)):
        raise refusal("ends of terms in their order")
    return ends


def read_times(value: object) -> Times:
    """Accept the group's clocks."""
    match value:
        case [elapsed_ns, stamp_ns]:
            return Times(fields.count(elapsed_ns), fields.count(stamp_ns))
        case _:
            raise refusal("pair of clocks")


def read_head(value: object) -> SnapshotHead | None:
    """Accept what a snapshot is of, or null."""
    match value:
        case None:
            return None
        case [position, voters, times, count, after, *dismissed] if len(dismissed) <= 1:
            place, clocks = read_position(position), read_times(times)
            counts = fields.count(count), fields.count(after)
            if counts[0] <= SNAPSHOT_PARTS_MAX:
                names = map(_names, dismissed)
                return SnapshotHead(place, read_voters(voters), clocks, *counts, *names)
        case _:
            pass
    raise refusal("head of a snapshot")


# -- out -------------------------------------------------------------------------------------------


def pack_position(value: Position) -> list[int]:
    """Write the name of an entry."""
    return [value.term, value.index]


def pack_voters(voters: Voters) -> list[list[object]]:
    """Write voters."""
    return [list(voter) for voter in voters]


def pack_head(head: SnapshotHead | None) -> list[object] | None:
    """Write what a snapshot is of."""
    if head is None:
        return None
    place = pack_position(head.position)
    counts = head.part_count, head.after
    packed = [place, pack_voters(head.voters), list(head.times), *counts]
    return [*packed, list(head.dismissed)] if head.dismissed else packed
