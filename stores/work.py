"""Work that others ask for, cut into steps: the loop runs in between, and askers take turns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final

SLICE_COUNT: Final = 2_000
"""Entries handled in one step, at most: about a millisecond, after which the loop serves others."""

JOBS_MAX: Final = 64
"""Jobs of one asker that wait: more than a clone or a program with some readers has at a time, and
at most 8 MiB, as each keeps the question that it answers."""

Job = Iterator[None]
"""Each ``next`` is a step of at most ``SLICE_COUNT`` entries. It adds and discards no jobs."""


class WorkQueue:
    """Runs one step of one asker's oldest job at a time, each asker in its turn."""

    def __init__(self) -> None:
        """Start without work."""
        self._askers: dict[Hashable, dict[Hashable, Job]] = {}

    def __len__(self) -> int:
        """Count the askers that wait for something."""
        return len(self._askers)

    def add(self, asker: Hashable, name: Hashable, job: Job) -> bool:
        """Queue a job. One of that name replaces its predecessor; false if the asker has too many.

        A repeated question so takes the place of the one that it repeats.
        """
        jobs = self._askers.setdefault(asker, {})
        if len(jobs) >= JOBS_MAX and name not in jobs:
            return False
        jobs[name] = job
        return True

    def step(self) -> None:
        """Take one step; does nothing if there is no work."""
        if not self._askers:
            return
        asker, jobs = next(iter(self._askers.items()))
        name, job = next(iter(jobs.items()))
        is_over = True
        try:
            is_over = next(job, job) is job
        finally:
            if is_over:
                del jobs[name]
            del self._askers[asker]
            if jobs:
                self._askers[asker] = jobs

    def cancel(self, asker: Hashable, name: Hashable) -> None:
        """Forget one job, if it waits."""
        jobs = self._askers.get(asker, {})
        jobs.pop(name, None)
        if not jobs:
            self._askers.pop(asker, None)

    def discard(self, asker: Hashable) -> None:
        """Forget what an asker wanted."""
        self._askers.pop(asker, None)

    def clear(self) -> None:
        """Forget everything."""
        self._askers.clear()


class WithoutWork:
    """What a core has that never needs more than one step for anything."""

    has_work = False

    def work(self) -> list[Any]:
        """Give no effects."""
        return []
