"""What came of a run: the viewer's table beside the recount, and what happened on the way. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from peermesh.demo.plan import Victim
from peermesh.demo.tally import Cell, Difference, Summary, compare


@dataclass(frozen=True, slots=True)
class Outage:
    """Somebody was killed, and made up for."""

    victim: Victim
    seconds: float
    """From the kill to the end of the next batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of it."""

    recount: Counter[Cell]
    """What it has to be, of all replays."""
    table: Mapping[Cell, int]
    """What the viewer's replica has."""
    appended: int
    """Entries in the log's copy."""
    outages: tuple[Outage, ...]
    """Whom the demo killed, in this order."""
    late: int
    """Rows that the watermark dropped, as Spark tells."""
    seconds: float
    """From the start of the first process to the table."""

    @property
    def difference(self) -> Difference:
        """Compare, window by window and key by key."""
        return compare(self.recount, self.table)

    @property
    def is_exact(self) -> bool:
        """Tell whether the copies have exactly what the recount has."""
        return not self.difference and self.appended == self.recount.total()

    def summaries(self) -> tuple[Summary, Summary]:
        """Sum up the recount and the table."""
        return Summary.of(self.recount), Summary.of(self.table)
