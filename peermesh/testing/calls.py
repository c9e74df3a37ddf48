"""The verbs of a store that a node holds for a test.

Written by ``tools/doors.py``: change the trio class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endpoint.replicas.stores.store_handle import PUT_UNIQUE_SECONDS
from peermesh.testing.handles import HeldStore, RemoteReceipt

if TYPE_CHECKING:
    from endpoint.barriers import Seconds
    from stores.mutations import Expiry
    from wire.values import Value


class StoreHandle(HeldStore):
    """Changes a store through its runner: a master's, a clone's or a proxy's."""

    async def put(self, key: Value, value: Value, expiry: Expiry = None) -> RemoteReceipt:
        """Set a key. Without an expiry it stays for ever, whatever it had before."""
        return await self._ask("put", key, value, expiry)

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
        return bool(await self._do("put_unique", key, value, expiry, timeout=timeout))

    async def erase(self, key: Value) -> RemoteReceipt:
        """Remove a key, present or not."""
        return await self._ask("erase", key)

    async def clear(self) -> RemoteReceipt:
        """Remove everything."""
        return await self._ask("clear")

    async def increment(
        self, key: Value, amount: Value = 1, expiry: Expiry = None
    ) -> RemoteReceipt:
        """Add to a number or an instant; a missing key begins at zero."""
        return await self._ask("increment", key, amount, expiry)

    async def decrement(
        self, key: Value, amount: Value = 1, expiry: Expiry = None
    ) -> RemoteReceipt:
        """Take away from a number or an instant; the key has to be there."""
        return await self._ask("decrement", key, amount, expiry)

    async def append(self, key: Value, text: Value, expiry: Expiry = None) -> RemoteReceipt:
        """Append to a string; a missing key begins empty."""
        return await self._ask("append", key, text, expiry)

    async def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: Expiry = None
    ) -> RemoteReceipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        return await self._ask("insert_into", key, index, *value, expiry=expiry)

    async def remove_from(self, key: Value, index: Value, expiry: Expiry = None) -> RemoteReceipt:
        """Remove an element from a set, or an entry from a table."""
        return await self._ask("remove_from", key, index, expiry)

    async def push(self, key: Value, value: Value, expiry: Expiry = None) -> RemoteReceipt:
        """Append an element to a vector; a missing key begins empty."""
        return await self._ask("push", key, value, expiry)

    async def pop(self, key: Value, expiry: Expiry = None) -> RemoteReceipt:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        return await self._ask("pop", key, expiry)

    async def compare_and_set(
        self, key: Value, value: Value, revision: int | None, expiry: Expiry = None
    ) -> RemoteReceipt:
        """Set a key if its ``entry`` has this revision still.

        ``None`` stands for a key that is missing. Otherwise the receipt raises ``GuardFailed``, and
        nothing happened. The revision that it gives is the one for the next time.
        """
        return await self._ask("compare_and_set", key, value, revision, expiry)

    async def compare_and_erase(self, key: Value, revision: int) -> RemoteReceipt:
        """Remove a key if it is unchanged since this revision; see ``compare_and_set``."""
        return await self._ask("compare_and_erase", key, revision)
