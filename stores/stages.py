"""What a master has applied and not told yet, and what waits for it to be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from stores.actions import Action, BatchResultCommand, PutCommand, WriterId
from stores.effects import Changed
from stores.outcomes import Outcome, WriterRecord

ACTION_SIZE = 100
"""Bytes that an action takes besides its keys and values, roughly."""


@dataclass(slots=True)
class Stage:
    """What is told together: at the next flush, or as soon as it is durable."""

    actions: list[tuple[Action, bytes | None]] = field(default_factory=list)
    """With their bytes, if they came with them."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Of the local handle's requests."""
    told: dict[WriterId, int] = field(default_factory=dict)
    """The last request of each other writer that is answered."""
    changes: list[Changed] = field(default_factory=list)
    size: int = 0
    """Bytes, roughly."""

    def add(
        self,
        action: Action,
        payload: bytes | None,
        size: int,
        outcome: Outcome | None,
        record: WriterRecord | None,
    ) -> None:
        """Take in an applied action, and what it means to its writer: a record, or the handle."""
        self.actions.append((action, payload))
        self.size += size
        if outcome is None:
            return
        if record is not None:
            record.add(outcome)
            self.told[record.writer] = outcome.last_request
        elif self.outcomes and (joined := self.outcomes[-1].joined(outcome)) is not None:
            self.outcomes[-1] = joined
        else:
            self.outcomes.append(outcome)


def size_of(action: Action) -> int:
    """Give the bytes of an action that has not been encoded, roughly."""
    size = ACTION_SIZE
    if isinstance(action, PutCommand):
        size += sum(map(len, action.pairs))
    elif isinstance(action, BatchResultCommand):
        for change in action.changes:
            size += len(change.key) + len(change.value or b"")
    return size


@dataclass(slots=True)
class IdleWaiter:
    """A caller that waits for the master to be idle."""

    token: int
    action_count: int
    """So many actions have to be told before."""
    sequence: int | None = None
    """The event that all clones have to acknowledge; known once they are."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """A clone that waits to hear how far the stream is."""

    number: int
    action_count: int
    """So many actions have to be told before."""
