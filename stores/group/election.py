"""Who leads: roles and what moves them, as a table.

The table drives the machine, draws the diagram of the documents, and tells the tests what has to
happen. For each role and event it lists moves, in order; the first whose condition holds is made.
What has no move is ignored.

A member without a vote asks for votes in one case: a candidate takes it for a voter, and is behind.
It may be the only one left with an entry, such as that of its own removal, and cannot grant the
vote that the candidate lacks. Its own vote counts for nothing, and it leads until the voters have
all that it has.

Two rules stand before the table. A message of a later term brings that term, and with it the role
of a follower; but a ``PreVote`` promises nothing, and a ``Vote`` is ignored while a leader is
heard, unless that leader itself asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from stores.group.ballot import Ballot
from stores.group.effects import Effect, Send
from stores.group.journal import Journal
from stores.group.messages import (
    ElectionMessage,
    HigherTerm,
    Keepalive,
    PreVote,
    PreVoteGranted,
    TimeoutNow,
    Vote,
    VoteGranted,
)
from stores.group.positions import MemberId
from stores.group.quorum import has_majority
from stores.group.roles import Draw, Role, Timing, Trigger
from stores.group.terms import DRAWN_TERMS, begin_of, is_of_another_lead, stretch_of

Event = ElectionMessage | Keepalive | Trigger

_PROMISES_NOTHING: Final = (Trigger, PreVote, PreVoteGranted)


class Election:
    """One member's role, its leader, and its timers."""

    def __init__(self, ballot: Ballot, journal: Journal, timing: Timing, draw: Draw) -> None:
        """Start as a follower, or as a learner, that has heard no leader yet."""
        self._ballot = ballot
        self._journal = journal
        self._timing = timing
        self._draw = draw
        self.leader: MemberId | None = None
        self.role = Role.FOLLOWER if self.is_voter else Role.LEARNER
        self._votes: set[MemberId] = set()
        self._elapsed_ticks = 0
        self._unheard_ticks = 0
        self._backoff = 1
        self._backoff_ticks = 0
        self._limit_ticks = self._draw_limit()

    # -- what comes in ---------------------------------------------------------------------------

    def take(self, sender: MemberId, event: Event) -> list[Effect]:
        """Take a message or a trigger in; a trigger's sender is whom it is about."""
        if isinstance(event, PreVote | Vote) and self._protects_leader(event):
            return []
        if not isinstance(event, _PROMISES_NOTHING) and event.term > self._ballot.term:
            self._enter(event.term)
        for move in TABLE[self.role].get(kind_of(event), ()):
            if move.condition(self, sender, event):
                effects = move.action(self, sender, event)
                self.role = move.role or self.role
                if move.goes_on:
                    effects += self.take(self._ballot.member, Trigger.VOTERS_CHANGED)
                return effects + self._count()
        return []

    def _count(self) -> list[Effect]:
        """Go on if the votes are a majority; a single voter's own vote is one."""
        is_asking = self.role in (Role.ASKING, Role.CANDIDATE)
        if not is_asking or not has_majority(self._journal.voters.current, self._votes):
            return []
        return self.take(self._ballot.member, Trigger.MAJORITY_WON)

    def tick(self) -> list[Effect]:
        """Let one tick pass. The ticks of a pause count as one: what came meanwhile goes first."""
        self._backoff_ticks -= 1
        if self._backoff_ticks <= 0:
            self._backoff = 1
        if self.role is Role.LEADER:
            self._unheard_ticks = 0
            return []
        self._elapsed_ticks += 1
        self._unheard_ticks += 1
        if self._elapsed_ticks < self._limit_ticks:
            return []
        return self.take(self._ballot.member, Trigger.TIMEOUT)

    # -- what is so ------------------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        """Tell whether this member has a vote, as far as its own journal says."""
        return self._ballot.member in self._journal.voters.current

    @property
    def is_passed_over(self) -> bool:
        """Tell whether a lead was taken by force of which nothing has come here.

        Who stands then goes on with what a person gave up, among voters that are none any more, in
        terms that the forced leader and its voters use as well.
        """
        return is_of_another_lead(self._ballot.term, self._journal.end.term)

    def _protects_leader(self, event: PreVote | Vote) -> bool:
        """Tell whether a leader was heard lately, in ticks since then: timers may be younger."""
        if isinstance(event, Vote) and event.is_handed:
            return False
        return self.leader is not None and self._unheard_ticks < self._timing.timeout_ticks_min

    def _is_level(self, event: PreVote | Vote) -> bool:
        """Tell whether the asking journal has everything that this one may have seen committed."""
        return event.last >= self._journal.end

    def _draw_limit(self) -> int:
        timing = self._timing
        limits = timing.timeout_ticks_min, timing.timeout_ticks_max
        return self._draw(*(limit * self._backoff for limit in limits))

    def _restart_timer(self) -> None:
        self._elapsed_ticks, self._limit_ticks = 0, self._draw_limit()

    def _enter(self, term: int) -> None:
        """Enter a later term: the leader of the term before leads no more."""
        self._ballot.follow(term)
        if self.role is Role.LEADER:
            self._restart_timer()
        self.leader = None
        self.role = Role.FOLLOWER if self.is_voter else Role.LEARNER

    def _ask(self, message: PreVote | Vote) -> list[Effect]:
        """Ask all other voters."""
        self._restart_timer()
        self.leader = None
        self._votes = {self._ballot.member}
        voters = self._journal.voters.current
        return [Send(voter, message) for voter in voters if voter != self._ballot.member]

    def _stand(self, *, is_handed: bool) -> list[Effect]:
        """Enter a term of its own, vote for itself, and ask the others."""
        self._ballot.follow(self._ballot.term + 1)
        self._ballot.cast(self._ballot.member)
        return self._ask(Vote(self._ballot.term, self._journal.end, is_handed))

    # -- conditions of moves ---------------------------------------------------------------------

    def always(self, sender: MemberId, event: Event) -> bool:
        """In any case."""
        return True

    def can_stand(self, sender: MemberId, event: Event) -> bool:
        """It is a voter, and whole, and no lead was taken by force that it has nothing of."""
        return self.is_voter and self._ballot.is_whole and not self.is_passed_over

    def is_told_to_stand(self, sender: MemberId, event: Event) -> bool:
        """It can stand, and the leader of its own term says so."""
        assert isinstance(event, TimeoutNow)
        return event.term == self._ballot.term and self.can_stand(sender, event)

    def would_grant(self, sender: MemberId, event: Event) -> bool:
        """It is whole, the term is later than its own, the asking journal is level."""
        assert isinstance(event, PreVote)
        is_news = event.term > self._ballot.term
        return self._ballot.is_whole and is_news and self._is_level(event)

    def is_ahead(self, sender: MemberId, event: Event) -> bool:
        """It is whole, the term is later than its own, the asking journal is behind.

        No lead was taken by force that it has nothing of.
        """
        assert isinstance(event, PreVote)
        is_news = event.term > self._ballot.term
        can_ask = self._ballot.is_whole and not self.is_passed_over
        return can_ask and is_news and not self._is_level(event)

    def can_grant(self, sender: MemberId, event: Event) -> bool:
        """It is whole, has no other candidate in this term, the asking journal is level."""
        assert isinstance(event, Vote)
        ballot = self._ballot
        if not ballot.is_whole or event.term != ballot.term:
            return False
        return ballot.vote in (None, sender) and self._is_level(event)

    def is_no_news(self, sender: MemberId, event: Event) -> bool:
        """The term is its own, or an earlier one."""
        assert not isinstance(event, Trigger)
        return event.term <= self._ballot.term

    def is_over(self, sender: MemberId, event: Event) -> bool:
        """The term is an earlier one."""
        assert not isinstance(event, Trigger)
        return event.term < self._ballot.term

    def is_current(self, sender: MemberId, event: Event) -> bool:
        """The term is its own."""
        assert not isinstance(event, Trigger)
        return event.term == self._ballot.term

    def is_next(self, sender: MemberId, event: Event) -> bool:
        """The term is the one that it asked for."""
        assert not isinstance(event, Trigger)
        return event.term == self._ballot.term + 1

    def is_of_leader(self, sender: MemberId, event: Event) -> bool:
        """It is about the leader."""
        return sender == self.leader

    def has_vote(self, sender: MemberId, event: Event) -> bool:
        """It has a vote."""
        return self.is_voter

    def has_no_vote(self, sender: MemberId, event: Event) -> bool:
        """It has no vote."""
        return not self.is_voter

    # -- actions of moves ------------------------------------------------------------------------

    def ignore(self, sender: MemberId, event: Event) -> list[Effect]:
        """Nothing."""
        return []

    def tell_term(self, sender: MemberId, event: Event) -> list[Effect]:
        """Sends `HigherTerm`."""
        return [Send(sender, HigherTerm(self._ballot.term))]

    def would_vote(self, sender: MemberId, event: Event) -> list[Effect]:
        """Sends `PreVoteGranted`."""
        assert isinstance(event, PreVote)
        return [Send(sender, PreVoteGranted(event.term))]

    def vote(self, sender: MemberId, event: Event) -> list[Effect]:
        """Votes; sends `VoteGranted`."""
        self._ballot.cast(sender)
        self._elapsed_ticks = 0
        return [Send(sender, VoteGranted(self._ballot.term))]

    def count_vote(self, sender: MemberId, event: Event) -> list[Effect]:
        """Counts the vote."""
        self._votes.add(sender)
        return []

    def ask_around(self, sender: MemberId, event: Event) -> list[Effect]:
        """Sends `PreVote` to all voters."""
        return self._ask(PreVote(self._ballot.term + 1, self._journal.end))

    def stand(self, sender: MemberId, event: Event) -> list[Effect]:
        """Enters a new term; sends `Vote` to all voters."""
        return self._stand(is_handed=isinstance(event, TimeoutNow))

    def win(self, sender: MemberId, event: Event) -> list[Effect]:
        """Leads."""
        self.leader, self._unheard_ticks = self._ballot.member, 0
        return []

    def seize(self, sender: MemberId, event: Event) -> list[Effect]:
        """Enters a term far ahead; leads."""
        begin = begin_of(stretch_of(self._ballot.term) + 1)
        self._ballot.follow(begin + self._draw(0, DRAWN_TERMS - 1))
        self._ballot.cast(self._ballot.member)
        return self.win(sender, event)

    def hear_leader(self, sender: MemberId, event: Event) -> list[Effect]:
        """Follows the sender."""
        if self.leader != sender:
            self.leader = sender
            self._limit_ticks = self._draw_limit()  # a hint about the leader before is void
        self._elapsed_ticks = self._unheard_ticks = 0
        return []

    def wait_on(self, sender: MemberId, event: Event) -> list[Effect]:
        """Waits for another timeout."""
        self.leader = None
        self._restart_timer()
        return []

    def ask_soon(self, sender: MemberId, event: Event) -> list[Effect]:
        """Waits 0 to 2 ticks instead of a timeout."""
        self.leader = None
        self._limit_ticks = self._elapsed_ticks + 1 + self._draw(0, self._timing.hint_ticks_max)
        return []

    def step_down(self, sender: MemberId, event: Event) -> list[Effect]:
        """Leads no more; its timeouts double for a time."""
        self.leader = None
        self._backoff = min(2 * self._backoff, self._timing.backoff_max)
        self._backoff_ticks = self._timing.backoff_ticks
        self._restart_timer()
        return []


