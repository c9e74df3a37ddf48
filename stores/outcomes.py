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

    def goes_on(self, request: int, revision: int) -> bool:
        """Tell whether a request with this revision, and without an answer, follows these."""
        result = self.result
        return (
            request == self.last_request + 1
            and isinstance(result, Applied)
            and result.answer is None
            and revision == result.revision + request - self.first_request
        )

    def takes(self, request: int, result: Applied | Refused) -> bool:
        """Tell whether a request of which this became follows these, as ``goes_on`` does."""
        if not isinstance(result, Applied) or result.answer is not None:
            return False
        return self.goes_on(request, result.revision)

    def joined(self, later: Outcome) -> Outcome | None:
        """Give one outcome for both, if requests and revisions go on where this one ends."""
        if not self.takes(later.first_request, later.result):
            return None
        return Outcome(self.first_request, later.last_request, self.result)


def add_outcome(known: list[Outcome], action: Action, revision: int) -> None:
    """Add what an applied or answered action means to its writer, if it means anything.

    ``revision`` is the store's after the action. Master and clone both conclude it from what the
    master broadcasts, so that they cannot differ. The list is the caller's own: its last outcome
    grows where puts or erasures go on.
    """
    if isinstance(action, PutCommand):
        request, count = action.request, len(action.pairs) // 2
    elif isinstance(action, EraseCommand):
        request, count = action.request, len(action.keys)
    else:
        if (single := _single(action, revision)) is not None:
            add_result(known, *single)
        return
    if request is None:
        return
    first_revision = revision + 1 - count
    if known and known[-1].goes_on(request, first_revision):
        known[-1].last_request += count
    else:
        known.append(Outcome(request, request + count - 1, Applied(first_revision)))


def add_result(known: list[Outcome], request: int, result: Applied | Refused) -> None:
    """Add what became of one request; see ``add_outcome`` for the list."""
    if known and known[-1].takes(request, result):
        known[-1].last_request = request
    else:
        known.append(Outcome(request, request, result))


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


def _single(action: Action, revision: int) -> tuple[int, Applied | Refused] | None:
    """Tell what an action means that answers one request; ``None`` if it answers none."""
    match action:
        case ClearCommand(_, request):
            return request, Applied(revision)
        case BatchResultCommand(_, request, has_held, _):
            return request, Applied(revision, has_held)
        case PutUniqueResultCommand(_, request, is_inserted):
            return request, Applied(revision, is_inserted)
        case RefusalCommand(_, request, code, text):
            return request, Refused(code, text)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class WriterRow:
    """A writer's record as a backend keeps it."""

    writer: WriterId
    last_request: int
    outcomes: tuple[Outcome, ...]
    number: int = 0
    """In a replica group: the index of the entry that registered the writer."""
