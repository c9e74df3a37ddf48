"""What a replica of a store does for proxies: it answers questions, and judges writes. Pure.

All that is kept for a proxy has a limit, and goes with its endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stores.group.effects import Setback
from stores.group.member import Member
from stores.group.words import Answered, Ask, Declined, Letter
from stores.questions import LookUpCommand, ReadRefusedCommand, find, in_steps
from stores.replica.asked.errands import CarryOut
from stores.replica.facts import Facts
from stores.replica.outsiders import Outside, Outsiders
from stores.table.bodies import Found, Read, Register, Stamp, Write
from stores.table.machine import TableMachine
from stores.work import JOBS_MAX, SLICE_COUNT, WorkQueue
from wire.errors import DecodeError
from wire.identifiers import EndpointId

BUSY: Final = "it is busy with earlier questions"
STALE: Final = "it has been out of touch with its master for longer than its stale interval"


class Proxies(Outsiders):
    """The proxies that ask one replica of a store."""

    def __init__(
        self,
        facts: Facts,
        carry_out: CarryOut,
        machine: TableMachine,
        stamp: Callable[[], Stamp],
    ) -> None:
        """Know none. What is asked is looked up in the machine, whose state the ``stamp`` names."""
        super().__init__(facts, carry_out)
        self._machine = machine
        self._stamp = stamp
        self._linear: dict[EndpointId, dict[int, Read]] = {}
        """By ticket, what waits for a majority's word."""
        self._work = WorkQueue()

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""
        super().lose(endpoint)
        self._linear.pop(endpoint, None)
        self._work.discard(endpoint)

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""
        super().say_goodbye()
        self._linear.clear()
        self._work.clear()

    # -- longer work -----------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True if a page waits to be looked up."""
        return len(self._work) > 0

    def work(self) -> None:
        """Take one step of it; raises ``DecodeError``."""
        self._work.step()

    # -- steps -----------------------------------------------------------------------------------

    def _on_ask(
        self, member: Member, sender: EndpointId, letter: Letter, ask: Ask, now_ns: int
    ) -> None:
        request, is_ours = ask.request, letter.group == self._facts.group
        if isinstance(request, Read):
            if is_ours or letter.group is None:
                self._on_read(member, sender, ask.ticket, request, now_ns)
        elif is_ours:
            _check_author(sender, request)
            self._carry_out(member.propose((Outside(sender), ask.ticket), request))

    def _on_failed(self, endpoint: EndpointId, ticket: int) -> None:
        self._take(endpoint, ticket)

    def _on_readable(self, endpoint: EndpointId, ticket: int) -> None:
        if (read := self._take(endpoint, ticket)) is not None:
            self._look(endpoint, ticket, read)

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
        stamp = self._stamp()
        if stamp < read.seen or stamp.revision < read.question.revision_min:
            return f"it is at revision {stamp.revision}"
        return ""

    def _look(self, sender: EndpointId, ticket: int, read: Read) -> None:
        """Look up a value at once; a page in steps, after the questions that came before."""
        if isinstance(read.question, LookUpCommand):
            self._answer(sender, ticket, read, SLICE_COUNT)
            return
        reply = partial(self._answer, sender, ticket, read)
        if not self._work.add(sender, ticket, in_steps(self._machine.prepare_scan, reply)):
            self._refuse(sender, ticket, read, BUSY)

    def _answer(self, sender: EndpointId, ticket: int, read: Read, limit: int) -> None:
        if refusal := self._objection(read):
            self._refuse(sender, ticket, read, refusal)
            return
        found = find(self._machine, read.question, limit, self._facts.epoch_ns)
        self._say(sender, Answered(ticket, Found(self._stamp(), found)))

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
