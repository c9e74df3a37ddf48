"""The handle of a store: a master's or a clone's table, and the way to change it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

import trio

from endpoint.outcome import Outcome
from endpoint.receipts import Receipt
from endpoint.store_runner import YIELD_COUNT, StoreRunner
from endpoint.watching import Watch
from stores.actions import Initial
from stores.batch import Batch, insertion, span_ns
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import StaleData
from wire.values import Value

AWAIT_IDLE_SECONDS: Final = 15.0
"""Broker's own default for ``await_idle``."""

FIRST_READ_SECONDS: Final = 5.0
"""How long a read waits for a clone's first snapshot: Broker's ``max_get_delay``."""

Expiry = float | timedelta | None
"""From now: seconds, or a timespan. ``None`` is for ever, and removes an expiry that was set."""


class Store:
    """A replicated table of typed keys and values (design section 10).

    Reads are local: at the master what is committed, at a clone some earlier state of the master,
    never going back. Mutations wait only for room, and give a receipt that tells what the master
    made of them.
    """

    def __init__(self, runner: StoreRunner, close: Callable[[], Awaitable[None]]) -> None:
        """Use ``Endpoint.attach_master`` or ``Endpoint.attach_clone``."""
        self.runner = runner
        self._core = runner.core
        self._requests = runner.core.requests
        self._close = close
        self._since_yield = 0

    def name(self) -> str:
        """Give the store's name."""
        return self.runner.name

    # Reads.

    async def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing.

        Raises ``StaleData`` if a clone has not found its master in ``FIRST_READ_SECONDS``, and
        ``StoreClosed``.
        """
        await self._readable()
        encoded = self._core.get(encode(key))
        return default if encoded is None else decode(encoded)

    async def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        await self._readable()
        return self._core.get(encode(key)) is not None

    async def keys(self) -> list[Value]:
        """Give all keys, in no order."""
        await self._readable()
        keys = self._core.keys()
        return [decode(key) for key in keys]

    async def items(self) -> list[tuple[Value, Value]]:
        """Give all keys with their values, as of one moment, in no order."""
        await self._readable()
        keys = self._core.keys()
        pairs = [(key, self._core.get(key)) for key in keys]
        return [(decode(key), decode(value)) for key, value in pairs if value is not None]

    async def _readable(self) -> None:
        """Wait for what a read needs: a first snapshot, and at a master one's own writes."""
        runner = self.runner
        if not runner.is_synced and runner.error is None:
            with trio.move_on_after(FIRST_READ_SECONDS):
                while not runner.is_synced and runner.error is None:
                    await runner.changed.park()
            if not runner.is_synced:
                raise runner.error or StaleData(
                    f"store {runner.name}: no master answered within {FIRST_READ_SECONDS:g} s; "
                    f"{runner.core.explain_idle()}"
                )
        runner.check()
        if runner.is_master:
            last = self._requests.last_request
            while runner.resolved_request < last and runner.error is None:
                await runner.changed.park()

    # Mutations.

    async def put(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Set a key. Without an expiry it stays for ever, whatever it had before."""
        request = self._requests.put(encode(key), encode(value), span_ns(expiry))
        return await self._ask(request)

    async def put_unique(self, key: Value, value: Value, expiry: Expiry = None) -> bool:
        """Set a key if it is missing; tell whether it was. One of all who try succeeds."""
        request = self._requests.put_unique(encode(key), encode(value), span_ns(expiry))
        receipt = await self._ask(request)
        await receipt.applied()
        return receipt.is_inserted()

    async def erase(self, key: Value) -> Receipt:
        """Remove a key, present or not."""
        return await self._ask(self._requests.erase(encode(key)))

    async def clear(self) -> Receipt:
        """Remove everything."""
        return await self._ask(self._requests.clear())

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
        """Remove the last element of a vector."""
        return await self._subtract(key, None, expiry)  # A vector loses its last one.

    async def batch(self, batch: Batch) -> Receipt:
        """Do all of a batch as one mutation, if its guards hold."""
        return await self._ask(self._requests.batch(batch.guards, batch.steps))

    async def _add(self, key: Value, operand: bytes, initial: Initial, expiry: Expiry) -> Receipt:
        request = self._requests.add(encode(key), operand, initial, span_ns(expiry))
        return await self._ask(request)

    async def _subtract(self, key: Value, operand: Value, expiry: Expiry) -> Receipt:
        request = self._requests.subtract(encode(key), encode(operand), span_ns(expiry))
        return await self._ask(request)

    async def _ask(self, request: int) -> Receipt:
        runner = self.runner
        if runner.error is not None:
            raise runner.error
        receipt = runner.ask(request)
        self._since_yield += 1
        if self._since_yield >= YIELD_COUNT:
            self._since_yield = 0
            await trio.lowlevel.checkpoint()
            while not self._core.has_room() and runner.error is None:
                await runner.changed.park()
        return receipt

    # Barriers and changes.

    async def await_idle(
        self,
        callback: Callable[[Outcome], object] | None = None,
        timeout: float = AWAIT_IDLE_SECONDS,
    ) -> Outcome:
        """Wait until the store is idle (seed 7.6.1); false after ``timeout`` seconds, with reason.

        A master is idle when all its clones have acknowledged everything. A clone is idle when it
        has its master's state as of a round trip, and the master everything that was asked here.
        With a ``callback`` it returns at once, and the callback is given the outcome later.
        """
        if callback is not None:
            self.runner.start_task(self._call_back, callback, timeout)
            return Outcome(reached=True, reason="the callback will be told")
        runner = self.runner
        with trio.move_on_after(timeout):
            await runner.await_idle()
            if runner.error is not None:
                return Outcome(reached=False, reason=str(runner.error), error=runner.error)
            return Outcome(reached=True, reason=f"store {runner.name} is idle")
        reason = f"store {runner.name} is not idle after {timeout:.3g} s: {runner.why_not_idle}"
        runner.note("barrier", reason)
        return Outcome(reached=False, reason=reason)

    async def _call_back(self, callback: Callable[[Outcome], object], timeout: float) -> None:
        callback(await self.await_idle(timeout=timeout))

    def watch(self) -> Watch:
        """Follow the changes of the table from now on, in the order of the master."""
        return Watch(self.runner)

    async def close(self) -> None:
        """Let go of the store, after what was asked here has its outcome."""
        await self._close()

    async def __aenter__(self) -> Self:
        """Use it within the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()
