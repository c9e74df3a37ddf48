"""Receipts: the outcome of a mutation, awaited or told to a callback (design section 10)."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Final

from trio.lowlevel import TrioToken

from endpoint import arguments
from endpoint.barriers import Seconds
from endpoint.bound import Bound
from net import forking
from net.awaiting import runs_here, wake_up
from stores.outcomes import Applied, Outcome, Refused
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


def named(what: str, text: str) -> str:
    """Have a text say of which store or log it is, if it does not: ``what`` is as ``store s``."""
    return text if what in text else f"{what}: {text}"


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

ANSWERS_COUNT: Final = 256
"""Requests whose outcomes stand together: as many as a run of puts has, which has one outcome."""

_last_request: Final = attrgetter("last_request")


class Answers:
    """The outcomes of requests that were asked one after the other, as they come in.

    Their receipts look here. So the store's driver keeps and tells only those that a caller waits
    for, and a receipt that the caller drops is gone at once.
    """

    __slots__ = ("_error", "_outcomes", "_waiting", "end", "first", "run", "what")

    def __init__(self, what: str, first: int, run: TrioToken, count: int = ANSWERS_COUNT) -> None:
        """Have none so far of so many requests from ``first``; this run of trio brings them.

        ``what`` names the store or log in errors: what they are of says the core, and not where.
        """
        self.what = what
        self.first = first
        self.end = first + count
        """The first request of the next ones."""
        self.run = run
        self._outcomes: list[Outcome] = []
        self._error: Exception | None = None
        """What all come to that have no outcome."""
        self._waiting: dict[int, Receipt] = {}

    def find(self, request: int) -> Outcome | Exception | None:
        """Give what became of a request, if that is known."""
        if not (outcomes := self._outcomes):
            return self._error
        at = bisect_left(outcomes, request, key=_last_request)
        is_known = at < len(outcomes) and outcomes[at].first_request <= request
        return outcomes[at] if is_known else self._error

    def watch(self, receipt: Receipt) -> Outcome | Exception | None:
        """Have a receipt told, which calls something then; gives what is known by now."""
        self._waiting[receipt.request] = receipt
        return self.find(receipt.request) if self._outcomes else self._error

    def forget(self, receipt: Receipt) -> None:
        """Have it told no more."""
        self._waiting.pop(receipt.request, None)

    def resolve(self, outcome: Outcome) -> Callbacks:
        """Take in what became of some, in the order of requests; gives the callbacks to run."""
        self._outcomes.append(outcome)
        callbacks: list[Callable[[], object]] = []
        if waiting := self._waiting:
            first = max(outcome.first_request, self.first)
            for request in range(first, min(outcome.last_request + 1, self.end)):
                if (receipt := waiting.pop(request, None)) is not None:
                    callbacks += receipt.come_to(outcome)
        return callbacks

    def fail(self, error: Exception) -> Callbacks:
        """Take in that the others have no outcome, as their store has failed."""
        self._error = error
        told = filter(None, map(self._waiting.pop, list(self._waiting), repeat(None)))
        return [callback for receipt in told for callback in receipt.come_to(error)]

    def lose(self, error: Exception) -> None:
        """Take in, in a child process, that no outcome comes, and wake nothing: all is copied."""
        self._error = error
        for receipt in self._waiting.values():
            receipt.lose(error)
        self._waiting.clear()


@public
class Receipt(Bound):
    """One mutation on its way. Not looking at it is fire and forget.

    Slotted and small, since there is one for every mutation.
    """

    __slots__ = ("_answers", "_callbacks", "_found", "request")

    _instead = "wait for its outcome here, and hand on the revision that it gives"

    def __init__(self, request: int, answers: Answers) -> None:
        """Have the outcome of this request, once it is among these; zero has no number yet."""
        self.request = request
        self._answers = answers
        self._found: Outcome | Exception | None = None
        self._callbacks: list[_Entry] | None = None
        """What to call, and whether it only wakes what waits."""

    def __repr__(self) -> str:
        """Show what became of it."""
        try:
            state = f"applied {self.outcome()}" if self.is_resolved else "pending"
        except Exception as error:  # It is what the receipt tells of.
            state = f"failed: {error!r}"
        return f"<Receipt {state}>"

    @property
    def is_resolved(self) -> bool:
        """Tell whether the outcome is known."""
        return self._found is not None or self._look() is not None

    def adopt(self, request: int, answers: Answers) -> None:
        """Take the number that the request has got; for the store's driver."""
        self._answers = answers
        self.request = request
        if self._callbacks is not None:
            answers.watch(self)

    def come_to(self, found: Outcome | Exception) -> Callbacks:
        """Take in the outcome, or why there is none, and give the callbacks to run."""
        self._found = found
        return () if self._callbacks is None else self._wake()

    def lose(self, error: Exception) -> None:
        """Take in, in a child process, that no outcome comes, and wake nothing: all is copied."""
        self._found, self._callbacks = error, None

    def _look(self) -> Outcome | Exception | None:
        found = self._answers.find(self.request)
        if found is not None:  # Another thread may have failed one that has no number.
            self._found = found
        return found

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
        found = self._found
        if self.request:  # One without a number is watched once it gets it.
            found = self._answers.watch(self) or found
        # The outcome may have come meanwhile: the entry is called here unless the driver has it.
        if found is None or not _take_out(callbacks, entry):
            return
        if not callbacks:  # Else the driver is about to call what others have added.
            self._answers.forget(self)
        try:
            callback()
        except Exception:
            if is_wake_up:
                raise
            logger.exception("a callback of a receipt raised")

    def outcome(self) -> int:
        """Give the revision, or raise the master's error; only when it is resolved."""
        found = self._found or self._look()
        if isinstance(found, Exception):
            raise found
        assert found is not None, "the outcome is not known yet"
        result = found.result
        if isinstance(result, Refused):
            raise store_error(result.code, named(self._answers.what, result.text))
        return result.revision + self.request - found.first_request

    def is_inserted(self) -> bool:
        """Give the answer to a put_unique, or raise; only when it is resolved."""
        self.outcome()
        found = self._found
        assert isinstance(found, Outcome), found
        return isinstance(found.result, Applied) and found.result.answer is not False

    def has_held(self) -> bool:
        """Tell whether the guards of a batch held, or raise; only when it is resolved."""
        return self.is_inserted()

    async def applied(self) -> int:
        """Wait until the master has applied it, durably where its backend is; give the revision.

        A task of trio or of asyncio waits, whichever API the receipt is from.
        Raises ``TypeClash``, ``NoSuchKey``, ``InvalidData``, ``GuardFailed``, ``BackendFailure`` or
        ``StoreClosed``; then nothing of it was applied, unless the text says otherwise.
        """
        if self._found is None and self._look() is None:
            await wake_up(self.wake_when_resolved)
        return self.outcome()

    def result(self, timeout: Seconds = None) -> int:
        """Do as ``applied`` does, in a thread; raises ``RequestTimeout`` after ``timeout`` seconds.

        Whether the mutation is applied is then unknown; the receipt can be asked again. In a task
        of the loop that runs the endpoint it raises ``RuntimeError``: it would wait for ever.
        """
        if not self.wait(timeout):
            raise RequestTimeout(f"{self._answers.what}: no answer within {timeout} s; ask again")
        return self.outcome()

    def wait(self, timeout: Seconds = None) -> bool:
        """Wait in a thread until the outcome is known; false after ``timeout`` seconds."""
        limit = arguments.seconds("timeout", timeout)
        if not self.is_resolved:
            if limit and runs_here(self._answers.run):
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
