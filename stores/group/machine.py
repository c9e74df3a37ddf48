"""What a group replicates: the protocol of a state machine.

A leader *judges* a request before anything is appended. What comes out is an absolute action: all
members apply it alike, without a clock. Between append and commit an action is *staged*: later
requests are judged against it, and nothing else shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stores.group.clock import Times
from stores.group.positions import Position


# Not frozen, like all that is built for every request: a frozen one takes three times as long.
@dataclass(slots=True)
class Append:
    """The request becomes this action; its answer comes when the action is applied."""

    body: object


@dataclass(frozen=True, slots=True)
class Answer:
    """The request changes nothing, and this is its answer: it was done before, or is refused.

    It may rest on what is staged: the leader holds it back until all of that is committed, and a
    majority has confirmed that it leads.
    """

    value: object


@dataclass(frozen=True, slots=True)
class Staged:
    """The request was repeated; the answer comes when the entry at ``index`` is applied."""

    index: int


Judgement = Append | Answer | Staged


@dataclass(slots=True)
class Done:
    """The request became this action, which is applied already: this is its answer."""

    body: object
    value: object


class Machine(Protocol):
    """A table, a log, or another state that is a function of the applied actions alone."""

    traffic: int
    """Bytes of all actions that were applied, each as ``size_of`` has it."""

    def size_of(self, body: object) -> int:
        """Give the bytes of an action that grow with what was asked, roughly."""

    def changes_of(self, body: object) -> int:
        """Count the keys, or runs of a log, that an action changes: so long it takes to apply."""

    def judge(self, request: object, now: Times) -> Judgement:
        """Decide what a request does to the state with all that is staged."""

    def due(self, now: Times) -> object | None:
        """Give an action that time alone brings about, as expiry does; ``None`` if there is none.

        What is staged counts as done. The leader asks once a tick.
        """

    def has_deadlines(self) -> bool:
        """Tell whether anything waits for a time: so long the group's clock is journalled."""

    def lead(self, now: Times, term: int) -> None:
        """Learn that this member leads from now on, with all of its journal staged.

        Sessions have their full time again: their holders could not renew them meanwhile.
        """

    def stage(self, position: Position, body: object) -> None:
        """Let later requests be judged as if an action were applied. Readers do not see it."""

    def undo(self) -> None:
        """Forget all that is staged and not applied: this member leads no more."""

    def apply(self, position: Position, body: object) -> object:
        """Apply a committed action, in order, and give its answer."""

    def perform(self, position: Position, request: object, now: Times) -> Done | Answer:
        """Judge a request and apply what it comes to: nothing is staged, and no other voter asked.

        The same as ``judge``, ``stage`` and ``apply`` in turn, which may be quicker in one.
        """
        judgement = self.judge(request, now)
        if isinstance(judgement, Answer):
            return judgement
        assert isinstance(judgement, Append), "nothing is staged"
        self.stage(position, judgement.body)
        return Done(judgement.body, self.apply(position, judgement.body))

    def freeze(self, after: int = 0) -> Sequence[object]:
        """Give the applied state in parts of at most 256 KiB, which later actions do not change.

        Whatever decides about later requests is in it: the records of writers, too. What the
        entries up to ``after`` brought may be left out: who installs it has applied them.
        """

    def prepare(self, number: int, part: object) -> object:
        """Take note of the next part of a snapshot, and give what ``install`` takes in its place.

        If that is another one, the part itself is written to the disk as it comes: it holds what
        the machine does not keep in memory.
        """

    def install(self, parts: Sequence[object]) -> None:
        """Replace the whole state; what the parts leave out stays."""

    def digest(self) -> bytes:
        """Give a hash of the applied state: equal for members that applied the same entries."""
