"""Who has a store at one member: its handle, what is asked of it, and what it shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import ClassVar, Final, Generic, TypeAlias, TypeVar

import trio

from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.store import ReplicaStore, Store
from peermesh.testing.swarm.contest import Contest
from peermesh.testing.swarm.ledgers import (
    HALVES,
    JOURNAL,
    TOTAL,
    Asked,
    Author,
    Broken,
    Store as Ledger,
    brief_key,
    is_brief,
    own_key,
)
from stores.batch import Batch
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import InvalidData, NoSuchKey, StoreError, TypeClash
from wire.values import Value

KINDS: Final = (
    *("put", "put", "increment", "push", "slot", "slot", "erase"),
    *("contest", "contest", "batch", "brief"),
)
SLOTS: Final = 3
"""Keys that everybody writes and erases."""

BRIEF_SECONDS: Final = 1.5
"""How long a key stays that expires."""

REFUSALS: Final = (TypeClash, NoSuchKey, InvalidData)
"""Errors that no mutation of a swarm deserves."""


@dataclass(frozen=True, slots=True)
class Books:
    """Where everybody writes down what was asked of one store, and what came of it."""

    ledger: Ledger
    contest: Contest
    fail: Callable[[Exception], None]
    """Told of a broken promise where raising it would end something else."""


HandleT = TypeVar("HandleT", bound=Store | ReplicaStore)


class Holder(ABC, Generic[HandleT]):
    """One life's handle of a store, attached anew whenever its disk has failed."""

    kinds: ClassVar[tuple[str, ...]] = KINDS
    """What is asked for, as often as it is named."""

    def __init__(self, author: Author, books: Books) -> None:
        """Take the life that has it; ``hold`` starts it."""
        self.author = author
        self.books = books
        self.store: HandleT | None = None
        self.is_quiet = False
        """True once no more mutations are to come, so that the store becomes idle."""

    def __repr__(self) -> str:
        """Name it."""
        return f"<{type(self).__name__} of node {self.author.node}.{self.author.life}>"

    @abstractmethod
    async def _attach(self) -> HandleT:
        """Attach the store."""

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether the store is led here."""

    @property
    def group(self) -> bytes | None:
        """The id of its store's group, if it knows that."""
        return None if self.store is None else self.store.part.core.group

    @property
    def is_in_touch(self) -> bool:
        """Whether the store here leads, or knows a leader that serves."""
        return self.store is not None and (self.is_leader or self.store.runner.is_in_touch)

    async def hold(self, chance: Random, seconds: float) -> None:
        """Have the store, and ask for a mutation every ``seconds``, until it is ended."""
        async with trio.open_nursery() as nursery:
            self.store = await self._attach()
            while True:
                await trio.sleep(seconds * chance.uniform(0.5, 1.5))
                store = self.store
                if store.runner.error is not None:
                    await store.close()
                    self.store = await self._attach()
                    continue
                if not self.is_quiet:
                    await self._write(store, chance, nursery)

    async def _write(self, store: HandleT, chance: Random, nursery: trio.Nursery) -> None:
        kind = chance.choice(self.kinds)
        if kind == "contest":
            nursery.start_soon(self.books.contest.attempt, store, self.author)
            return
        if kind == "look":
            assert isinstance(store, ReplicaStore), store
            nursery.start_soon(self.books.contest.look, store, self.author)
            return
        asked = self.books.ledger.ask(self.author, kind)
        slot = f"slot {chance.randrange(SLOTS)}"
        requests: dict[str, Callable[[], object]] = {
            "put": partial(store.put, own_key(asked), asked.number),
            "increment": partial(store.increment, TOTAL),
            "push": partial(store.push, JOURNAL, asked.number),
            "slot": partial(store.put, slot, asked.number),
            "erase": partial(store.erase, slot),
            "batch": partial(store.batch, _pair(asked.number)),
            "brief": partial(store.put, brief_key(asked), asked.number, BRIEF_SECONDS),
        }
        try:
            receipt = await requests[kind]()  # type: ignore[misc]  # each of them is a coroutine function
        except StoreError:
            asked.is_unknown = True
            return
        receipt.wake_when_resolved(partial(self._resolved, asked, receipt))

    def _resolved(self, asked: Asked, receipt: Receipt) -> None:
        try:
            receipt.outcome()
        except REFUSALS as error:
            self.books.fail(Broken(f"refused for no reason: {asked}: {error!r}"))
        except StoreError:
            asked.is_unknown = True
        else:
            asked.is_applied = True

    # What it shows.

    def table(self) -> tuple[int, dict[bytes, bytes]] | None:
        """Give what the store shows now, with its revision; ``None`` if it shows nothing yet."""
        store = self.store
        if store is None or store.runner.error is not None or not store.runner.is_synced:
            return None
        table = store.part.table
        found = {key: table.get(key) for key in table.keys()}  # noqa: SIM118 - it is no dict
        entries = {key: value for key, value in found.items() if value is not None}
        return store.part.core.revision, entries

    def overdue_key(self, seconds: float) -> Value:
        """Give a key that has to be gone after so many seconds at the latest; ``None`` if none is.

        Keys that were set while the master's clock was wrong may stay much longer: with a finite
        time they are passed over.
        """
        store = self.store
        if store is None or store.runner.error is not None:
            return None
        table, deadline = store.part.table, store.runner.now_ns() + seconds * 1e9
        deadline -= store.part.core.epoch_ns
        for key in filter(is_brief, map(decode, table.keys())):
            entry = table.entry(encode(key))
            if entry is not None and (entry.expires_at_ns or 0) <= deadline:
                return key
        return None


AnyHolder: TypeAlias = Holder[Store] | Holder[ReplicaStore]
"""That of either store."""


def _pair(number: int) -> Batch:
    """Set both halves, or neither."""
    left, right = HALVES
    return Batch().put(left, number).put(right, number)
