"""What a replica of a store does for proxies: it answers questions, and judges writes. Pure.

All that is kept for a proxy has a limit, and goes with its endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from stores.actions import WriterId
from stores.group.member import Member
from stores.group.words import Answered
from stores.questions import LookUpCommand, ReadRefusedCommand, ScanCommand, find, in_steps
from stores.replica.asked.errands import CarryOut
from stores.replica.facts import Facts
from stores.replica.outsiders import Outsiders
from stores.table.bodies import Found, Read, Register, Stamp, Write
from stores.table.machine import TableMachine
from stores.work import SLICE_COUNT, WorkQueue
from wire.errors import DecodeError, RevisionGone
from wire.identifiers import EndpointId

BUSY: Final = "it is busy with earlier questions"
STALE: Final = "it has been out of touch with its master for longer than its stale interval"


class Proxies(Outsiders[Read]):
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
        self._work = WorkQueue()

    def lose(self, endpoint: EndpointId) -> None:
        """Forget what an endpoint wanted: there is no path to it."""
        super().lose(endpoint)
        self._work.discard(endpoint)

    def say_goodbye(self) -> None:
        """Let those that follow this leader know that it leads no more."""
        super().say_goodbye()
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

    def _question_of(self, request: object) -> Read | None:
        return request if isinstance(request, Read) else None

    def _writers_of(self, request: object) -> list[WriterId]:
        match request:
            case Register(writer):
                return [writer]
            case Write(requests=requests):
                return [each.writer for each in requests]
            case _:
                raise DecodeError(f"a proxy asks for a {type(request).__name__}: only members do")

    def _on_question(self, member: Member, sender: EndpointId, ticket: int, question: Read) -> None:
        if question.is_linear:
            self._await_word(member, sender, ticket, question)
        elif self._facts.is_stale():
            self._refuse(sender, ticket, question, STALE, is_stale=True)
        else:
            self._look(sender, ticket, question)

    def _objection(self, read: Read) -> str:
        """Say why the state here is no answer; empty if it is one."""
        if not self._facts.was_served:
            return "it has no data yet"
        stamp, question = self._stamp(), read.question
        if isinstance(question, ScanCommand) and question.revision:
            return ""  # It is of an earlier state by intent.
        if stamp < read.seen or stamp.revision < read.question.revision_min:
            return f"it is at revision {stamp.revision}"
        return ""

    def _look(self, endpoint: EndpointId, ticket: int, question: Read) -> None:
        """Look up a value at once; a page in steps, after the questions that came before."""
        if isinstance(question.question, LookUpCommand):
            self._answer(endpoint, ticket, question, SLICE_COUNT)
            return
        reply = partial(self._answer, endpoint, ticket, question)
        if not self._work.add(endpoint, ticket, in_steps(self._machine.prepare_scan, reply)):
            self._say_busy(endpoint, ticket, question)

    def _answer(self, endpoint: EndpointId, ticket: int, read: Read, limit: int) -> None:
        if refusal := self._objection(read):
            self._refuse(endpoint, ticket, read, refusal)
            return
        try:
            found = find(self._machine, read.question, limit, self._facts.epoch_ns)
        except RevisionGone as error:
            number = read.question.number
            gone = ReadRefusedCommand(number, is_stale=False, text=str(error), is_gone=True)
            self._say(endpoint, Answered(ticket, gone))
            return
        self._say(endpoint, Answered(ticket, Found(self._stamp(), found)))

    def _say_busy(self, sender: EndpointId, ticket: int, question: Read) -> None:
        self._refuse(sender, ticket, question, BUSY)

    def _refuse(
        self, sender: EndpointId, ticket: int, read: Read, text: str, *, is_stale: bool = False
    ) -> None:
        refused = ReadRefusedCommand(read.question.number, is_stale, text)
        self._say(sender, Answered(ticket, refused))
