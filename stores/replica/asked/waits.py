"""What waits at a replica for a majority's word: linear reads, and idleness. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stores.effects import IdleReached
from stores.group.membership import MemberStatus
from stores.group.roles import DEFAULT_TIMING
from stores.replica.asked.errands import CarryOut
from stores.replica.standing import Standing

READ_TICKS: Final = 3
"""Ticks after which a read that has no answer is begun anew."""


@dataclass(slots=True)
class _Wait:
    last_request: int | None
    """Idleness is awaited: all up to this request are to have their outcome."""
    index: int | None = None
    """Set once they have: all members are to be level with this entry."""
    ticks: int = 0
    is_current: bool = False
    """True once this replica has all that was committed when the wait began."""


class Waits:
    """The tasks that wait at one replica, by their tokens."""

    def __init__(self, standing: Standing, carry_out: CarryOut) -> None:
        """Have none. Idle is a replica once what was asked has its outcome, and all are level.

        What is asked later is not waited for.
        """
        self._standing = standing
        self._carry_out = carry_out
        self._waits: dict[int, _Wait] = {}
        self._probed = 0
        """The commit index at which the others were asked what they have."""

    def begin(self, token: int, *, is_idle: bool) -> None:
        """Let a task wait, for a linear read or for idleness."""
        outbox = self._standing.outbox
        if is_idle:
            outbox.seal()
        self._waits[token] = _Wait(outbox.last_request if is_idle else None)
        self._read(token)

    def cancel(self, token: int) -> None:
        """Let it wait no more."""
        self._waits.pop(token, None)
        if self._standing.member is not None:
            self._standing.member.forget_read((None, -token))

    def tick(self) -> None:
        """Let a tick pass: reads that have no answer for long are begun anew."""
        for token, wait in list(self._waits.items()):
            wait.ticks += 1
            if not wait.is_current and wait.ticks % READ_TICKS == 0:
                self._read(token)

    def rewind(self) -> None:
        """Repeat each read that has no answer, after a change of the leader."""
        for token, wait in list(self._waits.items()):
            if not wait.is_current:
                self._read(token)

    def answered(self, token: int) -> None:
        """Learn that this replica has what a read asked for."""
        if token in self._waits:
            self._waits[token].is_current = True

    def tell_over(self) -> None:
        """Tell of the waits that are over now."""
        if not self._waits:
            return
        over = [token for token, wait in self._waits.items() if self._is_over(wait)]
        for token in over:
            del self._waits[token]
        self._standing.tell(*map(IdleReached, over))
        if any(wait.last_request is not None for wait in self._waits.values()):
            self._probe()

    def explain(self) -> str:
        """Say what is missing for idleness."""
        standing = self._standing
        if not standing.is_served:
            return standing.explain()
        if count := len(standing.outbox):
            return f"{count} requests have no answer of the group"
        if standing.outbox.held:
            return "what was done is not to be seen here yet"
        assert standing.member is not None, "it is served"
        commit = standing.member.state.commit
        lagging = [
            each.member.name for each in standing.members() if not self._is_level(each, commit)
        ]
        return f"not level: {', '.join(lagging)}" if lagging else ""

    def _read(self, token: int) -> None:
        if self._standing.member is not None:
            self._carry_out(self._standing.member.read((None, -token)))

    def _probe(self) -> None:
        """Ask those that follow once for what they have: they say so at ticks, if at all."""
        member = self._standing.member
        if member is not None and not len(self._standing.outbox):
            commit = member.state.commit
            if commit != self._probed:
                self._probed = commit
                self._carry_out(member.probe())

    def _is_over(self, wait: _Wait) -> bool:
        if wait.last_request is None or not wait.is_current:
            return wait.is_current
        standing = self._standing
        if wait.index is None:
            if not standing.outbox.is_resolved(wait.last_request):
                return False
            wait.index = 0 if standing.member is None else standing.member.state.commit
        return all(self._is_level(each, wait.index) for each in standing.members())

    def _is_level(self, status: MemberStatus, index: int) -> bool:
        is_silent = status.silent_ticks > DEFAULT_TIMING.timeout_ticks_max
        is_gone = self._standing.roster.endpoint_of(status.member) is None
        return is_silent or is_gone or status.match >= index
