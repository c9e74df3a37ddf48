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
    is_idle: bool
    ticks: int = 0
    is_current: bool = False
    """True once this replica has all that was committed when the wait began."""


class Waits:
    """The tasks that wait at one replica, by their tokens."""

    def __init__(self, standing: Standing, carry_out: CarryOut) -> None:
        """Have none. Idleness is that nothing in the outbox waits, and all are level."""
        self._standing = standing
        self._carry_out = carry_out
        self._waits: dict[int, _Wait] = {}

    def begin(self, token: int, *, is_idle: bool) -> None:
        """Let a task wait, for a linear read or for idleness."""
        self._waits[token] = _Wait(is_idle)
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

    def explain(self) -> str:
        """Say what is missing for idleness."""
        standing = self._standing
        if not standing.is_served:
            return standing.explain()
        if count := len(standing.outbox):
            return f"{count} requests have no answer of the group"
        lagging = [str(each.member.name) for each in standing.members() if not self._is_level(each)]
        return f"not level: {', '.join(lagging)}" if lagging else ""

    def _read(self, token: int) -> None:
        if self._standing.member is not None:
            self._carry_out(self._standing.member.read((None, -token)))

    def _is_over(self, wait: _Wait) -> bool:
        return wait.is_current and (not wait.is_idle or self._is_idle())

    def _is_idle(self) -> bool:
        return not len(self._standing.outbox) and all(map(self._is_level, self._standing.members()))

    def _is_level(self, status: MemberStatus) -> bool:
        assert self._standing.member is not None
        is_gone = status.silent_ticks > DEFAULT_TIMING.timeout_ticks_max
        return is_gone or status.match >= self._standing.member.state.commit
