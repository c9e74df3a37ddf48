"""What handles of stores have in common for threads: mutations cross the thread in batches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from endpoint import arguments
from endpoint.barriers import Barrier, Seconds
from endpoint.closing import Closing
from endpoint.outcome import Outcome
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.store import Store as CoreStore
from endpoint.replicas.stores.store_handle import Expiry
from endpoint.replicas.stores.store_proxy import StoreProxy as CoreProxy
from peermesh.blocking.idling import Idling
from peermesh.blocking.living import FAILURES, Passage
from peermesh.blocking.reading import Reader
from stores.actions import Initial
from stores.batch import Batch, compare_and_erase, compare_and_set, insertion, parts_of, span_ns
from wire.encoding import encode
from wire.errors import EndpointClosed, StoreClosed
from wire.values import Value

if TYPE_CHECKING:
    from endpoint.replicas.groups.replica import ReplicaStore as CoreReplica

MARK_COUNT: Final = 1_024
"""Mutations between two that a fast writer may have to wait for."""

MARKS_MAX: Final = 16
"""So many marks without an outcome make a writer wait: about sixteen thousand mutations."""

PUT_UNIQUE_SECONDS: Final = 10.0
"""How long ``put_unique`` waits for its answer: Broker's request timeout."""

Request = tuple[Receipt, Callable[[], int]]


class StoreHandle(Idling, Closing, Reader):
    """Changes a store: a master's, a clone's or a proxy's.

    All methods may be called from any thread. Mutations of one thread keep their order.
    """

    def __init__(self, passage: Passage, core: CoreStore | CoreProxy | CoreReplica) -> None:
        """Change what ``core`` is the handle of."""
        super().__init__(passage, core)
        self._handle = core
        self._runner = core.runner
        self._requests = core.part.core.requests
        self._pending: deque[Request] = deque()
        self._marks: deque[Receipt] = deque()
        self._asked = 0
        self._is_armed = False
        self._lock = threading.Lock()
        self._is_closed = False
        self._take_soon = passage.guarded(self._take)
        passage.hold(self)

    def __repr__(self) -> str:
        """Show name, role and state."""
        return self._passage.show(f"{type(self).__name__} {self._runner.name}", self._handle)

    def name(self) -> str:
        """Give the store's name."""
        return self._handle.name()

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
        timeout: Seconds = PUT_UNIQUE_SECONDS,
    ) -> bool:
        """Set a key if it is missing; tell whether it was. One of several that try succeeds.

        Raises ``RequestTimeout`` if the master does not answer; whether it was set is then unknown.
        """
        encoded, payload, span = encode(key), encode(value), span_ns(expiry)
        limit = arguments.seconds("timeout", timeout)
        receipt = self._ask(lambda: self._requests.put_unique(encoded, payload, span))
        receipt.result(limit)
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
        guards, steps, others = parts_of(batch)
        return self._ask(lambda: self._requests.batch(guards, steps, others))

    def compare_and_set(
        self, key: Value, value: Value, revision: int | None, expiry: Expiry = None
    ) -> Receipt:
        """Set a key if its ``entry`` has this revision still; ``None`` stands for a missing key.

        Otherwise the receipt raises ``GuardFailed``, and nothing happened.
        """
        return self.batch(compare_and_set(key, value, revision, expiry))

    def compare_and_erase(self, key: Value, revision: int) -> Receipt:
        """Remove a key if it is unchanged since this revision; see ``compare_and_set``."""
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
        if runner.error is not None or self._is_closed:
            raise self._closed()
        receipt = Receipt(0)
        self._pending.append((receipt, request))
        if not self._is_armed:
            self._is_armed = True
            self._arm()
        self._asked += 1
        if self._asked >= MARK_COUNT:
            self._wait_for_room(receipt)
        return receipt

    def _arm(self) -> None:
        try:
            self._passage.soon(self._take_soon)
        except EndpointClosed:
            self.ended()
            raise self._closed() from None

    def _closed(self) -> Exception:
        """Give the error that says why nothing can be asked any more."""
        runner = self._runner
        closed = StoreClosed(f"store {runner.name} is closed: attach it anew")
        return self._passage.better(runner.error or closed)

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
        if runner.error is not None:
            self._fail_pending()
            return
        while pending:
            receipt, request = pending.popleft()
            try:
                runner.adopt(receipt, request())
            except Exception as error:
                self._passage.call_back(receipt.fail(error))
        runner.urge()

    def _fail_pending(self) -> None:
        """Fail what was not handed over in time: no outcome would ever come."""
        error = self._closed()
        while self._pending:
            with suppress(IndexError):  # Another thread has just taken the last one.
                receipt, _ = self._pending.popleft()
                self._passage.call_back(receipt.fail(error))

    # The barrier, and the end.

    async def _await_idle(self, how: Barrier) -> Outcome | None:
        self._take()
        return await self._runner.wait(how)

    def close(self) -> None:
        """Let go of the store, after what was asked here has its outcome."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(StoreClosed, *FAILURES):  # Then it is closed.
                self._passage.call(self._close)

    async def _close(self) -> None:
        self._take()
        await self._handle.close()

    # For the endpoint's life.

    def ended(self) -> None:
        """Take in that the endpoint is over, in whatever way."""
        self._is_closed = True
        self._fail_pending()

    def forked(self) -> None:
        """Lose what was asked, in a child process: the parent does it."""
        self._is_closed = True
        self._lock = threading.Lock()
        error = self._closed()
        while self._pending:
            receipt, _ = self._pending.popleft()
            receipt.lose(error)
