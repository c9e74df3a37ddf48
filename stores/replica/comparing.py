"""Whether all members of a group hold the same: each looks at itself at one entry of the journal.

The leader journals a ``Compare``, wherever it was asked for. A member that has applied it has done
exactly what all others had done there: it tells the leader its digest, which it takes a slice at a
time. All that ask while a comparison is under way share the next one, so that a hundred questions
cost two. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.digests import Digest, ReplicaDigest
from stores.effects import Verified
from stores.group.positions import MemberId
from stores.group.roles import DEFAULT_TIMING
from stores.group.words import Differs, Looked, Row, Verdict, Verify
from stores.replica.asked.errands import CarryOut
from stores.replica.facts import Facts
from stores.table.bodies import Compare
from stores.table.machine import TableMachine
from wire.identifiers import ENDPOINT_ID_SIZE, EndpointId, EntityId

REPEAT_TICKS: Final = 10
"""Ticks after which a question without an answer is asked again: as long as elections take."""

ANSWER_TICKS: Final = 50
"""Ticks that members have to tell their digest after the leader: five seconds, and the largest need
as long as it did."""

ASKS_MAX: Final = 1_024
"""Comparisons that one endpoint waits for at a time: one comparison answers all of them."""

UNKNOWN: Final = EndpointId(bytes(ENDPOINT_ID_SIZE))
"""Stands for the endpoint of a voter that was never heard."""

Asks = dict[EndpointId | None, set[int]]
"""The tickets of those that ask, by their endpoints; ``None`` is the leader's own handle."""


@dataclass(slots=True)
class _Round:
    number: int
    asks: Asks
    answers: dict[MemberId, Digest | None]
    own: Digest | None = None
    ticks_left: int = ANSWER_TICKS
    idle_ticks: int = 0

    @property
    def is_complete(self) -> bool:
        return self.own is not None and (self.ticks_left <= 0 or None not in self.answers.values())


class Comparing:
    """The comparisons at one replica: those that it asks for, and those that it makes as leader."""

    def __init__(self, standing: Facts, machine: TableMachine, carry_out: CarryOut) -> None:
        """Have none; the ``machine`` is what is compared."""
        self._standing = standing
        self._machine = machine
        self._carry_out = carry_out
        self._asked: dict[int, int] = {}
        self._waiting: Asks = {}
        self._round: _Round | None = None
        self._count = 0

    # -- where it is asked for -------------------------------------------------------------------

    def begin(self, token: int) -> None:
        """Have all compared; ``Verified`` tells what came of it."""
        self._asked[token] = REPEAT_TICKS
        self._ask(token)

    def end(self, token: int) -> None:
        """Ask no more."""
        self._asked.pop(token, None)

    def hear_verdict(self, verdict: Verdict) -> None:
        """Take in what a leader found."""
        if self._asked.pop(verdict.ticket, None) is not None:
            self._standing.tell(Verified(verdict.ticket, tuple(map(_read, verdict.rows))))

    def _ask(self, token: int) -> None:
        own = self._standing
        if own.leader == own.own:
            self.ask(None, token)
        elif own.leader is not None:
            own.send(own.leader, Verify(token))

    # -- at every member -------------------------------------------------------------------------

    def work(self) -> None:
        """Look at some more entries, and tell the leader at the end."""
        own = self._standing
        found = self._machine.compare()
        if found is None or own.leader is None:
            return
        number, digest = found
        if own.leader != own.own:
            own.send(own.leader, Looked(number, _numbers(digest)))
        elif self._round is not None and self._round.number == number:
            self._round.own = digest
            self._finish()

    # -- at the leader ---------------------------------------------------------------------------

    def ask(self, where: EndpointId | None, ticket: int) -> None:
        """Queue a wish for a comparison that begins after now; a repeated one changes nothing."""
        running = {} if self._round is None else self._round.asks
        tickets = self._waiting.setdefault(where, set())
        if ticket not in running.get(where, ()) and len(tickets) < ASKS_MAX:
            tickets.add(ticket)
        self._start()

    def hear(self, sender: EndpointId, member: MemberId, word: Verify | Looked | Verdict) -> None:
        """Take in what another endpoint says of a comparison."""
        match word:
            case Verify(ticket):
                self.ask(sender, ticket)
            case Looked():
                self._hear_digest(member, word)
            case Verdict():
                self.hear_verdict(word)

    def _hear_digest(self, member: MemberId, looked: Looked) -> None:
        found = self._round
        if found is not None and found.number == looked.number and member in found.answers:
            found.answers[member] = Digest(*looked.digest)
            self._finish()

    def tick(self) -> None:
        """Let a tick pass: what has no answer is asked again; members that are silent are left."""
        for token in list(self._asked):
            self._asked[token] -= 1
            if self._asked[token] <= 0:
                self._asked[token] = REPEAT_TICKS
                self._ask(token)
        if not self._standing.is_leader:
            self._round, self._waiting = None, {}
        elif (found := self._round) is not None and found.own is not None:
            found.ticks_left -= 1
            self._finish()
        elif found is not None:
            found.idle_ticks = 0 if self._machine.is_comparing else found.idle_ticks + 1
            if found.idle_ticks >= REPEAT_TICKS:  # The leader had no room for it, or lost it.
                self._round, self._waiting = None, {**self._waiting, **found.asks}
        self._start()

    def _start(self) -> None:
        own = self._standing
        asks = {where: tickets for where, tickets in self._waiting.items() if tickets}
        if self._round is not None or not asks or own.member is None or not own.is_leader:
            return
        self._count += 1
        # Of its term alone: what members still say of a comparison of another leader is no answer.
        number = own.epoch % (1 << 31) << 31 | self._count
        known = [
            status.member
            for status in own.members()
            if status.is_voter or status.silent_ticks <= DEFAULT_TIMING.timeout_ticks_max
        ]
        answers = dict.fromkeys(member for member in known if member != own.own)
        self._round, self._waiting = _Round(number, asks, answers), {}
        self._carry_out(own.member.propose((None, 0), Compare(number)))

    def _finish(self) -> None:
        """Tell all that asked, once the comparison is at its end."""
        own, found = self._standing, self._round
        if found is None or found.own is None or not found.is_complete:
            return
        self._round = None
        rows: list[Row] = [(own.entity.endpoint, _numbers(found.own))]
        for member, digest in found.answers.items():
            numbers = None if digest is None else _numbers(digest)
            rows.append((own.roster.endpoint_of(member) or UNKNOWN, numbers))
            if digest not in (None, found.own):
                own.send(member, Differs(found.number))
        for where, tickets in found.asks.items():
            for ticket in tickets:
                verdict = Verdict(ticket, tuple(rows))
                if where is None:
                    self.hear_verdict(verdict)
                else:
                    own.send_to(where, verdict)
        self._start()


def _numbers(digest: Digest) -> tuple[int, int, int]:
    return digest.revision, digest.entry_count, digest.total


def _read(row: Row) -> ReplicaDigest:
    where, numbers = row
    return ReplicaDigest(EntityId(where, 0), None if numbers is None else Digest(*numbers))
