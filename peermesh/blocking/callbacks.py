"""Runs the callbacks of all blocking endpoints, one after the other, in a thread of their own.

So a callback may call any method of any endpoint. The thread starts with the first of them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final

THREAD_NAME: Final = "peermesh callbacks"


class CallbackThread:
    """A thread that calls what it is given. Its methods are for the portal's thread."""

    def __init__(self) -> None:
        """Prepare; the thread starts when it is needed."""
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, call: Callable[[], object]) -> None:
        """Have something called soon that raises nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
            self._thread.start()
        self._queue.put(call)

    def end(self) -> None:
        """End the thread after all that was put in. Waits for nothing: a callback may be long."""
        self._queue.put(None)

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            call()
            del call  # Else what it holds lives on until the next one.