Condition = Callable[[Election, MemberId, Event], bool]
Action = Callable[[Election, MemberId, Event], list[Effect]]


class Move(NamedTuple):
    """One row of the table. The docstrings of condition and action are what the documents show."""

    condition: Condition
    action: Action
    role: Role | None = None
    """The role after it; ``None`` keeps the role."""
    goes_on: bool = False
    """True if the new role depends on whether the member has a vote."""


Moves = Mapping[type[ElectionMessage] | type[Keepalive] | Trigger, tuple[Move, ...]]

_VOTING: Final[Moves] = {
    PreVote: (
        Move(Election.would_grant, Election.would_vote),
        Move(Election.is_no_news, Election.tell_term),
    ),
    Vote: (
        Move(Election.can_grant, Election.vote),
        Move(Election.is_no_news, Election.tell_term),
    ),
}

_REFUSING: Final[Moves] = {Vote: (Move(Election.is_no_news, Election.tell_term),)}
"""Candidates and leaders have given their term's vote to themselves."""

_BACK: Final[Moves] = {
    Keepalive: (
        Move(Election.is_current, Election.hear_leader, Role.FOLLOWER, goes_on=True),
        Move(Election.is_over, Election.tell_term),
    ),
    TimeoutNow: (Move(Election.is_told_to_stand, Election.stand, Role.CANDIDATE),),
    Trigger.TIMEOUT: (
        Move(Election.can_stand, Election.ask_around, Role.ASKING),
        Move(Election.always, Election.wait_on, Role.FOLLOWER, goes_on=True),
    ),
    Trigger.VOTERS_CHANGED: (Move(Election.has_no_vote, Election.ignore, Role.LEARNER),),
    Trigger.FORCED: (Move(Election.always, Election.seize, Role.LEADER),),
}

