"""Waits that go on when their task is cancelled: each has a limit, and says what it waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from wire.logs import logger_of

logger = logger_of("peermesh.endpoint")


@contextmanager
def shielded(what: str, seconds: float) -> Iterator[None]:
    """Go on within the block although the task is cancelled, for ``seconds`` at most.

    Then the rest of the block is left out, and a warning says that there was no end to ``what``.
    """
    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
        yield
    if scope.cancelled_caught:
        logger.warning("waited %g s for %s in vain: it is left as it is", seconds, what)
