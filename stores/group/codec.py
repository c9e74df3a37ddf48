"""The bytes of what members of a group say: CBOR arrays, read with suspicion.

A payload is ``[kind, group, name, life, fields…]``; the name of a proxy, which is no member, is
empty. What a machine has in it, as actions, parts of snapshots, requests and answers, is a byte
string of the machine's own codec. All that is wrong with a payload is a ``DecodeError``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import call
from typing import Any, Final, Protocol

import cbor2

from channels import Event
from stores import fields
from stores.encoding import load_array
from stores.group import packed_messages, packed_words
from stores.group.entries import ActionEntry, Entry, LeadEntry, TimeEntry, VotersEntry
from stores.group.messages import Message, SnapshotPart, ToFollower
from stores.group.packed_fields import (
    pack_voters,
    read_configuration,
    read_name,
    read_times,
    read_voters,
    refusal,
)
from stores.group.packed_messages import Accepts
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

_EVENT, _PART, _ASK, _ANSWERED = 48, 49, 50, 51
"""Kinds that the machine's codec has a part in."""
_OF_NO_GROUP: Final = (GREETING, BARRED, JOURNAL_END)
"""Kinds that a member says that knows of no group yet."""
_OF_PROXIES: Final = (SEEK, _ASK)
"""Kinds that a proxy says, whether it knows of a group or not."""

_count, _session = fields.count, fields.optional_count


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
        self._sender = OUTSIDE
        """Whose letter was read last."""
        self._packers: dict[type, Callable[[Any], list[object]]] = {
            **packed_messages.PACKERS,
            **packed_words.PACKERS,
            SnapshotPart: lambda value: [
                *(_PART, value.term, value.session, value.number, machine.encode_part(value.part))
            ],
            Ask: lambda value: [_ASK, value.ticket, machine.encode_request(value.request)],
            Answered: lambda value: [_ANSWERED, value.ticket, machine.encode_answer(value.answer)],
        }
        self._shapes: dict[int, tuple[Callable[..., Message | Word], Accepts]] = {
            **packed_messages.MESSAGES,
            **packed_words.WORDS,
            _EVENT: (_entries, (_count, _session, _count, _run_of(machine), _count)),
            _PART: (SnapshotPart, (_count, _count, _count, _of(machine.decode_part))),
            _ASK: (Ask, (_count, _of(machine.decode_request))),
            _ANSWERED: (Answered, (_count, _of(machine.decode_answer))),
        }

    # -- out -------------------------------------------------------------------------------------

    def encode(self, sender: MemberId, group: bytes | None, content: Message | Word) -> list[bytes]:
        """Write a message: one payload, or several for a run of entries that is too large."""
        if isinstance(content, ToFollower) and isinstance(content.message, Event):
            term, session, commit = content.term, content.session, content.commit
            head = [_EVENT, group, *sender, term, session]
            runs = self._runs(content.message)
            return [cbor2.dumps([*head, first, entries, commit]) for first, entries in runs]
        kind, *items = self._packers[type(content)](content)
        return [cbor2.dumps([kind, group, *sender, *items])]

    def _runs(self, event: Event[Entry]) -> list[tuple[int, list[object]]]:
        """Cut a run of entries into those that travel together, each with its first index."""
        size, run = 0, list[object]()
        runs = [(event.first_sequence, run)]
        for index, entry in enumerate(event.payloads, event.first_sequence):
            packed, count = self._pack_entry(entry)
            if run and (size + count > RUN_SIZE_MAX or len(run) >= RUN_ENTRIES_MAX):
                size, run = 0, []
                runs.append((index, run))
            run.append(packed)
            size += count
        return runs

    def _pack_entry(self, entry: Entry) -> tuple[list[object], int]:
        if isinstance(entry, ActionEntry):  # As most are.
            data = self._machine.encode(entry.body)
            return [0, entry.term, data], len(data)
        match entry:
            case LeadEntry(term, times):
                return [1, term, list(times)], 0
            case VotersEntry(term, voters, ()):
                return [2, term, pack_voters(voters)], 0
            case VotersEntry(term, voters, dismissed):
                content = [pack_voters(voters), list(dismissed)]
                return [4, term, content], sum(map(len, dismissed))
            case TimeEntry(term, times):
                return [3, term, list(times)], 0

    # -- in --------------------------------------------------------------------------------------

    def decode(self, data: bytes) -> Letter:
        """Read a payload; raises ``DecodeError``."""
        kind, group, name, life, *items = load_array(data, size_min=4)
        if type(kind) is not int:
            raise refusal("kind")
        sender = self._sender
        is_known = type(life) is int and life == sender.life and name == sender.name
        if not is_known:  # As a rule it is that of the last letter.
            is_outside = (name, life) == OUTSIDE
            sender = OUTSIDE if is_outside else MemberId(read_name(name), _count(life))
            self._sender = sender
        is_outside = sender is OUTSIDE
        if is_outside and kind not in _OF_PROXIES:
            raise DecodeError(f"a message of kind {kind} is said by members alone")
        if group is None:
            if kind not in (_OF_PROXIES if is_outside else _OF_NO_GROUP):
                raise DecodeError(f"a message of kind {kind} is of no replica group")
        elif type(group) is not bytes or len(group) != GROUP_ID_SIZE:
            raise refusal("group's id")
        return Letter(sender, group, self._content(kind, items))

    def _content(self, kind: int, items: Sequence[object]) -> Message | Word:
        if (shape := self._shapes.get(kind)) is None:
            raise DecodeError(f"a message of a replica group has the bad kind {kind}")
        build, accepts = shape
        if len(items) != len(accepts):
            raise DecodeError(
                f"a message of kind {kind} has {len(accepts)} fields, and {len(items)} came"
            )
        return build(*map(call, accepts, items))


def _run_of(machine: MachineCodec) -> Callable[[object], tuple[Entry, ...]]:
    """Accept a run of entries."""
    shapes: dict[int, tuple[Callable[..., Entry], Callable[[object], Any]]] = {
        0: (ActionEntry, _of(machine.decode)),
        1: (LeadEntry, read_times),
        2: (VotersEntry, read_voters),
        3: (TimeEntry, read_times),
        4: (lambda term, content: VotersEntry(term, *content), read_configuration),
    }

    def accept_entry(value: object) -> Entry:
        if type(value) is not list or len(value) != 3:
            raise refusal("entry")
        kind, term, content = value
        if type(kind) is not int or (shape := shapes.get(kind)) is None:
            raise refusal("entry")
        build, accept = shape
        return build(_count(term), accept(content))

    def accept_run(value: object) -> tuple[Entry, ...]:
        if type(value) is not list or not 0 < len(value) <= RUN_ENTRIES_MAX:
            raise refusal("run of entries")
        return tuple(map(accept_entry, value))

    return accept_run


def _entries(
    term: int, session: int | None, first: int, run: tuple[Entry, ...], commit: int
) -> ToFollower:
    return ToFollower(term, session, Event(term, first, run), commit)


def _of(decode: Callable[[bytes], object]) -> Callable[[object], object]:
    """Accept a byte string that the machine's codec reads."""

    def accept(value: object) -> object:
        return decode(value if type(value) is bytes else fields.byte_string(value))

    return accept
