"""Sees that nothing stays behind of a process that had a session of its own.

A Spark job that is killed leaves its JVM and its Python workers, which take a while to notice. All
of them are in the session of the job, wherever else they moved.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

PROCESSES: Final = Path("/proc")

LOOK_SECONDS: Final = 0.02
"""Between two looks at processes that were killed; the system needs a few milliseconds each."""

GONE_SECONDS_MAX: Final = 10.0
"""How long killed processes may take to be gone: longer than any write they are in."""


def session_members(session: int) -> list[int]:
    """List the living processes of a session; empty where the system does not tell."""
    members = []
    for entry in PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            # The name is in parentheses, and may hold anything, parentheses too.
            state, _, _, its_session = entry.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                members.append(int(entry.parent.name))
    return sorted(members)


async def end_session(session: int) -> None:
    """Kill whatever is left of a session, and wait until it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    with trio.move_on_after(GONE_SECONDS_MAX):
        while members := session_members(session):
            for process in members:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            await trio.sleep(LOOK_SECONDS)
