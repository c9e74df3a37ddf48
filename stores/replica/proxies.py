"""What a replica does for proxies: it says that it leads, answers questions, judges writes. Pure.

All that is kept for a proxy has a limit, and goes with its endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from stores.group import effects as grouped
from stores.group.effects import Setback
from stores.group.member import Member
from stores.group.messages import Message
from stores.group.words import Answered, Ask, Declined, Farewell, Leads, Letter, Seek, Word
from stores.questions import LookUpCommand, ReadRefusedCommand, find, in_steps
from stores.replica.asked.errands import CarryOut
from stores.replica.facts import Facts
from stores.table.bodies import Found, Read, Register, Write
from stores.work import JOBS_MAX, SLICE_COUNT, WorkQueue
from wire.errors import DecodeError
from wire.identifiers import EndpointId

PROXIES_MAX: Final = 4_096
"""Proxies that a leader says goodbye to. Beyond, the one that was silent longest finds out by
itself, two seconds later."""

BUSY: Final = "it is busy with earlier questions"
STALE: Final = "it has been out of touch with its master for longer than its stale interval"


@dataclass(frozen=True, slots=True)
class Outside:
    """A proxy, where callers are named."""

    endpoint: EndpointId


class Proxies:
    """The proxies that ask one replica."""

    def __init__(self, facts: Facts, carry_out: CarryOut) -> None:
        """Know none. What is asked is answered with the state that ``facts`` has."""
        self._facts = facts
        self._carry_out = carry_out
        self._followed: dict[EndpointId, None] = {}
        """Those that follow this leader, the one that was silent longest first."""
        self._linear: dict[EndpointId, dict[int, Read]] = {}
        """By ticket, what waits for a majority's word."""
        self._work = WorkQueue()

    # -- what comes in ---------------------------------------------------------------------------

    def hear(self, sender: EndpointId, letter: Letter, now_ns: int) -> None:
        """Take in what a proxy says; raises ``DecodeError``."""
        content, member = letter.content, self._facts.member
        if isinstance(content, Seek):
            self._on_seek(sender, content)
        elif isinstance(content, Ask) and member is not None:
            ticket, request = content.ticket, content.request
            is_ours = letter.group == self._facts.group
            if isinstance(request, Read):
                if is_ours or letter.group is None:
                    self._on_read(member, sender, ticket, request, now_ns)
            elif is_ours:
                _check_author(sender, request)
                self._carry_out(member.propose((Outside(sender), ticket), request))

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""
        self._followed.pop(endpoint, None)
        self._linear.pop(endpoint, None)
        self._work.discard(endpoint)

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""
        for endpoint in self._followed:
            self._say(endpoint, Farewell())
        self._followed.clear()
        self._linear.clear()
        self._work.clear()

    # -- what the member says --------------------------------------------------------------------

    def hear_member(self, effect: grouped.Effect) -> bool:
        """Take in an answer of the member here; tells whether it is for a proxy."""
        match effect:
            case grouped.Replied(caller=(Outside(endpoint), int() as ticket), answer=answer):
                self._say(endpoint, Answered(ticket, answer))
            case grouped.Failed(caller=(Outside(endpoint), int() as ticket), setback=setback):
                self._take(endpoint, ticket)
                self._say(endpoint, Declined(ticket, setback))
            case grouped.Readable(caller=(Outside(endpoint), int() as ticket)):
                if (read := self._take(endpoint, ticket)) is not None:
                    self._look(endpoint, ticket, read)
            case _:
                return False
        return True

    # -- longer work -----------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True if a page waits to be looked up."""
        return len(self._work) > 0

    def work(self) -> None:
        """Take one step of it; raises ``DecodeError``."""
        self._work.step()

    # -- steps -----------------------------------------------------------------------------------

    def _on_seek(self, sender: EndpointId, seek: Seek) -> None:
        was_followed = sender in self._followed
        self._followed.pop(sender, None)
        if self._facts.is_leader:
            if len(self._followed) >= PROXIES_MAX:
                del self._followed[next(iter(self._followed))]
            self._followed[sender] = None
            self._say(sender, Leads(seek.number, self._facts.epoch))
        elif was_followed:
            self._say(sender, Farewell())

    def _on_read(
        self, member: Member, sender: EndpointId, ticket: int, read: Read, now_ns: int
    ) -> None:
        if not read.is_linear:
            if self._facts.is_stale(now_ns):
                self._refuse(sender, ticket, read, STALE, is_stale=True)
            else:
                self._look(sender, ticket, read)
        elif member.leading is None:
            self._say(sender, Declined(ticket, Setback.NOT_LEADER))
        else:
            waiting = self._linear.setdefault(sender, {})
            if ticket in waiting:
                return  # It was asked again: its round is under way.
            if len(waiting) >= JOBS_MAX:
                self._refuse(sender, ticket, read, BUSY)
                return
            waiting[ticket] = read
            self._carry_out(member.read((Outside(sender), ticket)))

    def _objection(self, read: Read) -> str:
        """Say why the state here is no answer; empty if it is one."""
        if not self._facts.was_served:
            return "it has no data yet"
        stamp = self._facts.stamp
        if stamp < read.seen or stamp.revision < read.question.revision_min:
            return f"it is at revision {stamp.revision}"
        return ""

    def _look(self, sender: EndpointId, ticket: int, read: Read) -> None:
        """Look up a value at once; a page in steps, after the questions that came before."""
        if isinstance(read.question, LookUpCommand):
            self._answer(sender, ticket, read, SLICE_COUNT)
            return
        reply = partial(self._answer, sender, ticket, read)
        if not self._work.add(sender, ticket, in_steps(self._facts.machine.prepare_scan, reply)):
            self._refuse(sender, ticket, read, BUSY)

    def _answer(self, sender: EndpointId, ticket: int, read: Read, limit: int) -> None:
        if refusal := self._objection(read):
            self._refuse(sender, ticket, read, refusal)
            return
        facts = self._facts
        found = find(facts.machine, read.question, limit, facts.epoch_ns)
        self._say(sender, Answered(ticket, Found(facts.stamp, found)))

    def _refuse(
        self, sender: EndpointId, ticket: int, read: Read, text: str, *, is_stale: bool = False
    ) -> None:
        refused = ReadRefusedCommand(read.question.number, is_stale, text)
        self._say(sender, Answered(ticket, refused))

    def _take(self, endpoint: EndpointId, ticket: int) -> Read | None:
        """Give a question that waits for a majority's word, and have it wait no more."""
        waiting = self._linear.get(endpoint, {})
        read = waiting.pop(ticket, None)
        if not waiting:
            self._linear.pop(endpoint, None)
        return read

    def _say(self, endpoint: EndpointId, content: Message | Word) -> None:
        self._facts.send_outside(endpoint, content)


def _check_author(sender: EndpointId, request: object) -> None:
    """Raise ``DecodeError`` for a request in another endpoint's name."""
    match request:
        case Register(writer):
            writers = [writer]
        case Write(requests=requests):
            writers = [each.writer for each in requests]
        case _:
            raise DecodeError(f"a proxy asks for a {type(request).__name__}: only members do that")
    for writer in writers:
        if writer.entity.endpoint != sender:
            raise DecodeError(f"{sender} wants to write in the name of {writer.entity}")
