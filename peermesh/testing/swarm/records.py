"""What all members of a swarm write down, and the first promise that was seen broken."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from peermesh.testing.swarm.contest import Contest
from peermesh.testing.swarm.ledgers import Broken, Messages, Store
from peermesh.testing.swarm.plan import Plan
from wire.errors import BackendFailure


class Records(logging.Handler):
    """One run's ledgers. It also reads the mesh's log: an error in it is a bug."""

    def __init__(self, plan: Plan) -> None:
        """Begin with empty pages."""
        super().__init__(logging.ERROR)
        distances = [plan.distances(node) for node in range(len(plan.members))]
        self.messages = Messages(
            is_ordered=plan.is_ordered,
            is_near=lambda author, reader: distances[author][reader] <= plan.ttl,
        )
        self.store = Store()
        self.contest = Contest()
        self.attempts = 0
        self.heir: int | None = None
        """Who was promoted. What the last master told nobody else is lost then, on purpose."""
        self.broken: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Note a broken promise where nobody would hear it raised."""
        self.broken = self.broken or error

    def guard(self, look: Callable[[], None]) -> None:
        """Look, and note what is raised."""
        try:
            look()
        except Broken as error:
            self.fail(error)

    def emit(self, record: logging.LogRecord) -> None:
        """Hear what an endpoint logs as an error; that a disk failed is none of its errors."""
        if record.args and any(isinstance(each, BackendFailure) for each in record.args):
            return
        broken = Broken(f"an endpoint complains: {record.getMessage()}")
        if record.exc_info:
            broken.__cause__ = record.exc_info[1]
        self.fail(broken)

    def next_attempt(self) -> int:
        """Number an attempt at the prize."""
        self.attempts += 1
        return self.attempts

    def succeed(self, heir: int) -> None:
        """A clone was promoted."""
        self.heir = heir
        self.store.is_volatile = True

    def start_master(self, table: Mapping[bytes, tuple[bytes, int]], revision: int) -> None:
        """A master has started."""
        if not self.store.is_volatile:
            self.guard(lambda: self.store.log.begin(table, revision))

    def change(self, key: bytes, value: bytes | None, revision: int | None) -> None:
        """The master shows a change."""
        if not self.store.is_volatile:
            self.guard(lambda: self.store.log.change(key, value, revision))
