"""The bytes of what members of a group say: CBOR arrays, read with suspicion.

A payload is ``[kind, group, name, life, fields…]``; the name of a proxy, which is no member, is
empty. What a machine has in it, as actions, parts of snapshots, requests and answers, is a byte
string of the machine's own codec. All that is wrong with a payload is a ``DecodeError``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import cbor2

from channels import CumulativeAck, Event, Heartbeat, Nack, RetransmitFailed, UnknownConsumer
from stores import fields
from stores.encoding import load_array
from stores.group import packed_messages, packed_words
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.messages import FromFollower, Message, SnapshotPart, ToFollower
from stores.group.packed_fields import pack_voters, read_name, read_times, read_voters, refusal
from stores.group.packed_words import BARRED, GREETING, JOURNAL_END, SEEK
from stores.group.positions import MemberId
from stores.group.words import OUTSIDE, Answered, Ask, Letter, Word
from wire.errors import DecodeError
from wire.limits import KIB

GROUP_ID_SIZE: Final = 16
"""Bytes of a group's random id: no two groups ever share one."""

RUN_ENTRIES_MAX: Final = 2_000
"""Entries in one message, as many as are handled in one step elsewhere."""

RUN_SIZE_MAX: Final = 64 * KIB
"""Bytes after which a message takes no more entries: all that it brings may be applied in one step
of the loop, and 64 KiB are a thousand small puts. Others have their turn in between."""

_PLAIN: Final = {**packed_messages.MESSAGES, **packed_words.WORDS}
_PACKERS: Final[dict[type, Callable[[Any], list[object]]]] = {
    **packed_messages.PACKERS,
    **packed_words.PACKERS,
}
_EVENT, _PART, _ASK, _ANSWERED = 48, 49, 50, 51
"""Kinds that the machine's codec has a part in."""
_OF_NO_GROUP: Final = (GREETING, BARRED, JOURNAL_END)
"""Kinds that a member says that knows of no group yet."""
_OF_PROXIES: Final = (SEEK, _ASK)
"""Kinds that a proxy says, whether it knows of a group or not."""

_count = fields.count


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
                session, commit = content.session, content.commit
                yield _dumps(_EVENT, head, [content.term, session, first, entries, commit])
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
                return [2, term, pack_voters(voters)], 0
            case TimeEntry(term, times):
                return [3, term, list(times)], 0

    # -- in --------------------------------------------------------------------------------------

    def decode(self, data: bytes) -> Letter:
        """Read a payload; raises ``DecodeError``."""
        kind, group, name, life, *items = load_array(data, size_min=4)
        if type(kind) is not int:
            raise refusal("kind")
        is_outside = (name, life) == OUTSIDE
        if is_outside and kind not in _OF_PROXIES:
            raise DecodeError(f"a message of kind {kind} is said by members alone")
        sender = OUTSIDE if is_outside else MemberId(read_name(name), _count(life))
        known = _group(group)
        if known is None and kind not in (_OF_PROXIES if is_outside else _OF_NO_GROUP):
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
            case 48, [term, session, first, list() as run, commit] if (
                0 < len(run) <= RUN_ENTRIES_MAX
            ):
                entries = tuple(map(self._entry, run))
                number, part_of = _count(term), fields.optional_count(session)
                event = Event(number, _count(first), entries)
                return ToFollower(number, part_of, event, _count(commit))
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
                return LeadEntry(_count(term), read_times(times))
            case [2, term, voters]:
                return VotersEntry(_count(term), read_voters(voters))
            case [3, term, times]:
                return TimeEntry(_count(term), read_times(times))
            case _:
                raise refusal("entry")


def _group(value: object) -> bytes | None:
    if value is not None and (type(value) is not bytes or len(value) != GROUP_ID_SIZE):
        raise refusal("group's id")
    return value


def _dumps(kind: object, head: list[object], items: list[object]) -> bytes:
    return cbor2.dumps([kind, *head, *items])
