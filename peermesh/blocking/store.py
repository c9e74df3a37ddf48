"""Stores for threads: reads look into the table directly, mutations cross the thread in batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Final, Self

from endpoint.attaching import Backend
from endpoint.events import QUEUE_SIZE, Events as CoreEvents
from endpoint.outcome import Outcome
from endpoint.promoting import Promotion
from endpoint.receipts import Receipt
from endpoint.store import AWAIT_IDLE_SECONDS, VERIFY_SECONDS, Expiry, Store as Core
from endpoint.verifying import Verification
from peermesh.blocking.portal import Portal
from peermesh.blocking.reading import Reader
from peermesh.blocking.watching import Events, Watch
from stores.actions import Initial
from stores.batch import Batch, compare_and_erase, compare_and_set, insertion, span_ns
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import StoreClosed
from wire.values import Value

MARK_COUNT: Final = 1_024
"""Mutations between two that a fast writer may have to wait for."""

MARKS_MAX: Final = 16
"""So many marks without an outcome make a writer wait: about sixteen thousand mutations."""

PUT_UNIQUE_SECONDS: Final = 10.0
"""How long ``put_unique`` waits for its answer: Broker's request timeout."""

Request = tuple[Receipt, Callable[[], int]]


class Store(Reader):
    """A replicated table of typed keys and values; see ``peermesh.Store``.

    All methods may be called from any thread. Mutations of one thread keep their order.
    """

    def __init__(self, portal: Portal, core: Core) -> None:
        """Use ``Endpoint.attach_master`` or ``Endpoint.attach_clone``."""
        super().__init__(portal, core)
        self._core = core
        self._runner = core.runner
        self._use_core()
        core.runner.on_swap.append(self._use_core)
        self._requests = core.runner.core.requests
        self._pending: deque[Request] = deque()
        self._marks: deque[Receipt] = deque()
        self._asked = 0
        self._is_armed = False
        self._lock = threading.Lock()
        self._is_closed = False

    def inside(self) -> tuple[Portal, Core]:
        """Give the way into the loop's thread, and the store in there: for what serves it."""
        return self._portal, self._core

    def _use_core(self) -> None:
        """Read from the core that the store has now."""
        self._table = self._runner.core

    def name(self) -> str:
        """Give the store's name."""
        return self._core.name()

    # Reads.

    def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing."""
        if self._is_readable():
            encoded = self._table.get(encode(key))
            return default if encoded is None else decode(encoded)
        return self._portal.call(self._core.get, key, default)

    def exists(self, key: Value) -> bool:
        """Tell whether a key is there."""
        if self._is_readable():
            return self._table.get(encode(key)) is not None
        return self._portal.call(self._core.exists, key)

    def not_before(self, since: Receipt | int) -> Reader:
        """Read what is not older than a write; see ``peermesh.Store.not_before``."""
        return Reader(self._portal, self._core.not_before(since))

    def at_master(self) -> Reader:
        """Read what is as fresh as at the master; see ``peermesh.Store.at_master``."""
        return Reader(self._portal, self._core.at_master())

    def _is_readable(self) -> bool:
        """Tell whether the table can be read from this thread: nothing of ours is on its way."""
        runner = self._runner
        runner.check()
        if self._is_closed:
            raise StoreClosed(f"store {runner.name} is closed: attach it anew")
        if runner.is_master:
            return not self._pending and runner.resolved_request == self._requests.last_request
        return runner.is_synced

    # Mutations.

    def put(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Set a key. Without an expiry it stays for ever, whatever it had before."""
        encoded, payload, span = encode(key), encode(value), span_ns(expiry)
        return self._ask(lambda: self._requests.put(encoded, payload, span))

    def put_unique(
        self,
        key: Value,
        value: Value,
        expiry: Expiry = None,
        *,
        timeout: float = PUT_UNIQUE_SECONDS,
    ) -> bool:
        """Set a key if it is missing; tell whether it was. One of all who try succeeds.

        Raises ``RequestTimeout`` if the master does not answer; whether it was set is then unknown.
        """
        encoded, payload, span = encode(key), encode(value), span_ns(expiry)
        receipt = self._ask(lambda: self._requests.put_unique(encoded, payload, span))
        receipt.result(timeout)
        return receipt.is_inserted()

    def erase(self, key: Value) -> Receipt:
        """Remove a key, present or not."""
        encoded = encode(key)
        return self._ask(lambda: self._requests.erase(encoded))

    def clear(self) -> Receipt:
        """Remove everything."""
        return self._ask(self._requests.clear)

    def increment(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Add to a number or an instant; a missing key begins at zero."""
        return self._add(key, encode(amount), Initial.NUMBER, expiry)

    def decrement(self, key: Value, amount: Value = 1, expiry: Expiry = None) -> Receipt:
        """Take away from a number or an instant; the key has to be there."""
        return self._subtract(key, amount, expiry)

    def append(self, key: Value, text: Value, expiry: Expiry = None) -> Receipt:
        """Append to a string; a missing key begins empty."""
        return self._add(key, encode(text), Initial.TEXT, expiry)

    def insert_into(
        self, key: Value, index: Value, *value: Value, expiry: Expiry = None
    ) -> Receipt:
        """Insert an element into a set; or with a value, an entry into a table."""
        operand, initial = insertion(index, value)
        return self._add(key, operand, initial, expiry)

    def remove_from(self, key: Value, index: Value, expiry: Expiry = None) -> Receipt:
        """Remove an element from a set, or an entry from a table."""
        return self._subtract(key, index, expiry)

    def push(self, key: Value, value: Value, expiry: Expiry = None) -> Receipt:
        """Append an element to a vector; a missing key begins empty."""
        return self._add(key, encode(value), Initial.VECTOR, expiry)

    def pop(self, key: Value, expiry: Expiry = None) -> Receipt:
        """Remove the last element of a vector; from a set or a table, what equals the key."""
        return self._subtract(key, key, expiry)  # A vector does not look at it.

    def batch(self, batch: Batch) -> Receipt:
        """Do all of a batch as one mutation, if its guards hold."""
        guards, steps, others = batch.guards, batch.steps, batch.others
        return self._ask(lambda: self._requests.batch(guards, steps, others))

    def compare_and_set(
        self, key: Value, value: Value, revision: int | None, expiry: Expiry = None
    ) -> Receipt:
        """Set a key if its ``entry`` has this revision still; ``None`` stands for a missing key.

        Otherwise the receipt raises ``GuardFailed``, and nothing happened.
        """
        return self.batch(compare_and_set(key, value, revision, expiry))

    def compare_and_erase(self, key: Value, revision: int) -> Receipt:
        """Remove a key if nobody changed it since this revision; see ``compare_and_set``."""
        return self.batch(compare_and_erase(key, revision))

    def _add(self, key: Value, operand: bytes, initial: Initial, expiry: Expiry) -> Receipt:
        encoded, span = encode(key), span_ns(expiry)
        return self._ask(lambda: self._requests.add(encoded, operand, initial, span))

    def _subtract(self, key: Value, operand: Value, expiry: Expiry) -> Receipt:
        encoded, payload, span = encode(key), encode(operand), span_ns(expiry)
        return self._ask(lambda: self._requests.subtract(encoded, payload, span))

    def _ask(self, request: Callable[[], int]) -> Receipt:
        """Hand a mutation over to the loop; one wake-up serves many."""
        runner = self._runner
        if runner.error is not None:
            raise runner.error
        if self._is_closed:
            raise StoreClosed(f"store {runner.name} is closed: attach it anew")
        receipt = Receipt(0)
        self._pending.append((receipt, request))
        if not self._is_armed:
            self._is_armed = True
            self._portal.soon(self._take)
        self._asked += 1
        if self._asked >= MARK_COUNT:
            self._wait_for_room(receipt)
        return receipt

    def _wait_for_room(self, receipt: Receipt) -> None:
        with self._lock:
            self._asked = 0
            self._marks.append(receipt)
            oldest = self._marks.popleft() if len(self._marks) > MARKS_MAX else None
        if oldest is not None:
            oldest.wait()

    # In the portal's thread.

    def _take(self) -> None:
        self._is_armed = False
        runner, pending = self._runner, self._pending
        while pending:
            receipt, request = pending.popleft()
            try:
                runner.adopt(receipt, request())
            except Exception as error:
                receipt.fail(error)
        runner.urge()

    # The role.

    def is_master(self) -> bool:
        """Tell whether the store's master is here now: promotions change it."""
        return self._core.is_master()

    def promote(
        self,
        backend: Backend = Backend.Memory,
        *,
        replicas: int = 0,
        force: bool = False,
        **options: object,
    ) -> Promotion:
        """Make this clone the master of its store; see ``peermesh.Store.promote``."""
        ask = partial(self._core.promote, backend, replicas=replicas, force=force, **options)
        return self._portal.call(self._promote, ask)

    async def _promote(self, ask: Callable[[], Awaitable[Promotion]]) -> Promotion:
        self._take()
        return await ask()

    def verify(self, timeout: float = VERIFY_SECONDS) -> Verification:
        """Compare what all replicas hold; see ``peermesh.Store.verify``."""
        return self._portal.call(self._core.verify, timeout)

    # Barriers, events and watches.

    def await_idle(
        self,
        callback: Callable[[Outcome], object] | None = None,
        timeout: float = AWAIT_IDLE_SECONDS,
    ) -> Outcome:
        """Wait until the store is idle (seed 7.6.1); false after ``timeout`` seconds, with reason.

        With a ``callback`` it returns at once; the callback runs in the background thread.
        """
        return self._portal.call(self._await_idle, callback, timeout)

    async def _await_idle(
        self, callback: Callable[[Outcome], object] | None, timeout: float
    ) -> Outcome:
        self._take()
        return await self._core.await_idle(callback, timeout)

    def events(self, *, prefix: Value = None, queue_size: int = QUEUE_SIZE) -> Events:
        """Follow what happens to each key from now on; see ``peermesh.Store.events``."""

        def begin() -> CoreEvents:
            return self._core.events(prefix=prefix, queue_size=queue_size)

        return Events(self._portal, self._portal.call_sync(begin))

    def watch(
        self,
        *,
        prefix: Value = None,
        keys: Iterable[Value] | None = None,
        from_revision: int | None = None,
    ) -> Watch:
        """Give what there is, a mark, and then every commit; see ``peermesh.Store.watch``."""
        core = self._core.watch(prefix=prefix, keys=keys, from_revision=from_revision)
        return Watch(self._portal, core)

    def close(self) -> None:
        """Let go of the store, after what was asked here has its outcome."""
        if not self._is_closed:
            self._is_closed = True
            self._portal.call(self._close)

    async def _close(self) -> None:
        self._take()
        await self._core.close()

    def __enter__(self) -> Self:
        """Use it within the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()
