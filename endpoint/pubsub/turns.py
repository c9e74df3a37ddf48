"""How a publisher waits in the world that it runs in: trio, unless a front end says otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

Wait = Callable[[], Awaitable[object]]
"""Waits in a task of trio."""


class Turns(Protocol):
    """How the tasks of a program wait that publish."""

    async def pause(self, *, is_due: bool) -> None:
        """Raise if the task is cancelled; and let others run if that ``is_due``."""

    async def wait(self, wait: Wait) -> None:
        """Wait in a task of trio. What comes after it happens in the publisher's own."""


class TrioTurns:
    """Publishers are tasks of trio themselves."""

    async def pause(self, *, is_due: bool) -> None:
        """Pass a checkpoint, or look whether the task is cancelled."""
        if is_due:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()

    async def wait(self, wait: Wait) -> None:
        """Wait here."""
        await wait()
