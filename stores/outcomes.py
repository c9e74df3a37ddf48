"""What became of requests: single outcomes, and the master's ledger of what it has told whom.

The ledger is why a command is applied once: it knows each writer's last request, across
reconnections and, persisted together with the mutations, across restarts of the master.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
from stores.limits import OUTCOMES_MAX, WRITERS_MAX
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
        return Outcome(first, last, Applied(revision, self.result.answer))

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
    match action:
        case EraseCommand(_, request, keys):
            return _applied_run(request, len(keys), revision)
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


@dataclass(slots=True)
class WriterRecord:
    """What the master knows of one writer."""

    writer: WriterId
    last_request: int = 0
    """Everything up to it was applied or refused; a repetition is skipped."""
    published_request: int = 0
    """The outcomes up to it were told; those after it wait for a commit."""
    answered_request: int = 0
    """Of a log: the outcomes up to it may be told to the writer; the others wait for replicas."""
    outcomes: deque[Outcome] = field(default_factory=deque)
    """What the writer may not have heard yet, in order."""

    def add(self, outcome: Outcome) -> None:
        """Take in the outcome of the next requests."""
        assert outcome.first_request > self.last_request, (outcome, self.last_request)
        self.last_request = outcome.last_request
        if self.outcomes and (joined := self.outcomes[-1].joined(outcome)) is not None:
            self.outcomes[-1] = joined
            return
        if len(self.outcomes) == OUTCOMES_MAX:
            self.outcomes.popleft()
        self.outcomes.append(outcome)

    def published(self, *, after: int, until: int | None = None) -> tuple[Outcome, ...]:
        """Give the outcomes that were told, of requests after one, up to another if given."""
        last = self.published_request if until is None else until
        return tuple(
            part for outcome in self.outcomes if (part := outcome.between(after, last)) is not None
        )

    def forget(self, request: int) -> None:
        """Forget the outcomes of requests up to this one."""
        while self.outcomes and self.outcomes[0].last_request <= request:
            self.outcomes.popleft()


@dataclass(frozen=True, slots=True)
class WriterRow:
    """A writer's record as a backend keeps it."""

    writer: WriterId
    last_request: int
    outcomes: tuple[Outcome, ...]
    number: int = 0
    """In a replica group: the index of the entry that registered the writer."""


class Ledger:
    """The records of all writers, least recently active first."""

    def __init__(self, rows: Iterable[WriterRow] = ()) -> None:
        """Start with what a backend kept, the least recently active first."""
        self._records = {
            row.writer: WriterRecord(
                row.writer,
                row.last_request,
                published_request=row.last_request,
                answered_request=row.last_request,
                outcomes=deque(row.outcomes),
            )
            for row in rows
        }
        self._touched: dict[WriterId, None] = {}
        self._forgotten: dict[WriterId, None] = {}

    def __len__(self) -> int:
        """Count the writers known."""
        return len(self._records)

    def find(self, writer: WriterId) -> WriterRecord | None:
        """Look a writer up."""
        return self._records.get(writer)

    def records(self) -> Iterable[WriterRecord]:
        """Give all records, the least recently active first."""
        return self._records.values()

    def forget(self, writer: WriterId) -> None:
        """Forget a writer, as the master did."""
        if self._records.pop(writer, None) is not None:
            self._touched.pop(writer, None)
            self._forgotten[writer] = None

    def touch(self, writer: WriterId) -> WriterRecord:
        """Give the record of a writer that is at work, which makes it the most recent."""
        record = self._records.pop(writer, None)
        if record is None:
            record = WriterRecord(writer)
        self._records[writer] = record
        self._touched[writer] = None
        while len(self._records) > WRITERS_MAX:
            oldest = next(iter(self._records))
            del self._records[oldest]
            self._touched.pop(oldest, None)
            self._forgotten[oldest] = None
        return record

    def rows(self) -> tuple[WriterRow, ...]:
        """Give all records."""
        return tuple(
            WriterRow(record.writer, record.last_request, tuple(record.outcomes))
            for record in self._records.values()
        )

    def take_touched(self) -> tuple[WriterRow, ...]:
        """Give the records that changed since the last call."""
        records = [self._records[writer] for writer in self._touched]
        self._touched.clear()
        return tuple(
            WriterRow(record.writer, record.last_request, tuple(record.outcomes))
            for record in records
        )

    def take_forgotten(self) -> tuple[WriterId, ...]:
        """Give the writers forgotten since the last call, so that the backend forgets them too."""
        forgotten = tuple(writer for writer in self._forgotten if writer not in self._records)
        self._forgotten.clear()
        return forgotten
