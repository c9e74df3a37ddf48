"""Receipts: what became of a mutation, for whoever wants to know (design section 10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from endpoint.bell import Bell
from stores.outcomes import Applied, Refused
from wire.errors import (
    BackendFailure,
    ErrorCode,
    Fenced,
    GuardFailed,
    InvalidData,
    KeeperUnreachable,
    MasterExists,
    NoSuchKey,
    NoSuchMaster,
    NoSuchPartition,
    NotAllowed,
    RequestTimeout,
    SequenceUnknown,
    StaleData,
    StoreClosed,
    StoreError,
    TypeClash,
)

_ERRORS: Final[dict[ErrorCode, type[StoreError]]] = {
    error.code: error
    for error in (
        BackendFailure,
        Fenced,
        GuardFailed,
        InvalidData,
        KeeperUnreachable,
        MasterExists,
        NoSuchKey,
        NoSuchMaster,
        NoSuchPartition,
        NotAllowed,
        RequestTimeout,
        SequenceUnknown,
        StaleData,
        StoreClosed,
        TypeClash,
    )
}


def store_error(code: ErrorCode, text: str) -> StoreError:
    """Make the error that a code stands for."""
    return _ERRORS.get(code, StoreError)(text)


class Receipt:
    """One mutation on its way. Not looking at it is fire and forget.

    Slotted and small, since there is one for every mutation.
    """

    __slots__ = ("_callbacks", "_first", "_result", "request")

    def __init__(self, request: int) -> None:
        """Wait for the outcome of this request."""
        self.request = request
        self._result: Applied | Refused | Exception | None = None
        self._first = 0
        self._callbacks: list[Callable[[], object]] | None = None

    @property
    def is_resolved(self) -> bool:
        """Tell whether the outcome is known."""
        return self._result is not None

    def resolve(self, result: Applied | Refused, first_request: int) -> None:
        """Take in the outcome; for the store's driver."""
        self._first = first_request
        self._result = result
        if self._callbacks is not None:
            self._call_back()

    def fail(self, error: Exception) -> None:
        """Take in that the request could not even be asked; for the store's driver."""
        self._result = error
        if self._callbacks is not None:
            self._call_back()

    def _call_back(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback()

    def when_resolved(self, callback: Callable[[], object]) -> None:
        """Call back once the outcome is known, in the endpoint's thread; at once if it is."""
        callbacks = self._callbacks
        if callbacks is None:
            callbacks = self._callbacks = []
        callbacks.append(callback)
        if self._result is not None:
            # It may have come between the caller's look and the line above.
            callback()

    def outcome(self) -> int:
        """Give the revision, or raise the master's error; only when it is resolved."""
        result = self._result
        if isinstance(result, Exception):
            raise result
        if isinstance(result, Refused):
            raise store_error(result.code, result.text)
        assert result is not None, "the outcome is not known yet"
        return result.revision + self.request - self._first

    def is_inserted(self) -> bool:
        """Give the answer to a put_unique, or raise; only when it is resolved."""
        self.outcome()
        return isinstance(self._result, Applied) and self._result.answer is not False

    def has_held(self) -> bool:
        """Tell whether the guards of a batch held, or raise; only when it is resolved."""
        return self.is_inserted()

    async def applied(self) -> int:
        """Wait until the master has applied it, durably where its backend is; give the revision.

        Raises ``TypeClash``, ``NoSuchKey``, ``InvalidData``, ``GuardFailed``, ``BackendFailure`` or
        ``StoreClosed``; then nothing of it was applied, unless the text says otherwise.
        """
        if self._result is None:
            bell = Bell()
            self.when_resolved(bell.ring)
            await bell.wait()
        return self.outcome()

    def result(self, timeout: float | None = None) -> int:
        """Do as ``applied`` does, in a thread; raises ``RequestTimeout`` after ``timeout`` seconds.

        Whether the mutation is applied is then unknown; the receipt can be asked again.
        """
        if not self.wait(timeout):
            raise RequestTimeout(f"the master did not answer within {timeout} s; ask again")
        return self.outcome()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait in a thread until the outcome is known; false after ``timeout`` seconds."""
        if self._result is None:
            event = threading.Event()
            self.when_resolved(event.set)
            return event.wait(timeout)
        return True
