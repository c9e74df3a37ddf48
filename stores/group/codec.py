"""The bytes of what members of a group say: CBOR arrays, read with suspicion.

A payload is ``[kind, group, name, life, fields…]``. What a machine has in it, as actions, parts of
snapshots, requests and answers, is a byte string of the machine's own codec. All that is wrong with
a payload is a ``DecodeError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Protocol

import cbor2

from channels import CumulativeAck, Event, Heartbeat, Nack, RetransmitFailed, UnknownConsumer
from channels.config import NACK_COUNT_MAX
from handshake.access import Right
from stores import fields
from stores.encoding import load_array
from stores.group.clock import Times
from stores.group.effects import Setback
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.limits import FOLLOWERS_MAX
from stores.group.membership import MemberStatus
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
    SnapshotHead,
    SnapshotPart,
    TimeoutNow,
    ToFollower,
    Vote,
    VoteGranted,
)
from stores.group.positions import MemberId, Position, Voters
from stores.group.words import (
    Answered,
    Ask,
    Barred,
    Declined,
    Farewell,
    Greeting,
    Letter,
    Order,
    Steer,
    Steered,
    Word,
)
from stores.limits import ERROR_TEXT_SIZE_MAX
from wire.errors import DecodeError
from wire.limits import MIB

GROUP_ID_SIZE: Final = 16
"""Bytes of a group's random id: no two groups ever share one."""

NAME_SIZE_MAX: Final = 256
"""Characters of a member's name: as many as a certificate's name may reasonably have."""

VOTERS_MAX: Final = 31
"""Voters of a group. Each commit waits for more than half of them; five are many already."""

TERMS_MAX: Final = 4_096
"""Terms in a ``Join``, the latest ones: two journals share one of them, or a snapshot is taken."""

RUN_ENTRIES_MAX: Final = 2_000
"""Entries in one message, as many as are handled in one step elsewhere."""

RUN_SIZE_MAX: Final = MIB
"""Bytes after which a message takes no more entries: others have their turn in between."""


class MachineCodec(Protocol):
    """How a machine writes and reads its own; all readers raise ``DecodeError``."""

    def encode(self, body: object) -> bytes:
        """Write an action."""

    def decode(self, data: bytes) -> object:
        """Read an action."""

    def encode_part(self, part: object) -> bytes:
        """Write a part of a snapshot."""

    def decode_part(self, data: bytes) -> object:
        """Read a part of a snapshot."""

    def encode_request(self, request: object) -> bytes:
        """Write a request."""

    def decode_request(self, data: bytes) -> object:
        """Read a request."""

    def encode_answer(self, answer: object) -> bytes:
        """Write an answer."""

    def decode_answer(self, data: bytes) -> object:
        """Read an answer."""


# -- fields ----------------------------------------------------------------------------------------


def _refusal(wanted: str) -> DecodeError:
    return DecodeError(f"a message of a replica group has no {wanted} where one belongs")


def _name(value: object) -> str:
    if type(value) is not str or not 0 < len(value) <= NAME_SIZE_MAX:
        raise _refusal("name")
    return value


def _member(value: object) -> MemberId:
    match value:
        case [name, life]:
            return MemberId(_name(name), fields.count(life))
        case _:
            raise _refusal("member")


_voters: Final[Callable[[object], Voters]] = fields.list_of(_member, VOTERS_MAX)
_names: Final = fields.list_of(_name, VOTERS_MAX)


def _position(value: object) -> Position:
    match value:
        case [term, index]:
            return Position(fields.count(term), fields.count(index))
        case _:
            raise _refusal("position")


def _ends(value: object) -> tuple[Position, ...]:
    ends = fields.list_of(_position, TERMS_MAX)(value)
    if not ends or any(one >= other for one, other in pairwise(ends)):
        raise _refusal("ends of terms in their order")
    return ends


def _times(value: object) -> Times:
    match value:
        case [elapsed_ns, stamp_ns]:
            return Times(fields.count(elapsed_ns), fields.count(stamp_ns))
        case _:
            raise _refusal("pair of clocks")


def _head(value: object) -> SnapshotHead | None:
    match value:
        case None:
            return None
        case [position, voters, times, count]:
            place, clocks = _position(position), _times(times)
            return SnapshotHead(place, _voters(voters), clocks, fields.count(count))
        case _:
            raise _refusal("head of a snapshot")


def _group(value: object) -> bytes | None:
    if value is not None and (type(value) is not bytes or len(value) != GROUP_ID_SIZE):
        raise _refusal("group's id")
    return value


_SETBACKS: Final = tuple(Setback)


def _setback(value: object) -> Setback:
    number = fields.count(value)
    return _SETBACKS[number] if number < len(_SETBACKS) else Setback.UNKNOWN


_RIGHTS: Final = (Right.READ, Right.WRITE, Right.VOTE)


