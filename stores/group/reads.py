"""What a leader says without appending: it waits until a majority confirms that it still leads.

That is linearizable reads, and answers to requests that change nothing: a refusal tells of the
state as much as a read does. All that come while a round of keepalives and echoes is under way
share the next one. There are no leases: they rest on clocks, and a member whose leader's connection
was reset could not vote at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from stores.group.effects import Effect, Failed, Setback
from stores.group.limits import READS_MAX
from stores.group.positions import MemberId, Voters
from stores.group.quorum import agreed


@dataclass(slots=True)
class _Answer:
    round: int
    """The first round that began after the question."""
    index: int
    """The last entry that the answer rests on: it has to be committed."""
    effect: Effect
    caller: object | None
    """A caller of this endpoint; ``None`` for a follower's, which asks again by itself."""


class ReadRounds:
    """Answers that wait for a round, at the leader of one term."""

    def __init__(self, member: MemberId) -> None:
        """Start with round 0, which was never sent."""
        self._member = member
        self.round = 0
        """The latest round that was sent."""
        self.is_due = False
        """A round is to begin at the end of this step."""
        self._heard = 0
        self._asked: deque[_Answer] = deque()
        self._confirmed: deque[_Answer] = deque()

    def add(self, effect: Effect, caller: object | None, index: int) -> list[Effect]:
        """Have an answer wait for the next round, and for the commit of what it rests on."""
        if len(self._asked) + len(self._confirmed) >= READS_MAX:
            return self.refuse(caller, Setback.NO_ROOM)
        self._asked.append(_Answer(self.round + 1, index, effect, caller))
        return []

    def begins(self) -> bool:
        """Tell whether to begin a round: it is due, or something waits and none is under way.

        One that gets lost is under way until the next tick begins another.
        """
        is_wanted = bool(self._asked) and self._asked[-1].round > self.round
        return self.is_due or (is_wanted and self._heard >= self.round)

    def serve(self, voters: Voters, echoed: Callable[[MemberId], int], commit: int) -> list[Effect]:
        """Give those answers whose round a majority echoed: no later leader had committed."""
        effects: list[Effect] = []
        if not self._asked and not self._confirmed:
            return effects
        self._heard = agreed(voters, lambda voter: self._echoed(voter, echoed))
        while self._confirmed and self._confirmed[0].index <= commit:
            effects.append(self._confirmed.popleft().effect)
        while self._asked and self._asked[0].round <= self._heard:
            answer = self._asked.popleft()
            if answer.index > commit:
                self._confirmed.append(answer)
            else:
                effects.append(answer.effect)
        return effects

    def stop(self) -> list[Effect]:
        """Refuse all that wait: this member leads no more."""
        answers = [*self._confirmed, *self._asked]
        self._confirmed.clear()
        self._asked.clear()
        refusals = (self.refuse(answer.caller, Setback.NOT_LEADER) for answer in answers)
        return [effect for refusal in refusals for effect in refusal]

    def refuse(self, caller: object | None, setback: Setback) -> list[Effect]:
        """Tell a caller of this endpoint that nothing was done."""
        return [] if caller is None else [Failed(caller, setback, self._member)]

    def _echoed(self, voter: MemberId, echoed: Callable[[MemberId], int]) -> int:
        # The leader hears itself at once, so that a single voter needs no round.
        return self.round + 1 if voter == self._member else echoed(voter)
