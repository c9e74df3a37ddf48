"""Receipts: the outcome of a mutation, awaited or told to a callback (design section 10)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Final

from trio.lowlevel import TrioToken

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.bound import Bound
from net import forking
from net.awaiting import runs_here, wake_up
from stores.outcomes import Applied, Refused
from wire import errors
from wire.errors import ErrorCode, RequestTimeout, StoreError
from wire.logs import logger_of
from wire.public import public

logger = logger_of("peermesh.store")

_ERRORS: Final[dict[ErrorCode, type[StoreError]]] = {
    error.code: error
    for error in (
        errors.BackendFailure,
        errors.Fenced,
        errors.GuardFailed,
        errors.InvalidData,
        errors.KeeperUnreachable,
        errors.MasterExists,
        errors.NoQuorum,
        errors.NoSuchKey,
        errors.NoSuchMaster,
        errors.NoSuchPartition,
        errors.NotAllowed,
        errors.QuotaExceeded,
        errors.ReplicaRegressed,
        errors.RequestTimeout,
        errors.SequenceUnknown,
        errors.SessionExpired,
        errors.StaleData,
        errors.StoreClosed,
        errors.StoreConflict,
        errors.TypeClash,
    )
}


def store_error(code: ErrorCode, text: str) -> StoreError:
    """Make the error that a code stands for."""
    return _ERRORS.get(code, StoreError)(text)


_adding = threading.Lock()
"""Held while a receipt gets its list of callbacks, so that two threads do not make one each."""

_Entry = tuple[Callable[[], object], bool]

Callbacks = Sequence[Callable[[], object]]
"""Users' functions to call, now that an outcome is known."""


def _renew() -> None:
    """Replace the lock in a child process: a thread that is not there may hold it."""
    global _adding
    _adding = threading.Lock()


forking.renew(_renew)


@public
class Receipt(Bound):
    """One mutation on its way. Not looking at it is fire and forget.

    Slotted and small, since there is one for every mutation.
    """

    __slots__ = ("_callbacks", "_first", "_result", "_run", "request")

    _instead = "wait for its outcome here, and hand on the revision that it gives"

    def __init__(self, request: int, run: TrioToken) -> None:
        """Wait for the outcome of this request, which this run of trio brings."""
        self.request = request
        self._run = run
        self._result: Applied | Refused | Exception | None = None
        self._first = 0
        self._callbacks: list[_Entry] | None = None
        """What to call, and whether it only wakes what waits."""

    def __repr__(self) -> str:
        """Show what became of it."""
        try:
            state = "pending" if self._result is None else f"applied {self.outcome()}"
        except Exception as error:  # It is what the receipt tells of.
            state = f"failed: {error!r}"
        return f"<Receipt {state}>"

    @property
    def is_resolved(self) -> bool:
        """Tell whether the outcome is known."""
        return self._result is not None

    def resolve(self, result: Applied | Refused, first_request: int) -> Callbacks:
        """Take in the outcome, and give the callbacks to run; for the store's driver."""
        self._first = first_request
        self._result = result
        return () if self._callbacks is None else self._wake()

    def fail(self, error: Exception) -> Callbacks:
        """Take in that it could not even be asked, and give the callbacks; as ``resolve``."""
        self._result = error
        return () if self._callbacks is None else self._wake()

    def lose(self, error: Exception) -> None:
        """Take in, in a child process, that no outcome comes, and wake nothing: all is copied."""
        self._result, self._callbacks = error, None

    def _wake(self) -> list[Callable[[], object]]:
        """Wake what waits in the mesh's own code, and give the users' callbacks."""
        waiting, self._callbacks = self._callbacks, None
        of_users = []
        while waiting:
            # Taken out one by one: another thread that adds one just now calls what is left.
            callback, is_wake_up = waiting.pop(0)
            if is_wake_up:
                callback()
            else:
                of_users.append(callback)
        return of_users

    def when_resolved(self, callback: Callable[[], object]) -> None:
        """Call back once the outcome is known; at once, in this thread, if it is.

        What the callback raises is logged, and told as ``CALLBACK_FAILED`` if it came later.
        """
        self._call_when_resolved(arguments.function("callback", callback), is_wake_up=False)

    def wake_when_resolved(self, wake: Callable[[], object]) -> None:
        """Wake a task of the mesh's own once the outcome is known, from the endpoint's thread.

        A user's callback may run elsewhere: the blocking API has a thread for them.
        """
        self._call_when_resolved(wake, is_wake_up=True)

    def _call_when_resolved(self, callback: Callable[[], object], *, is_wake_up: bool) -> None:
        with _adding:
            callbacks = self._callbacks
            if callbacks is None:
                callbacks = self._callbacks = []
        entry = (callback, is_wake_up)
        callbacks.append(entry)
        # The outcome may have come meanwhile: the entry is called here unless the driver has it.
        if self._result is None or not _take_out(callbacks, entry):
            return
        try:
            callback()
        except Exception:
            if is_wake_up:
                raise
            logger.exception("a callback of a receipt raised")

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

        A task of trio or of asyncio waits, whichever API the receipt is from.
        Raises ``TypeClash``, ``NoSuchKey``, ``InvalidData``, ``GuardFailed``, ``BackendFailure`` or
        ``StoreClosed``; then nothing of it was applied, unless the text says otherwise.
        """
        if self._result is None:
            await wake_up(self.wake_when_resolved)
        return self.outcome()

    def result(self, timeout: Seconds = None) -> int:
        """Do as ``applied`` does, in a thread; raises ``RequestTimeout`` after ``timeout`` seconds.

        Whether the mutation is applied is then unknown; the receipt can be asked again. In a task
        of the loop that runs the endpoint it raises ``RuntimeError``: it would wait for ever.
        """
        if not self.wait(timeout):
            raise RequestTimeout(f"the master did not answer within {timeout} s; ask again")
        return self.outcome()

    def wait(self, timeout: Seconds = None) -> bool:
        """Wait in a thread until the outcome is known; false after ``timeout`` seconds."""
        limit = arguments.seconds("timeout", timeout)
        if self._result is None:
            if limit and runs_here(self._run):
                raise RuntimeError(
                    "the outcome comes by the loop of this thread, which cannot run while a call"
                    " waits for it: use await receipt.applied()"
                )
            event = threading.Event()
            self._call_when_resolved(event.set, is_wake_up=True)
            return event.wait(None if limit == math.inf else min(limit, threading.TIMEOUT_MAX))
        return True


def _take_out(entries: list[_Entry], entry: _Entry) -> bool:
    """Remove an entry; false if it was not there any more."""
    try:
        entries.remove(entry)
    except ValueError:
        return False
    return True