def _right(value: object) -> Right:
    number = fields.count(value)
    if number >= len(_RIGHTS):
        raise _refusal("right")
    return _RIGHTS[number]


_ORDERS: Final = tuple(Order)


def _order(value: object) -> Order:
    number = fields.count(value)
    if number >= len(_ORDERS):
        raise _refusal("order")
    return _ORDERS[number]


def _status(value: object) -> MemberStatus:
    match value:
        case [member, is_voter, is_whole, match, silent_ticks]:
            return MemberStatus(
                _member(member),
                fields.flag(is_voter),
                fields.flag(is_whole),
                fields.count(match),
                fields.count(silent_ticks),
            )
        case _:
            raise _refusal("state of a member")


_statuses: Final[Callable[[object], tuple[MemberStatus, ...]]] = fields.list_of(
    _status, FOLLOWERS_MAX
)


def _nacked(value: object) -> tuple[int, ...]:
    found = fields.list_of(fields.count, NACK_COUNT_MAX)(value)
    if not found or any(one >= other for one, other in pairwise(found)):
        raise _refusal("numbers in their order")
    return found


# -- kinds -----------------------------------------------------------------------------------------

_Accepts = tuple[Callable[[object], Any], ...]
_count, _flag = fields.count, fields.flag

_PLAIN: Final[dict[int, tuple[Callable[..., Message | Word], _Accepts]]] = {
    1: (PreVote, (_count, _position)),
    2: (PreVoteGranted, (_count,)),
    3: (Vote, (_count, _position, _flag)),
    4: (VoteGranted, (_count,)),
    5: (HigherTerm, (_count,)),
    6: (TimeoutNow, (_count,)),
    7: (Keepalive, (_count, _count, _count, _count, _times)),
    8: (Echo, (_count, _count)),
    9: (Join, (_count, _count, _ends)),
    10: (Admitted, (_count, _count, _count, _count, _head)),
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
    32: (Greeting, (_names, _flag)),
    33: (Declined, (_count, _setback)),
    34: (Barred, (_right, fields.optional_count, fields.text)),
    35: (Steer, (_count, _order, _name)),
    36: (Steered, (_count, _flag, fields.text, _statuses)),
    37: (Farewell, ()),
}
"""What needs no codec of a machine: what builds it, and what its fields accept, in order."""

_EVENT, _PART, _ASK, _ANSWERED = 48, 49, 50, 51
_GREETING, _BARRED = 32, 34


def _pack_position(value: Position) -> list[int]:
    return [value.term, value.index]


def _pack_voters(voters: Voters) -> list[list[object]]:
    return [list(voter) for voter in voters]


def _pack_status(value: MemberStatus) -> list[object]:
    return [list(value.member), value.is_voter, value.is_whole, value.match, value.silent_ticks]


def _pack_head(head: SnapshotHead | None) -> list[object] | None:
    if head is None:
        return None
    place = _pack_position(head.position)
    return [place, _pack_voters(head.voters), list(head.times), head.part_count]


_PACKERS: Final[dict[type, Callable[[Any], list[object]]]] = {
    PreVote: lambda value: [1, value.term, _pack_position(value.last)],
    PreVoteGranted: lambda value: [2, value.term],
    Vote: lambda value: [3, value.term, _pack_position(value.last), value.is_handed],
    VoteGranted: lambda value: [4, value.term],
    HigherTerm: lambda value: [5, value.term],
    TimeoutNow: lambda value: [6, value.term],
    Keepalive: lambda value: [
        *(7, value.term, value.round, value.commit, value.end, list(value.times))
    ],
    Echo: lambda value: [8, value.term, value.round],
    Join: lambda value: [
        *(9, value.term, value.session, [*map(_pack_position, value.ends[-TERMS_MAX:])])
    ],
    Admitted: lambda value: [
        *(10, value.term, value.session, value.agreed, value.end, _pack_head(value.snapshot))
    ],
    SnapshotAck: lambda value: [11, value.term, value.session, value.count],
    ReadIndex: lambda value: [12, value.term, value.ticket],
    ReadFrom: lambda value: [13, value.term, value.ticket, value.index],
    Greeting: lambda value: [_GREETING, list(value.voters), value.is_question],
    Declined: lambda value: [33, value.ticket, _SETBACKS.index(value.setback)],
    Steer: lambda value: [35, value.ticket, _ORDERS.index(value.order), value.name],
    Steered: lambda value: [
        *(36, value.ticket, value.is_done, value.text[:ERROR_TEXT_SIZE_MAX]),
        [*map(_pack_status, value.members[:FOLLOWERS_MAX])],
    ],
    Farewell: lambda _: [37],
    Barred: lambda value: [
        *(_BARRED, _RIGHTS.index(value.right), value.ticket, value.text[:ERROR_TEXT_SIZE_MAX])
    ],
}


