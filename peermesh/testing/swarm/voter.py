"""A replica of the store whose leader three voters elect, in one life of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from endpoint import Endpoint
from endpoint.replicas.attaching import Backend
from endpoint.replicas.stores.store import ReplicaStore
from peermesh.testing.swarm.holder import KINDS, Holder
from peermesh.testing.swarm.ledgers import Author, Broken, GroupStore
from peermesh.testing.swarm.plan import Groups
from stores.effects import Changed
from stores.group.positions import MemberId
from wire.errors import BackendFailure

if TYPE_CHECKING:
    from peermesh.testing.swarm.records import Records

GROUP: Final = "elected"
PATH: Final = "elected.db"

DISK_PAUSE_SECONDS: Final = 0.5
"""Until a replica whose disk failed is started again."""


def name_of(node: int) -> str:
    """Name the endpoint of a member, as the group's voters are declared."""
    return f"n{node}"


class Voter(Holder[ReplicaStore]):
    """One replica of the group."""

    kinds: ClassVar[tuple[str, ...]] = (*KINDS, "look", "look")

    def __init__(
        self, groups: Groups, author: Author, records: Records, endpoint: Endpoint
    ) -> None:
        """Attach to ``endpoint``."""
        assert records.elected is not None
        super().__init__(author, records.elected)
        self._groups = groups
        self._endpoint = endpoint
        self._attached = 0

    @property
    def replica(self) -> tuple[Author, int]:
        """Name the handle: each one shows no earlier state than before."""
        return self.author, self._attached

    @property
    def is_leader(self) -> bool:
        """Whether it leads the group."""
        return self.store is not None and self.store.is_leader()

    @property
    def own(self) -> MemberId | None:
        """Give the member that it is."""
        return None if self.store is None else self.store.part.core.own

    @property
    def has_vote(self) -> bool:
        """Whether it is among the voters, as far as it knows: one in memory starts without."""
        return self.store is not None and self.store.part.core.own in self.store.part.core.voters

    async def _attach(self) -> ReplicaStore:
        is_durable = self.author.node in self._groups.on_disk
        backend = Backend.SQLite if is_durable else Backend.Memory
        options: dict[str, Any] = {"path": PATH} if is_durable else {}
        voters = [name_of(node) for node in self._groups.voters]
        while True:
            try:
                store = await self._endpoint.attach_replica(
                    GROUP, voters=voters, backend=backend, **options
                )
                break
            except BackendFailure:
                await trio.sleep(DISK_PAUSE_SECONDS)
        self._attached += 1
        store.part.observe(self)
        return store

    def push(self, change: Changed) -> None:
        """Hear of one change."""
        ledger = self.books.ledger
        assert isinstance(ledger, GroupStore), ledger
        try:
            if change.after is not None:
                ledger.change(change.key, change.after.value, change.after.revision)
        except Broken as error:  # The store would end with it, and not the run.
            self.books.fail(error)

    def end(self) -> None:
        """Hear that no more changes come."""
