"""What became of requests: outcomes of single ones, and of those that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stores.actions import (
    Action,
    BatchResultCommand,
    ClearCommand,
    EraseCommand,
    PutCommand,
    PutUniqueResultCommand,
    RefusalCommand,
    WriterId,
)
from wire.errors import ErrorCode


# Not frozen, like all that is built for every message: a frozen one takes three times as long.
@dataclass(slots=True)
class Applied:
    """The master applied it, and nothing takes that back (durably, where the backend is)."""

    revision: int
    """Of the first request; those after it in one outcome have the numbers that follow."""
    answer: bool | None = None
    """To a put_unique, whether it inserted: if not, nothing was applied, and the revision is the
    store's. To a batch, whether its guards held."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The master did not apply it; the store is as if it had never been asked."""

    code: ErrorCode
    text: str


FORGOTTEN: Final = Refused(
    ErrorCode.REQUEST_TIMEOUT,
    "the master does not remember its answer: read the key to see whether it was applied",
)


@dataclass(slots=True)
class Outcome:
    """What became of one request, or of several consecutive puts or erasures."""

    first_request: int
    last_request: int
    result: Applied | Refused

    def between(self, after: int, until: int) -> Outcome | None:
        """Give the part that is about requests after the one, up to the other."""
        if after < self.first_request and self.last_request <= until:
            return self
        first, last = max(self.first_request, after + 1), min(self.last_request, until)
        if first > last:
            return None
        if isinstance(self.result, Refused) or first == self.first_request:
            return Outcome(first, last, self.result)
        revision = self.result.revision + first - self.first_request
        return Outcome(first, last, Applied(revision))

    def joined(self, later: Outcome) -> Outcome | None:
        """Give one outcome for both, if requests and revisions go on where this one ends."""
        mine, other = self.result, later.result
        if not isinstance(mine, Applied) or not isinstance(other, Applied):
            return None
        if mine.answer is not None or other.answer is not None:
            return None
        count = self.last_request + 1 - self.first_request
        if later.first_request != self.last_request + 1 or other.revision != mine.revision + count:
            return None
        return Outcome(self.first_request, later.last_request, mine)


def outcome_of(action: Action, revision: int) -> Outcome | None:
    """Tell what an applied or answered action means to its writer; ``None`` if nothing.

    ``revision`` is the store's after the action. Master and clone both conclude it from what the
    master broadcasts, so that they cannot differ.
    """
    if isinstance(action, PutCommand):
        if action.request is None:
            return None
        return _applied_run(action.request, len(action.pairs) // 2, revision)
    if isinstance(action, EraseCommand):
        return _applied_run(action.request, len(action.keys), revision)
    match action:
        case ClearCommand(_, request):
            return _applied_run(request, 1, revision)
        case BatchResultCommand(_, request, has_held, _):
            return Outcome(request, request, Applied(revision, has_held))
        case PutUniqueResultCommand(_, request, is_inserted):
            return Outcome(request, request, Applied(revision, is_inserted))
        case RefusalCommand(_, request, code, text):
            return Outcome(request, request, Refused(code, text))
        case _:
            return None


def add_outcome(known: list[Outcome], action: Action, revision: int) -> None:
    """Add what ``outcome_of`` tells of an action to the caller's own list, whose last one may grow.

    So nothing is built for a put or an erasure that goes on where the one before it ended.
    """
    if isinstance(action, PutCommand):
        request, count = action.request, len(action.pairs) // 2
    elif isinstance(action, EraseCommand):
        request, count = action.request, len(action.keys)
    else:
        outcome = outcome_of(action, revision)
        joined = known[-1].joined(outcome) if known and outcome is not None else None
        if joined is not None:
            known[-1] = joined
        elif outcome is not None:
            known.append(outcome)
        return
    if request is None:
        return
    first_revision = revision + 1 - count
    last = known[-1] if known else None
    if (
        last is not None
        and request == last.last_request + 1
        and isinstance(result := last.result, Applied)
        and result.answer is None
        and first_revision == result.revision + request - last.first_request
    ):
        last.last_request += count
        return
    known.append(Outcome(request, request + count - 1, Applied(first_revision)))


def outcomes_between(known: Sequence[Outcome], first: int, last: int) -> list[Outcome]:
    """Give one outcome after the other for these requests; what is not known is refused so."""
    found: list[Outcome] = []
    for outcome in known:
        if (part := outcome.between(first - 1, last)) is not None:
            if part.first_request > first:
                found.append(Outcome(first, part.first_request - 1, FORGOTTEN))
            found.append(part)
            first = part.last_request + 1
    if first <= last:
        found.append(Outcome(first, last, FORGOTTEN))
    return found


def _applied_run(request: int, count: int, revision: int) -> Outcome:
    return Outcome(request, request + count - 1, Applied(revision + 1 - count))


@dataclass(frozen=True, slots=True)
class WriterRow:
    """A writer's record as a backend keeps it."""

    writer: WriterId
    last_request: int
    outcomes: tuple[Outcome, ...]
    number: int = 0
    """In a replica group: the index of the entry that registered the writer."""
