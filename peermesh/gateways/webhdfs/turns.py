"""Turns of changes: those of one file come one after the other, and do not undo each other's work.

Guards alone would do, as they have to between gateways. But of many that change one file at once
one gets on, and all others have decided in vain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

import trio

from peermesh.gateways.refusals import Busy
from peermesh.gateways.webhdfs.limits import PAUSE_SECONDS, WAIT_SECONDS
from peermesh.gateways.webhdfs.paths import Path, path_text


class PathTurns:
    """Who is at work on which path. Paths that are at rest are not known here."""

    def __init__(self) -> None:
        """Know no path yet."""
        self._locks: WeakValueDictionary[Path, trio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        """Count the paths that are not at rest."""
        return len(self._locks)

    @asynccontextmanager
    async def of(self, paths: Iterable[Path], until: float) -> AsyncIterator[None]:
        """Wait for the turn at all of these; raises ``Busy`` if it does not come until then."""
        async with AsyncExitStack() as stack:
            # In one order everywhere: no two of them wait for each other.
            for path in sorted(set(paths)):
                lock = self._locks.setdefault(path, trio.Lock())
                with trio.move_on_at(until) as waiting:
                    await lock.acquire()
                    stack.callback(lock.release)
                if waiting.cancelled_caught:
                    raise too_busy(path)
            yield


def too_busy(path: Path) -> Busy:
    """Give the refusal of a change for which there was no turn."""
    return Busy(
        f"others change {path_text(path)} all the time, and no turn came within {WAIT_SECONDS:g} s:"
        " nothing was done, so try again"
    )


def pause_seconds(failures: int, chance: float) -> float:
    """Say how long to wait once other gateways were faster so often; ``chance`` is below 1.

    Once may well be no race at all, and is no reason to wait.
    """
    return chance * PAUSE_SECONDS * (failures - 1)
