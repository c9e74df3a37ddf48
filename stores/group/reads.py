"""Linearizable reads: a leader serves them once a majority confirms that it still leads.

All reads of a step share one round of keepalives and echoes. There are no leases: they rest on
clocks, and a member whose leader's connection was reset could not vote at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from stores.group.effects import Effect, Failed, Readable, Send, Setback
from stores.group.limits import READS_MAX
from stores.group.messages import ReadFrom
from stores.group.positions import MemberId, Voters
from stores.group.quorum import agreed


@dataclass(slots=True)
class _Read:
    round: int
    """The first round that began after the read."""
    index: int
    """What was committed when the read began."""
    caller: object
    reader: MemberId | None
    """The follower that asks, and names a ticket; ``None`` for a caller of this endpoint."""


class ReadRounds:
    """Reads that wait for a round, at the leader of one term."""

    def __init__(self, member: MemberId, term: int) -> None:
        """Start with round 0, which was never sent."""
        self._member = member
        self._term = term
        self.round = 0
        """The latest round that was sent."""
        self.is_wanted = False
        """True if a round is to begin at the end of this step."""
        self._reads: deque[_Read] = deque()

    def add(self, caller: object, reader: MemberId | None, commit: int) -> list[Effect]:
        """Have a read wait for the next round."""
        if len(self._reads) >= READS_MAX:
            return self.refuse(caller, reader, Setback.NO_ROOM)
        self._reads.append(_Read(self.round + 1, commit, caller, reader))
        self.is_wanted = True
        return []

    def serve(self, voters: Voters, echoed: Callable[[MemberId], int]) -> list[Effect]:
        """Let those reads begin whose round a majority echoed: no later leader had committed."""
        effects: list[Effect] = []
        heard = agreed(voters, lambda voter: self._heard(voter, echoed))
        while self._reads and self._reads[0].round <= heard:
            read = self._reads.popleft()
            if read.reader is None:
                effects.append(Readable(read.caller))
            elif isinstance(read.caller, int):
                effects.append(Send(read.reader, ReadFrom(self._term, read.caller, read.index)))
        return effects

    def stop(self) -> list[Effect]:
        """Refuse all that wait: this member leads no more."""
        reads, self._reads = self._reads, deque()
        refusals = (self.refuse(read.caller, read.reader, Setback.NOT_LEADER) for read in reads)
        return [effect for refusal in refusals for effect in refusal]

    def refuse(self, caller: object, reader: MemberId | None, setback: Setback) -> list[Effect]:
        """Tell a local caller; a follower's caller asks again by itself."""
        return [Failed(caller, setback, self._member)] if reader is None else []

    def _heard(self, voter: MemberId, echoed: Callable[[MemberId], int]) -> int:
        return self.round if voter == self._member else echoed(voter)