class GroupCodec:
    """Writes and reads what members say, with the codec of their machine."""

    def __init__(self, machine: MachineCodec) -> None:
        """Take the machine's codec."""
        self._machine = machine

    # -- out -------------------------------------------------------------------------------------

    def encode(
        self, sender: MemberId, group: bytes | None, content: Message | Word
    ) -> Iterator[bytes]:
        """Write a message: one payload, or several for a run of entries that is too large."""
        head: list[object] = [group, *sender]
        if isinstance(content, ToFollower) and isinstance(content.message, Event):
            for first, entries in self._runs(content.message):
                yield _dumps(_EVENT, head, [content.term, content.session, first, entries])
            return
        kind, *items = self._packed(content)
        yield _dumps(kind, head, items)

    def _packed(self, content: Message | Word) -> list[object]:
        machine = self._machine
        match content:
            case SnapshotPart(term, session, number, part):
                return [_PART, term, session, number, machine.encode_part(part)]
            case Ask(ticket, request):
                return [_ASK, ticket, machine.encode_request(request)]
            case Answered(ticket, answer):
                return [_ANSWERED, ticket, machine.encode_answer(answer)]
            case FromFollower(term, session, is_whole, CumulativeAck(sequence=sequence)):
                return [14, term, session, is_whole, sequence]
            case FromFollower(term, session, is_whole, Nack(sequences=lacking)):
                return [15, term, session, is_whole, lacking]
            case ToFollower(term, session, RetransmitFailed(sequence=sequence)):
                return [16, term, session, sequence]
            case ToFollower(term, session, UnknownConsumer()):
                return [17, term, session]
            case ToFollower(term, session, Heartbeat(sequence=sequence)):
                return [18, term, session, sequence]
            case _:
                return _PACKERS[type(content)](content)

    def _runs(self, event: Event[Entry]) -> Iterator[tuple[int, list[object]]]:
        """Cut a run of entries into those that travel together."""
        first, size = event.first_sequence, 0
        run: list[object] = []
        for entry in event.payloads:
            packed, count = self._pack_entry(entry)
            if run and (size + count > RUN_SIZE_MAX or len(run) >= RUN_ENTRIES_MAX):
                yield first, run
                first, size, run = first + len(run), 0, []
            run.append(packed)
            size += count
        yield first, run

    def _pack_entry(self, entry: Entry) -> tuple[list[object], int]:
        match entry:
            case ActionEntry(term, body):
                data = self._machine.encode(body)
                return [0, term, data], len(data)
            case LeadEntry(term, times):
                return [1, term, list(times)], 0
            case VotersEntry(term, voters):
                return [2, term, _pack_voters(voters)], 0
            case TimeEntry(term, times):
                return [3, term, list(times)], 0

    # -- in --------------------------------------------------------------------------------------

    def decode(self, data: bytes) -> Letter:
        """Read a payload; raises ``DecodeError``."""
        kind, group, name, life, *items = load_array(data, size_min=4)
        sender = MemberId(_name(name), _count(life))
        known = _group(group)
        if type(kind) is not int:
            raise _refusal("kind")
        if known is None and kind not in (_GREETING, _BARRED):
            raise DecodeError(f"a message of kind {kind} is of no replica group")
        return Letter(sender, known, self._content(kind, items))

    def _content(self, kind: int, items: Sequence[object]) -> Message | Word:
        if (shape := _PLAIN.get(kind)) is not None:
            build, accepts = shape
            if len(items) != len(accepts):
                raise DecodeError(
                    f"a message of kind {kind} has {len(accepts)} fields, and {len(items)} came"
                )
            return build(*[accept(item) for accept, item in zip(accepts, items, strict=True)])
        machine = self._machine
        match kind, items:
            case 48, [term, session, first, list() as run] if 0 < len(run) <= RUN_ENTRIES_MAX:
                entries = tuple(map(self._entry, run))
                number, part_of = _count(term), fields.optional_count(session)
                return ToFollower(number, part_of, Event(number, _count(first), entries))
            case 49, [term, session, number, part]:
                content = machine.decode_part(fields.byte_string(part))
                return SnapshotPart(_count(term), _count(session), _count(number), content)
            case 50, [ticket, request]:
                return Ask(_count(ticket), machine.decode_request(fields.byte_string(request)))
            case 51, [ticket, answer]:
                return Answered(_count(ticket), machine.decode_answer(fields.byte_string(answer)))
            case _:
                raise DecodeError(f"a message of a replica group has the bad kind {kind!r:.40}")

    def _entry(self, value: object) -> Entry:
        match value:
            case [0, term, bytes() as body]:
                return ActionEntry(_count(term), self._machine.decode(body))
            case [1, term, times]:
                return LeadEntry(_count(term), _times(times))
            case [2, term, voters]:
                return VotersEntry(_count(term), _voters(voters))
            case [3, term, times]:
                return TimeEntry(_count(term), _times(times))
            case _:
                raise _refusal("entry")


def _dumps(kind: object, head: list[object], items: list[object]) -> bytes:
    return cbor2.dumps([kind, *head, *items])
