"""What handles of stores have in common: mutations."""

from __future__ import annotations

from typing import Final, Protocol

import trio

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.handle import ReplicaHandle
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.runner import YIELD_COUNT, Runner
from stores import mutations
from stores.batch import Batch, compare_and_erase, compare_and_set, together
from stores.mutations import Expiry, Mutation, span_ns
from stores.requests import Requests
from wire.encoding import encode
from wire.errors import RequestTimeout
from wire.values import Value

PUT_UNIQUE_SECONDS: Final = 10.0
"""How long ``put_unique`` waits for its answer: Broker's request timeout."""


class _Core(Protocol):
    @property
    def requests(self) -> Requests:
        """What the handle asked for."""


class _Part(Protocol):
    @property
    def runner(self) -> Runner:
        """What drives it."""

    @property
    def core(self) -> _Core:
        """What decides."""


class StoreHandle(ReplicaHandle):
    """Changes a store through its runner: a master's, a clone's or a proxy's."""

    def __init__(self, part: _Part) -> None:
        """Ask through ``part``."""
        super().__init__(part.runner)
        self.requests = part.core.requests

    # Mutations.

    async def put(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Set a key. Without an expiry it stays for ever, whatever it had before."""
        expiry_ns = None if expiry is None else span_ns(expiry)
        encoded, payload = encode(key), encode(value)
        # ``_ask``, written out: nothing is asked as often as this.
        if self._since_yield >= YIELD_COUNT:
            await self.breathe()
        if self.runner.error is not None:
            raise self.runner.error
        self._since_yield += 1
        return self.runner.ask(self.requests.put(encoded, payload, expiry_ns))

    async def put_unique(
        self,
        key: Value,
        value: Value,
        expiry: Expiry = None,
        *,
        timeout: Seconds = PUT_UNIQUE_SECONDS,
    ) -> bool:
        """Set a key if it is missing; tell whether it was. Of all callers that try, one succeeds.

        Raises ``RequestTimeout`` if the master does not answer within ``timeout`` seconds. Then, or
        cancelled while it waits for the answer, the key may be set.
        """
        mutation = mutations.put_unique(key, value, expiry)
        limit = arguments.seconds("timeout", timeout)
        await trio.lowlevel.checkpoint_if_cancelled()
        receipt = await self._ask(mutation)
        with trio.move_on_after(limit):
            await receipt.applied()
        if not receipt.is_resolved:
            raise RequestTimeout(f"{self.runner.what}: no answer within {limit:g} s; ask again")
        return receipt.is_inserted()

    async def erase(self, key: Value) -> Receipt:
        """Remove a key, present or not."""
        return await self._ask(mutations.erase(key))

    async def clear(self) -> Receipt:
        """Remove everything."""
        return await self._ask(mutations.clear())

    async def increment(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Add to a number or an instant; a missing key begins at zero."""
        return await self._ask(mutations.increment(key, amount, expiry))

    async def decrement(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Take away from a number or an instant; the key has to be there."""
        return await self._ask(mutations.decrement(key, amount, expiry))

    async def append(self, key: Value, text: Value, expiry: Expiry = None) -> Receipt:
        """Append to a string; a missing key begins empty."""
        return await self._ask(mutations.append(key, text, expiry))

    async def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: Expiry = None
    ) -> Receipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        return await self._ask(mutations.insert_into(key, index, *value, expiry=expiry))

    async def remove_from(self, key: Value, index: Value, expiry: Expiry = None) -> Receipt:
        """Remove an element from a set, or an entry from a table."""
        return await self._ask(mutations.remove_from(key, index, expiry))

    async def push(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Append an element to a vector; a missing key begins empty."""
        return await self._ask(mutations.push(key, value, expiry))

    async def pop(self, key: Value, expiry: Expiry = None) -> Receipt:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        return await self._ask(mutations.pop(key, expiry))

    async def batch(self, batch: Batch) -> Receipt:
        """Do all of a batch as one mutation, if its guards hold."""
        return await self._ask(together(batch))

    async def compare_and_set(
        self, key: Value, value: Value, revision: int | None, expiry: Expiry = None
    ) -> Receipt:
        """Set a key if its ``entry`` has this revision still.

        ``None`` stands for a key that is missing. Otherwise the receipt raises ``GuardFailed``, and
        nothing happened. The revision that it gives is the one for the next time.
        """
        return await self._ask(compare_and_set(key, value, revision, expiry))

    async def compare_and_erase(self, key: Value, revision: int) -> Receipt:
        """Remove a key if it is unchanged since this revision; see ``compare_and_set``."""
        return await self._ask(compare_and_erase(key, revision))

    async def _ask(self, mutation: Mutation) -> Receipt:
        """Ask for a mutation. All waiting comes first: what is cancelled then has asked nothing."""
        if self.is_due:
            await self.breathe()
        return self.ask(mutation)

    def ask(self, mutation: Mutation) -> Receipt:
        """Ask for a mutation at once; for a front end, which waits for ``breathe`` if it is due."""
        runner = self.runner
        if runner.error is not None:
            raise runner.error
        self._since_yield += 1
        return runner.ask(mutations.ask(self.requests, mutation))