TABLE: Final[Mapping[Role, Moves]] = {
    Role.LEARNER: {
        Vote: _VOTING[Vote],
        PreVote: (*_VOTING[PreVote], Move(Election.is_ahead, Election.ask_around, Role.ASKING)),
        Keepalive: (
            Move(Election.is_current, Election.hear_leader),
            Move(Election.is_over, Election.tell_term),
        ),
        Trigger.TIMEOUT: (Move(Election.always, Election.wait_on),),
        Trigger.LEADER_UNREACHABLE: (Move(Election.is_of_leader, Election.ask_soon),),
        Trigger.VOTERS_CHANGED: (Move(Election.has_vote, Election.ignore, Role.FOLLOWER),),
        Trigger.FORCED: (Move(Election.always, Election.seize, Role.LEADER),),
    },
    Role.FOLLOWER: {
        **_VOTING,
        **_BACK,
        Trigger.LEADER_UNREACHABLE: (Move(Election.is_of_leader, Election.ask_soon),),
    },
    Role.ASKING: {
        **_VOTING,
        **_BACK,
        PreVoteGranted: (Move(Election.is_next, Election.count_vote),),
        Trigger.MAJORITY_WON: (Move(Election.always, Election.stand, Role.CANDIDATE),),
    },
    Role.CANDIDATE: {
        PreVote: _VOTING[PreVote],
        **_REFUSING,
        **_BACK,
        VoteGranted: (Move(Election.is_current, Election.count_vote),),
        Trigger.MAJORITY_WON: (Move(Election.always, Election.win, Role.LEADER),),
    },
    Role.LEADER: {
        **_REFUSING,
        Keepalive: (Move(Election.is_over, Election.tell_term),),
        Trigger.MAJORITY_LOST: (
            Move(Election.always, Election.step_down, Role.FOLLOWER, goes_on=True),
        ),
        Trigger.FORCED: (Move(Election.always, Election.seize),),
    },
}
"""The only moves there are."""


def kind_of(event: Event) -> type[ElectionMessage | Keepalive] | Trigger:
    """Give the column of an event."""
    return event if isinstance(event, Trigger) else type(event)
