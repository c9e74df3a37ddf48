"""Waits that go on when their task is cancelled: each has a limit, and says what it waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from endpoint.interrupts import EndedByInterrupt
from wire.logs import logger_of

logger = logger_of("peermesh.endpoint")


@contextmanager
def shielded(what: str, seconds: float) -> Iterator[None]:
    """Go on within the block although the task is cancelled, for ``seconds`` at most.

    Then the rest of the block is left out, and a warning says that there was no end to ``what``.
    A second Ctrl-C ends it at once, as ``KeyboardInterrupt``: the first is what cancels the task.
    """
    scope = trio.CancelScope(shield=True, deadline=trio.current_time() + seconds)
    with EndedByInterrupt(scope) as interrupt, scope:
        yield
    if not scope.cancelled_caught:
        return
    if not interrupt.is_ended:
        logger.warning("waited %g s for %s in vain: it is left as it is", seconds, what)
    elif not trio.lowlevel.currently_ki_protected():
        raise KeyboardInterrupt
