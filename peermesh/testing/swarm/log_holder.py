"""A log at one member: its handle, who appends to it, and who reads it from the beginning."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.logs.log import Log, ReplicaLog
from endpoint.replicas.logs.log_receipts import AppendReceipt
from peermesh.testing.swarm.ledgers import Author, Broken
from peermesh.testing.swarm.log_ledger import Append
from peermesh.testing.swarm.plan import Groups
from peermesh.testing.swarm.voter import name_of
from wire.errors import BackendFailure, MasterExists, ReplicaRegressed, StoreError

if TYPE_CHECKING:
    from peermesh.testing.swarm.records import Records

LOG: Final = "log"
PATH: Final = "log.db"
PARTITIONS: Final = 2

PAUSE_SECONDS: Final = 0.5
"""Until a handle is attached again, or a reader asks again, after what it got was an error."""


class LogHolder:
    """One life's handle of the log, attached anew whenever its disk has failed."""

    def __init__(
        self, groups: Groups, author: Author, records: Records, endpoint: Endpoint
    ) -> None:
        """Attach to ``endpoint``."""
        self.author = author
        self.log: Log | ReplicaLog | None = None
        self.is_quiet = False
        """True once no more appends are to come, so that the log becomes idle."""
        self._groups = groups
        self._ledger = records.log
        self._fail = records.fail
        self._endpoint = endpoint
        self._attached = 0

    def __repr__(self) -> str:
        """Name it."""
        return f"<LogHolder of node {self.author.node}.{self.author.life}>"

    @property
    def handle(self) -> tuple[Author, int]:
        """Name the handle: each has an order of its own, and a reader that begins anew."""
        return self.author, self._attached

    @property
    def has_log(self) -> bool:
        """Whether there is a log to read here."""
        return (
            self.log is not None
            and self.log.runner.error is None
            and self.log.source.known_count > 0
        )

    @property
    def is_leader(self) -> bool:
        """Whether the log is led here."""
        log = self.log
        return (
            log.is_leader() if isinstance(log, ReplicaLog) else log is not None and log.is_keeper()
        )

    async def hold(self, chance: Random, seconds: float) -> None:
        """Have the log, append an entry every ``seconds``, and read it all, until it is ended."""
        while True:
            self.log = log = await self._attach()
            self._attached += 1
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read, log)
                while log.runner.error is None:
                    await trio.sleep(seconds * chance.uniform(0.5, 1.5))
                    if not self.is_quiet:
                        await self._append(log)
                nursery.cancel_scope.cancel()
            await log.close()

    async def _attach(self) -> Log | ReplicaLog:
        while True:
            try:
                return await self._try_attach()
            except (MasterExists, BackendFailure):
                await trio.sleep(PAUSE_SECONDS)
            except ReplicaRegressed as error:
                raise Broken(f"the keeper came back with less than it had: {error}") from error

    async def _try_attach(self) -> Log | ReplicaLog:
        endpoint, groups = self._endpoint, self._groups
        if groups.is_log_elected:
            voters = [name_of(node) for node in groups.voters]
            return await endpoint.attach_log_replica(
                LOG, voters=voters, partitions=PARTITIONS, backend=Backend.SQLite, path=PATH
            )
        if self.author.node == groups.log_holders[0]:
            return await endpoint.attach_log(
                LOG, partitions=PARTITIONS, backend=Backend.SQLite, path=PATH
            )
        return await endpoint.attach_log_clone(LOG, Backend.SQLite, path=PATH)

    async def _append(self, log: Log | ReplicaLog) -> None:
        append = self._ledger.ask(self.handle)
        try:
            receipt = await log.append(append.number)
        except StoreError:
            append.is_unknown = True
        else:
            receipt.when_resolved(partial(self._resolved, append, receipt))

    def _resolved(self, append: Append, receipt: AppendReceipt) -> None:
        try:
            place = receipt.result(0)
        except StoreError:
            append.is_unknown = True
            return
        try:
            self._ledger.acknowledge(append, (place.partition, place.offset))
        except Broken as error:
            self._fail(error)

    async def _read(self, log: Log | ReplicaLog) -> None:
        consumer = log.consume()
        while True:
            try:
                entry = await consumer.get()
            except StoreError:
                await trio.sleep(PAUSE_SECONDS)
            else:
                self._ledger.read(self.handle, (entry.partition, entry.offset), entry.value)
