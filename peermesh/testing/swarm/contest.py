"""The key that everybody fights for: who got it, as a history that has to be linearizable."""

from __future__ import annotations

from typing import Final

import trio

from endpoint.replicas.stores.store import ReplicaStore, Store
from peermesh.testing.checkers import Finding, linearizable
from peermesh.testing.history import History
from peermesh.testing.swarm.ledgers import Author, Broken
from stores.batch import Batch
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import MeshError
from wire.values import Value

PRIZE: Final = "prize"
"""The key. Each value is written by one attempt only."""


class Contest:
    """What was tried and what came of it, at all members."""

    def __init__(self, *, is_renewed: bool = False) -> None:
        """Start a contest in which no attempt was made yet.

        With ``is_renewed`` another prize takes the place of one for which an answer was missing:
        such an attempt stays open to the end of its key, and many of them take long to check.
        """
        self.history = History()
        self._is_renewed = is_renewed
        self._attempts = 0
        self._lost = 0

    @property
    def _prize(self) -> str:
        return f"{PRIZE} {self._lost}" if self._is_renewed else PRIZE

    async def attempt(self, store: Store | ReplicaStore, author: Author) -> None:
        """Take the prize if nobody has it, as far as one knows here; else take it from him."""
        key = self._prize
        held = store.part.table.get(encode(key))
        if held is None:
            await self._seize(store, author, key)
        else:
            await self._swap(store, author, key, decode(held))

    async def look(self, store: ReplicaStore, author: Author) -> None:
        """Ask who has the prize, so that all that was acknowledged before counts."""
        key = self._prize
        operation = self._begin(author, self._number(), "get", key)
        try:
            found = await store.read("linear").get(key)
        except MeshError as error:
            self.history.fail(operation, at=trio.current_time(), reason=str(error))
        else:
            result = () if found is None else (found,)
            self.history.end(operation, *result, at=trio.current_time())

    async def _seize(self, store: Store | ReplicaStore, author: Author, key: str) -> None:
        number = self._number()
        operation = self._begin(author, number, "put_unique", key, number)
        try:
            is_first = await store.put_unique(key, number)
        except MeshError as error:
            self._lose(operation, error)
        else:
            self.history.end(operation, is_first, at=trio.current_time())

    async def _swap(
        self, store: Store | ReplicaStore, author: Author, key: str, held: Value
    ) -> None:
        number = self._number()
        operation = self._begin(author, number, "compare_and_set", key, held, number)
        swap = Batch().if_value(key, held).put(key, number).otherwise()
        try:
            receipt = await store.batch(swap)
            await receipt.applied()
        except MeshError as error:
            self._lose(operation, error)
        else:
            self.history.end(operation, receipt.has_held(), at=trio.current_time())

    def _number(self) -> int:
        self._attempts += 1
        return self._attempts

    def _begin(self, author: Author, number: int, name: str, *arguments: Value) -> int:
        process = f"{author.node}.{author.life}/{number}"
        return self.history.begin(process, name, *arguments, at=trio.current_time())

    def _lose(self, operation: int, error: MeshError) -> None:
        self._lost += 1
        self.history.lose(operation, at=trio.current_time(), reason=str(error))

    def check(self) -> None:
        """Raise ``Broken`` if no order of the attempts explains what they were told."""
        verdict = linearizable(self.history)
        if verdict.finding is Finding.BROKEN:
            raise Broken(f"two winners, or none: {verdict}")
