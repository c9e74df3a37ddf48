"""Takes what a handle has asked for to the leader, and gives up what no majority answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stores.effects import Resolve
from stores.group.member import Member
from stores.group.words import Ask
from stores.outcomes import Outcome
from stores.replica.asked.errands import CarryOut
from stores.replica.beginning import Manner
from stores.replica.facts import Facts
from stores.replica.roster import SILENT_TICKS
from wire.errors import ErrorCode

HELD_TICKS: Final = 10
"""Ticks that an answer waits at most until this replica shows what it is about: a second. A leader
that is lost, or one that leads by force, may never bring that here."""


class Desk:
    """The way of one handle's requests."""

    def __init__(self, standing: Facts, carry_out: CarryOut, manner: Manner) -> None:
        """Take what is in the outbox."""
        self._manner = manner
        self._standing = standing
        self._carry_out = carry_out
        self._leaderless_ticks = self._held_ticks = 0
        self.is_joining = False
        """True if callers were answered while others waited: they ask anew in this turn, and all of
        it leaves at its end."""
        self._told: Outcome | None = None
        """The last outcome that was told before readers here saw it."""
        self._looked_up = 0
        """The commit index at which the own ledger was asked for answers."""

    @property
    def shows_all(self) -> bool:
        """True if readers here see what came of all requests whose outcome was told."""
        return self._told is None or self._standing.shows(self._told)

    def tick(self) -> None:
        """Let a tick pass: what waits too long fails, and says what is in the way."""
        standing = self._standing
        outbox = standing.outbox
        self._leaderless_ticks = 0 if standing.is_served else self._leaderless_ticks + 1
        outbox.tick()
        self._held_ticks = self._held_ticks + 1 if outbox.held else 0
        if self._held_ticks > HELD_TICKS:
            self.release()
        if len(outbox) and standing.bar.text is not None and not standing.is_served:
            self.give_up(ErrorCode.NOT_AUTHORIZED, standing.bar.text)
        is_hopeless = (
            not self._manner.is_single
            and self._leaderless_ticks >= SILENT_TICKS
            and not standing.hears_majority  # They may only take longer.
        )
        is_late = outbox.silent_ticks >= self._manner.patience_ticks
        is_alone = standing.is_leader and standing.voters == (standing.own,)
        is_overdue = is_late and not is_alone  # That waits for nothing but its own disk.
        if len(outbox) and (is_hopeless or is_overdue):
            self._give_up_waiting()
        self.pump()

    def _give_up_waiting(self) -> None:
        why = self._standing.explain()
        if self._manner.is_single:
            seconds = self._manner.patience_ticks / 10
            words = self._standing.outbox.words
            text = f"no {words.leader} answered for {seconds:g} s ({why}), ask again"
            self.give_up(words.unreachable, text[:150])
        else:
            self.give_up(ErrorCode.NO_QUORUM, f"no majority answers: {why}"[:165])

    def answered(self, ticket: int, answer: object) -> None:
        """Take in an answer to what went out under a ticket."""
        self._resolve(self._standing.outbox.answered(ticket, answer))

    def look_up(self) -> None:
        """Take in, once after each commit, what entries brought: no letter says it beside them."""
        standing, member = self._standing, self._standing.member
        if member is None or member.leading is not None or member.state.commit == self._looked_up:
            return
        self._looked_up = member.state.commit
        if outcomes := standing.outbox.look_up(standing.outcomes_of):
            if standing.outbox.held:
                self.release()
            self._resolve(outcomes)
            self.pump()

    def give_up(self, code: ErrorCode, text: str) -> None:
        """Refuse all that has no answer, and tell all: what readers here do not see may never come.

        Some may have an answer behind one that has none.
        """
        outbox = self._standing.outbox
        outbox.held.extend(outbox.give_up(code, text))
        self.release()

    def reveal(self) -> None:
        """Tell what came of requests, once readers here see it: answers may overtake entries."""
        standing, held = self._standing, self._standing.outbox.held
        while held and standing.shows(held[0]):
            self._held_ticks = 0
            standing.tell(Resolve(held.popleft()))

    def release(self) -> None:
        """Tell all that came of requests, seen here or not."""
        held = self._standing.outbox.held
        self._told = held[-1] if held else self._told
        self._standing.tell(*map(Resolve, held))
        held.clear()

    def end_turn(self) -> None:
        """Propose what was asked in this turn."""
        self.is_joining = False
        self.pump()

    def pump(self) -> None:
        """Propose what was asked here, if anything was."""
        if self._standing.outbox.has_unsent:
            self.propose()

    def propose(self) -> None:
        """Propose what was asked here, to the leader."""
        standing, outbox = self._standing, self._standing.outbox
        member, leader = standing.member, standing.leader
        if member is None or leader is None:
            outbox.seal()
        elif leader != standing.own:
            outbox.pump(
                lambda ticket, request: standing.send(leader, Ask(ticket, request)), is_local=False
            )
        elif standing.is_leader:
            self._decide(member)

    def _decide(self, member: Member) -> None:
        """Have done what can be done at once, and judged what has room under way."""
        outbox = self._standing.outbox
        while outbox.has_unsent:
            if outcomes := outbox.perform(member.decide):
                self._resolve(outcomes)
                if effects := member.settle():
                    self._carry_out(effects)
            elif not self._have_judged(member):
                return

    def _have_judged(self, member: Member) -> bool:
        """Have what has room under way judged; tells whether there was anything."""
        asked: list[tuple[object, object]] = []
        self._standing.outbox.pump(
            lambda ticket, each: asked.append(((None, ticket), each)), is_local=True
        )
        if asked:
            self._carry_out(member.propose_all(asked))
        return bool(asked)

    def _resolve(self, outcomes: Sequence[Outcome]) -> None:
        standing = self._standing
        if outcomes and standing.is_leader and standing.outbox.has_unsent:
            self.is_joining = True
        standing.outbox.held.extend(outcomes)
        self.reveal()
