"""The key that everybody fights for: who got it, as a history that has to be linearizable."""

from __future__ import annotations

from typing import Final

import trio

from endpoint.replicas.stores.store import Store
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

    def __init__(self) -> None:
        """Begin empty."""
        self.history = History()

    async def attempt(self, store: Store, author: Author, number: int) -> None:
        """Take the prize if nobody has it, as far as one knows here; else take it from him."""
        held = store.part.table.get(encode(PRIZE))
        if held is None:
            await self._seize(store, author, number)
        else:
            await self._swap(store, author, decode(held), number)

    async def _seize(self, store: Store, author: Author, number: int) -> None:
        operation = self._begin(author, number, "put_unique", PRIZE, number)
        try:
            is_first = await store.put_unique(PRIZE, number)
        except MeshError as error:
            self.history.lose(operation, at=trio.current_time(), reason=str(error))
        else:
            self.history.end(operation, is_first, at=trio.current_time())

    async def _swap(self, store: Store, author: Author, held: Value, number: int) -> None:
        operation = self._begin(author, number, "compare_and_set", PRIZE, held, number)
        swap = Batch().if_value(PRIZE, held).put(PRIZE, number).otherwise()
        try:
            receipt = await store.batch(swap)
            await receipt.applied()
        except MeshError as error:
            self.history.lose(operation, at=trio.current_time(), reason=str(error))
        else:
            self.history.end(operation, receipt.has_held(), at=trio.current_time())

    def _begin(self, author: Author, number: int, name: str, *arguments: Value) -> int:
        process = f"{author.node}.{author.life}/{number}"
        return self.history.begin(process, name, *arguments, at=trio.current_time())

    def check(self) -> None:
        """Raise ``Broken`` if no order of the attempts explains what they were told."""
        verdict = linearizable(self.history)
        if verdict.finding is Finding.BROKEN:
            raise Broken(f"two winners, or none: {verdict}")
