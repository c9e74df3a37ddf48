"""The ledger of a group's writers: why a request is done once, whichever member leads.

A writer registers before its first request, and its number is the index of the entry that says so.
One that is not known was evicted: what became of its requests cannot be told, and none is done
again. The ledger is the same at every member, as all of it follows from applied entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from stores.actions import WriterId
from stores.group.machine import Answer, Append, Judgement, Staged
from stores.limits import OUTCOMES_MAX
from stores.outcomes import Outcome, outcomes_between
from stores.table.bodies import OutOfOrder, Register, Registered, Registration, UnknownWriter
from wire.errors import DecodeError

WRITERS_MAX: Final = 65_536
"""Writers that are known. Each command, proxy and task of Spark is one; the one that was idle
longest makes room, and its late requests are refused."""

LEDGER_OUTCOMES_MAX: Final = 1_000_000
"""Outcomes of all writers together, some 200 MB. Beyond, those of the writer that was idle longest
are forgotten: its requests are not done again, but their outcome is unknown."""


@dataclass(slots=True)
class LedgerRow:
    """A writer's record, as snapshots and checkpoints carry it; it is never changed."""

    writer: WriterId
    number: int
    last_request: int
    outcomes: tuple[Outcome, ...]
    encoded: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """Its bytes, once they are known: each checkpoint has the records of all writers."""


@dataclass(slots=True)
class _Record:
    number: int
    last_request: int
    outcomes: deque[Outcome] = field(default_factory=deque)
    """What the writer may not have heard yet, in order."""
    row: LedgerRow | None = None
    """The same for others, while it is so."""


