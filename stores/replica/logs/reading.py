"""Reads entries of a log's runs that are in the file alone, and goes on once they are here. Pure.

The driver reads: it is asked for some runs at a time, and gives what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stores.log.kept_runs import AnyRun, KeptRun, RunPlace
from stores.replica.effects import ReadRuns, ReplicaEffect

Then = Callable[[list[KeptRun]], None]
"""What is done with the runs, in their order: those before the first that was let go meanwhile, or
cannot be read."""


class RunReader:
    """The reads that are under way."""

    def __init__(self, tell: Callable[[ReplicaEffect], None]) -> None:
        """Have the driver do what is told."""
        self._tell = tell
        self._token = 0
        self._waiting: dict[int, tuple[Sequence[AnyRun], Then]] = {}

    def read(self, runs: Sequence[AnyRun], then: Then) -> None:
        """Fill runs, at once if the entries of all of them are at hand."""
        places = tuple(run for run in runs if isinstance(run, RunPlace))
        if not places:
            then([run for run in runs if isinstance(run, KeptRun)])
            return
        self._token += 1
        self._waiting[self._token] = runs, then
        self._tell(ReadRuns(self._token, places))

    def were_read(self, token: int, found: Sequence[KeptRun]) -> None:
        """Take in what the driver found of what it was asked for."""
        runs, then = self._waiting.pop(token)
        then(filled(runs, found))


def filled(runs: Sequence[AnyRun], found: Sequence[KeptRun]) -> list[KeptRun]:
    """Put runs that were read in their places, up to the first one that is missing."""
    read = {(run.partition, run.first_offset): run for run in found}
    whole: list[KeptRun] = []
    for run in runs:
        here = run if isinstance(run, KeptRun) else read.get((run.partition, run.first_offset))
        if here is None:
            break
        whole.append(here)
    return whole
