"""What all members of a swarm write down, and the first promise that was seen broken."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from peermesh.testing.swarm.contest import Contest
from peermesh.testing.swarm.holder import Books
from peermesh.testing.swarm.ledgers import Broken, GroupStore, Messages, Store
from peermesh.testing.swarm.log_ledger import LogLedger
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
        self.led = Books(self.store, Contest(), self.fail)
        self.elected: Books | None = None
        """Of the store that a group keeps, if there is one."""
        if plan.groups is not None:
            self.elected = Books(GroupStore(), Contest(is_renewed=True), self.fail)
        self.log = LogLedger()
        self.heir: int | None = None
        """The member that was promoted last. What only the one before it knew is lost then."""
        self.heir_path = ""
        """The heir's file."""
        self.successions = 0
        """Promotions that were done."""
        self._heir_paths = 0
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

    def next_heir_path(self) -> str:
        """Name a file that no heir has had."""
        self._heir_paths += 1
        return f"heir {self._heir_paths}.db"

    def succeed(self, heir: int, path: str) -> None:
        """A clone was promoted, with this file."""
        self.heir, self.heir_path = heir, path
        self.successions += 1
        self.store.is_volatile = True

    @property
    def applied(self) -> int:
        """Count the mutations that were acknowledged."""
        of_group = 0 if self.elected is None else self.elected.ledger.applied
        return self.store.applied + of_group

    def start_master(self, table: Mapping[bytes, tuple[bytes, int]], revision: int) -> None:
        """A master has started."""
        if not self.store.is_volatile:
            self.guard(lambda: self.store.log.begin(table, revision))

    def change(self, key: bytes, value: bytes | None, revision: int | None) -> None:
        """The master shows a change."""
        if not self.store.is_volatile:
            self.guard(lambda: self.store.log.change(key, value, revision))
