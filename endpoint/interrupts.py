"""A second Ctrl-C ends a wait behind a shield, in whatever task of a program it waits.

trio raises ``KeyboardInterrupt`` in the main task. If that one waits for a nursery, the first
Ctrl-C cancels the nursery's tasks, and trio keeps the next one until all of them have ended: a task
that waits behind a shield would never get it. So while there is such a wait, a handler of ours
stands in front of trio's. It takes nothing away from trio's, and a program's own handler stays.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from types import FrameType
from typing import Final, Self

import trio

_ENOUGH: Final = 2
"""So many times Ctrl-C ends any wait: the first one is for an orderly end."""

_TRIO: Final = "trio._core."
"""Where the handler is from that trio puts in place of Python's: it turns Ctrl-C into an error."""


class EndedByInterrupt:
    """The block of a shielded scope, which the second Ctrl-C cancels.

    One that came before the block counts, too: its task leaves with it, or was cancelled by it.
    """

    __slots__ = ("_handler", "_scope", "_token", "is_ended")

    def __init__(self, scope: trio.CancelScope) -> None:
        """Take the scope, which has not been entered yet."""
        self._scope = scope
        self._handler: _Handler | None = None
        self._token: Token[EndedByInterrupt | None] | None = None
        self.is_ended = False
        """Whether Ctrl-C ended it."""

    @trio.lowlevel.enable_ki_protection  # A handler that stays would keep Ctrl-C from the program.
    def __enter__(self) -> Self:
        """Count Ctrl-C from now on, in the main thread, unless the program has its own handler."""
        self._handler = _installed()
        if self._handler is not None:
            outer = _outer.get()
            left = self._handler.waits.get(outer) if outer is not None else None
            if left is None:
                left = max(0, _ENOUGH - _heard())
            self._handler.waits[self] = left
            self._token = _outer.set(self)
            if left == 0:
                self.end()
        return self

    @trio.lowlevel.enable_ki_protection
    def __exit__(self, *error: object) -> None:
        """Count no more."""
        if self._handler is not None and self._token is not None:
            _outer.reset(self._token)
            del self._handler.waits[self]
            if not self._handler.waits:
                self._handler.remove()

    def end(self) -> None:
        """Cancel the scope."""
        self.is_ended = True
        self._scope.cancel()


_outer: Final = ContextVar[EndedByInterrupt | None]("wait behind a shield", default=None)
"""What waits inside of another such wait ends with it, although its own shield is further in."""


class _Handler:
    """Stands in front of trio's handler of Ctrl-C while there are waits behind shields."""

    __slots__ = ("_before", "_token", "waits")

    def __init__(self, before: Callable[[int, FrameType | None], object]) -> None:
        """Go on to the handler that was there before."""
        self._before = before
        self._token = trio.lowlevel.current_trio_token()
        self.waits: dict[EndedByInterrupt, int] = {}
        """How many more times Ctrl-C has to come for each."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Count it, and do what trio does."""
        for wait, left in self.waits.items():
            self.waits[wait] = max(0, left - 1)
            if left == 1:
                # Not at once: a signal comes in the middle of anything.
                self._token.run_sync_soon(wait.end)
        self._before(number, frame)

    def remove(self) -> None:
        """Put back what was there before, unless the program has a handler of its own by now."""
        found: object = signal.getsignal(signal.SIGINT)
        if found is self:
            signal.signal(signal.SIGINT, self._before)


def _installed() -> _Handler | None:
    """Give the handler, installed if it was not; ``None`` where trio makes no error of Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        return None
    found = signal.getsignal(signal.SIGINT)
    if isinstance(found, _Handler):
        return found
    if not callable(found) or not getattr(found, "__module__", "").startswith(_TRIO):
        return None
    handler = _Handler(found)
    signal.signal(signal.SIGINT, handler)
    return handler


def _heard() -> int:
    """Count what makes this task leave already: its cancellation, and each Ctrl-C raised in it."""
    is_cancelled = trio.current_effective_deadline() <= trio.current_time()
    if is_cancelled and _is_kept():
        return _ENOUGH
    found: set[int] = set()
    error = sys.exc_info()[1]
    while error is not None:
        found.update(id(leaf) for leaf in _leaves(error) if isinstance(leaf, KeyboardInterrupt))
        error = error.__context__
    return is_cancelled + len(found)


def _is_kept() -> bool:
    """Tell whether trio keeps a Ctrl-C for the main task, which waits for this one and has had one.

    It came between the cancellation of this task and its wait. trio has no public word for it.
    """
    runner = getattr(trio._core._run.GLOBAL_RUN_CONTEXT, "runner", None)  # noqa: SLF001 - see above
    return bool(getattr(runner, "ki_pending", False))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Give the errors of a group and of the groups in it, or the one error."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
