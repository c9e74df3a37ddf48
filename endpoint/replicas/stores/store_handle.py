"""What handles of stores have in common: mutations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import trio

from endpoint.replicas.handle import ReplicaHandle
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.runner import YIELD_COUNT, Runner
from stores.actions import Initial
from stores.batch import Batch, compare_and_erase, compare_and_set, insertion, parts_of, span_ns
from stores.requests import Requests
from wire.encoding import encode
from wire.values import Value

Expiry = float | timedelta | None
"""From now: seconds, or a timespan. ``None`` is for ever, and removes an expiry that was set."""


class StoreHandle(ReplicaHandle):
    """Changes a store through its runner: a master's, a clone's or a proxy's."""

    def __init__(
        self, runner: Runner, requests: Requests, close: Callable[[], Awaitable[None]]
    ) -> None:
        """Ask ``runner`` for ``requests``; ``close`` ends it."""
        super().__init__(runner, close)
        self._requests = requests

    # Mutations.

    async def put(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Set a key. Without an expiry it stays for ever, whatever it had before."""
        expiry_ns = None if expiry is None else span_ns(expiry)
        encoded, payload = encode(key), encode(value)
        # ``_ask``, written out: nothing is asked as often as this.
        if self._since_yield >= YIELD_COUNT:
            await self._breathe()
        if self.runner.error is not None:
            raise self.runner.error
        self._since_yield += 1
        return self.runner.ask(self._requests.put(encoded, payload, expiry_ns))

    async def put_unique(self, key: Value, value: Value, expiry: Expiry = None) -> bool:
        """Set a key if it is missing; tell whether it was. Of all callers that try, one succeeds.

        Cancelled while it waits for the answer, the key may be set.
        """
        values = encode(key), encode(value), span_ns(expiry)
        await trio.lowlevel.checkpoint_if_cancelled()
        receipt = await self._ask(partial(self._requests.put_unique, *values))
        await receipt.applied()
        return receipt.is_inserted()

    async def erase(self, key: Value) -> Receipt:
        """Remove a key, present or not."""
        return await self._ask(partial(self._requests.erase, encode(key)))

    async def clear(self) -> Receipt:
        """Remove everything."""
        return await self._ask(self._requests.clear)

    async def increment(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Add to a number or an instant; a missing key begins at zero."""
        return await self._add(key, encode(amount), Initial.NUMBER, expiry)

    async def decrement(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Take away from a number or an instant; the key has to be there."""
        return await self._subtract(key, amount, expiry)

    async def append(self, key: Value, text: Value, expiry: Expiry = None) -> Receipt:
        """Append to a string; a missing key begins empty."""
        return await self._add(key, encode(text), Initial.TEXT, expiry)

    async def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: Expiry = None
    ) -> Receipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        operand, initial = insertion(index, value)
        return await self._add(key, operand, initial, expiry)

    async def remove_from(self, key: Value, index: Value, expiry: Expiry = None) -> Receipt:
        """Remove an element from a set, or an entry from a table."""
        return await self._subtract(key, index, expiry)

    async def push(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Append an element to a vector; a missing key begins empty."""
        return await self._add(key, encode(value), Initial.VECTOR, expiry)

    async def pop(self, key: Value, expiry: Expiry = None) -> Receipt:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        return await self._subtract(key, key, expiry)  # A vector does not look at it.

    async def batch(self, batch: Batch) -> Receipt:
        """Do all of a batch as one mutation, if its guards hold."""
        return await self._ask(partial(self._requests.batch, *parts_of(batch)))

    async def compare_and_set(
        self, key: Value, value: Value, revision: int | None, expiry: Expiry = None
    ) -> Receipt:
        """Set a key if nobody changed it: if its ``entry`` has this revision still.

        ``None`` stands for a key that is missing. Otherwise the receipt raises ``GuardFailed``, and
        nothing happened. The revision that it gives is the one for the next time.
        """
        return await self.batch(compare_and_set(key, value, revision, expiry))

    async def compare_and_erase(self, key: Value, revision: int) -> Receipt:
        """Remove a key if nobody changed it since this revision; see ``compare_and_set``."""
        return await self.batch(compare_and_erase(key, revision))

    async def _add(self, key: Value, operand: bytes, initial: Initial, expiry: Expiry) -> Receipt:
        values = encode(key), operand, initial, span_ns(expiry)
        return await self._ask(partial(self._requests.add, *values))

    async def _subtract(self, key: Value, operand: Value, expiry: Expiry) -> Receipt:
        values = encode(key), encode(operand), span_ns(expiry)
        return await self._ask(partial(self._requests.subtract, *values))

    async def _ask(self, request: Callable[[], int]) -> Receipt:
        """Ask for a mutation. All waiting comes first: what is cancelled then has asked nothing."""
        runner = self.runner
        if self._since_yield >= YIELD_COUNT:
            await self._breathe()
        if runner.error is not None:
            raise runner.error
        self._since_yield += 1
        return runner.ask(request())
