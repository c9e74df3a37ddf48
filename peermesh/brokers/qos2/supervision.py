"""Starts a part again when it has failed, while the others go on (seed: Supervision Tree)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from wire.logs import logger_of

logger = logger_of(__name__)

RESTART_SECONDS: Final = 0.1
"""The pause before the first start again."""

RESTART_SECONDS_MAX: Final = 10.0
"""The pause grows up to this, so that a part that cannot live does not eat the machine."""

STEADY_SECONDS: Final = 60.0
"""A part that has lived so long begins with the shortest pause again."""


async def supervise(name: str, part: Callable[[], Awaitable[object]]) -> None:
    """Run a part until it ends by itself, or this is cancelled; whatever it raises is reported."""
    pause = RESTART_SECONDS
    while True:
        began = trio.current_time()
        try:
            await part()
        except Exception:
            logger.exception("the %s failed, and is started again", name)
        else:
            return
        if trio.current_time() - began >= STEADY_SECONDS:
            pause = RESTART_SECONDS
        await trio.sleep(pause)
        pause = min(2 * pause, RESTART_SECONDS_MAX)
