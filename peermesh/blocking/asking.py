"""Stores for threads, as far as it is by hand: mutations cross in batches, reads may not cross."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Final

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.replicas.receipts import Receipt
from endpoint.replicas.stores.store import Store as CoreStore
from endpoint.replicas.stores.store_handle import PUT_UNIQUE_SECONDS, StoreHandle as Core
from peermesh.blocking.living import Passage
from stores import mutations
from stores.mutations import Expiry, Mutation
from wire.decoding import decode
from wire.encoding import encode
from wire.errors import EndpointClosed, StoreClosed
from wire.values import Value

MARK_COUNT: Final = 1_024
"""Mutations between two that a fast writer may have to wait for."""

MARKS_MAX: Final = 16
"""So many marks without an outcome make a writer wait: about sixteen thousand mutations."""

Request = tuple[Receipt, Mutation]


class Asking:
    """Hands mutations over to the loop, many at a time; a base of ``StoreHandle``.

    Mutations of one thread keep their order.
    """

    def __init__(self, passage: Passage, core: Core) -> None:
        """Change what ``core`` is the handle of."""
        self._passage = passage
        self._asked_core = core
        self._runner = core.runner
        self._requests = core.requests
        self._pending: deque[Request] = deque()
        self._marks: deque[Receipt] = deque()
        self._asked = 0
        self._is_armed = False
        self._lock = threading.Lock()
        self._is_closed = False
        self._take_soon = passage.guarded(self._take)
        passage.first = self._take
        passage.hold(self)

    def put_unique(
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
        receipt = self._ask(mutation)
        receipt.result(limit)
        return receipt.is_inserted()

    def _ask(self, mutation: Mutation) -> Receipt:
        """Hand a mutation over to the loop; one wake-up serves many."""
        runner = self._runner
        if runner.error is not None or self._is_closed:
            raise self._closed()
        receipt = Receipt(0, runner.unasked)
        self._pending.append((receipt, mutation))
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
            receipt, mutation = pending.popleft()
            try:
                runner.adopt(receipt, mutations.ask(self._requests, mutation))
            except Exception as error:
                self._passage.call_back(receipt.come_to(error))
        runner.urge()

    def _fail_pending(self) -> None:
        """Fail what was not handed over in time: no outcome would ever come."""
        error = self._closed()
        while self._pending:
            with suppress(IndexError):  # Another thread has just taken the last one.
                receipt, _ = self._pending.popleft()
                self._passage.call_back(receipt.come_to(error))

    # The end.

    def close(self) -> None:
        """Let go of the store or log, after what was asked here has its outcome."""
        if not self._is_closed:
            self._is_closed = True
            self._passage.end(self._asked_core.close)

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


class CopyReads(Asking):
    """Reads a master or a clone from the thread that asks, where that is allowed."""

    def __init__(self, passage: Passage, core: CoreStore) -> None:
        """Read the table of ``core``."""
        self._copy = core
        self._use_core()
        core.runner.on_swap.append(self._use_core)

    def _use_core(self) -> None:
        """Read from the core that the store has now."""
        self._table = self._copy.part.table

    def get(self, key: Value, default: Value = None) -> Value:
        """Give the value of a key, or ``default`` if it is missing; see ``Reader.get``.

        At a clone in touch with its master there is nothing to wait for, nor at a master that has
        no request of its own under way, which is seen at a glance.
        """
        if self._is_readable():
            encoded = self._table.get(encode(key))
            return default if encoded is None else decode(encoded)
        return self._passage.call(self._copy.get, key, default)

    def exists(self, key: Value) -> bool:
        """Tell whether a key is there; at a proxy its value stays where it is."""
        if self._is_readable():
            return self._table.get(encode(key)) is not None
        return self._passage.call(self._copy.exists, key)

    def _is_readable(self) -> bool:
        """Tell whether the table can be read from this thread: nothing of ours is on its way."""
        runner = self._runner
        if self._is_closed or runner.error is not None:
            raise self._closed()
        if runner.is_master:
            return not self._pending and runner.resolved_request == self._requests.last_request
        return runner.is_in_touch  # Out of touch, the loop knows for how long.