class Writers:
    """Records of all writers, the one that was idle longest first, and what is staged of them."""

    def __init__(self, rows: Iterable[LedgerRow] = ()) -> None:
        """Start with the records of a snapshot, in the order that they have there."""
        self._records = {
            row.writer: _Record(row.number, row.last_request, deque(row.outcomes)) for row in rows
        }
        holding = ((writer, record) for writer, record in self._records.items() if record.outcomes)
        self._holding: dict[WriterId, None] = dict.fromkeys(writer for writer, _ in holding)
        self._outcome_count = sum(len(record.outcomes) for record in self._records.values())
        self._staged: dict[WriterId, deque[tuple[int, int]]] = {}
        """Last request and index of entries that are not applied, by writer."""
        self._registering: dict[WriterId, int] = {}
        """Indexes of registrations that are not applied."""
        self._evicting: set[WriterId] = set()
        self._idlest: dict[WriterId, None] | None = None
        """Writers in the order of their idleness, with what is staged; made at the first need."""

    def __len__(self) -> int:
        """Count the writers that are known."""
        return len(self._records)

    def has_done(self, writer: WriterId, request: int) -> bool:
        """Tell whether all requests of a writer up to this one are applied."""
        record = self._records.get(writer)
        return record is not None and record.last_request >= request

    def outcomes_of(self, writer: WriterId, number: int, first: int) -> Sequence[Outcome]:
        """Give what became of a registered writer's requests from ``first`` on that are applied."""
        record = self._records.get(writer)
        if record is None or record.number != number or record.last_request < first:
            return ()
        found = list[Outcome]()
        for outcome in reversed(record.outcomes):  # It knows of most of them already.
            if outcome.last_request < first:
                break
            found.append(outcome)
        return outcomes_between(found[::-1], first, record.last_request)

    def rows(self) -> Iterator[LedgerRow]:
        """Give all records, the writer that was idle longest first."""
        for writer, record in self._records.items():
            if record.row is None:
                outcomes = tuple(record.outcomes)
                record.row = LedgerRow(writer, record.number, record.last_request, outcomes)
            yield record.row

    # -- judgement -------------------------------------------------------------------------------

    def judge_registration(self, request: Register) -> Judgement:
        """Register a writer, unless that was done before."""
        writer = request.writer
        if (index := self._registering.get(writer)) is not None:
            return Staged(index)
        record = self._records.get(writer)
        if record is not None and writer not in self._evicting:
            return Answer(Registration(record.number, record.last_request))
        count = len(self._records) + len(self._registering) - len(self._evicting)
        evicted = self._idle_longest() if count >= WRITERS_MAX else None
        return Append(Registered(writer, request.last_request, evicted))

    def judge_request(
        self, writer: WriterId, number: int, asked: tuple[int, int], resolved: int
    ) -> Answer | Staged | None:
        """Give the answer to what is not the writer's next request; ``None`` if it is to be done.

        ``asked`` are the first and the last request; the writer has heard of those up to
        ``resolved``, which never come again, even if a lead by force has lost some. Raises
        ``DecodeError`` if only some of those asked were done: a request is sent again as it was.
        """
        record = self._records.get(writer)
        is_leaving = writer in self._evicting or writer in self._registering
        if record is None or record.number != number or is_leaving:
            return Answer(UnknownWriter(number))
        first, last = asked
        staged = self._staged.get(writer)
        last_request = staged[-1][0] if staged else record.last_request
        if first > last_request:
            is_next = first in (last_request + 1, resolved + 1)
            return None if is_next else Answer(OutOfOrder(last_request + 1))
        if last > last_request:
            raise DecodeError(f"requests {first} to {last} were numbered otherwise before")
        if last <= record.last_request:
            return Answer(tuple(outcomes_between(tuple(record.outcomes), first, last)))
        assert staged, record
        return Staged(next(index for until, index in staged if last <= until))

    def _idle_longest(self) -> WriterId:
        if self._idlest is None:
            known = (writer for writer in self._records if writer not in self._evicting)
            self._idlest = dict.fromkeys(known)
            for writer in (*self._staged, *self._registering):
                self._touch(writer)
        return next(iter(self._idlest))

    # -- staging ---------------------------------------------------------------------------------

    def stage_registration(self, index: int, body: Registered) -> None:
        """Judge by a registration that is not applied yet."""
        self._registering[body.writer] = index
        if body.evicted is not None:
            self._evicting.add(body.evicted)
            if self._idlest is not None:
                self._idlest.pop(body.evicted, None)
        self._touch(body.writer)

    def stage_request(self, index: int, writer: WriterId, last_request: int) -> None:
        """Judge by requests that are not applied yet."""
        self._staged.setdefault(writer, deque()).append((last_request, index))
        self._touch(writer)

    def undo(self) -> None:
        """Forget all that is staged."""
        self._staged.clear()
        self._registering.clear()
        self._evicting.clear()
        self._idlest = None

    def _touch(self, writer: WriterId) -> None:
        if self._idlest is not None:
            self._idlest.pop(writer, None)
            self._idlest[writer] = None

    # -- what is applied -------------------------------------------------------------------------

    def register(self, index: int, body: Registered) -> Registration:
        """Know a writer from now on, in the place of another one if there is no room."""
        if body.evicted is not None:
            self._evicting.discard(body.evicted)
            self._forget(body.evicted)
        self._registering.pop(body.writer, None)
        self._forget(body.writer)
        self._records[body.writer] = _Record(index, body.last_request)
        return Registration(index, body.last_request)

    def perform(
        self, writer: WriterId, last_request: int, resolved: int, outcomes: Sequence[Outcome]
    ) -> None:
        """Note what became of a writer's next requests; it has heard of those up to ``resolved``.

        ``last_request`` is the last of them. Outcomes that follow each other are joined already.
        """
        if (staged := self._staged.get(writer)) is not None:
            staged.popleft()
            if not staged:
                del self._staged[writer]
        elif self._idlest is not None:
            self._touch(writer)
        record = self._records.pop(writer)
        self._records[writer] = record
        record.last_request, record.row = last_request, None
        known = record.outcomes
        count = len(known)
        while known and known[0].last_request <= resolved:
            known.popleft()
        joined = known[-1].joined(outcomes[0]) if known and outcomes else None
        if joined is not None:
            known[-1] = joined
            outcomes = outcomes[1:]
        known.extend(outcomes)
        while len(known) > OUTCOMES_MAX:
            known.popleft()
        self._outcome_count += len(known) - count
        self._holding.pop(writer, None)
        if known:
            self._holding[writer] = None
        while self._outcome_count > LEDGER_OUTCOMES_MAX:
            self._forget_outcomes(next(iter(self._holding)))

    def _forget(self, writer: WriterId) -> None:
        self._forget_outcomes(writer)
        self._records.pop(writer, None)

    def _forget_outcomes(self, writer: WriterId) -> None:
        if writer in self._holding:
            del self._holding[writer]
            record = self._records[writer]
            known, record.row = record.outcomes, None
            self._outcome_count -= len(known)
            known.clear()
