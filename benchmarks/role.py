"""One process of a benchmark: ``python -m benchmarks.role MODULE:FUNCTION TASK``.

A role is started by the harness. It tells three things, each in a line of JSON on its standard
output: how to reach it, once it is ready; what it found, once it is done; and the processor time
that this took, once it is dismissed. It is dismissed by the end of its standard input, so that
nobody leaves while others still listen.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import trio


@dataclass(slots=True)
class Task:
    """What a role has to do, and its line to the process that started it."""

    count: int
    """Messages, round trips or entries."""
    size: int
    """Bytes of each."""
    seconds_max: int
    """After so long the system ends this process, whatever became of the one that started it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    met: list[dict[str, Any]] = field(default_factory=list)
    """What the roles that were started before said, in their order."""
    cpu_clock: Callable[[], float] = time.process_time
    """Seconds of processor time: of this process, or of the one that it runs."""
    _cpu_start: float = 0.0

    @property
    def last_met(self) -> dict[str, Any]:
        """What the role said that was started just before this one."""
        return self.met[-1]

    def introduce(self, **facts: Any) -> None:
        """Say how to reach this role; processor time counts from here."""
        self._cpu_start = self.cpu_clock()
        _say(facts)

    def report(self, **facts: Any) -> None:
        """Say what was found."""
        _say(facts)

    def dismissed(self) -> None:
        """Wait for the end of the run, in plain Python."""
        sys.stdin.read()
        _say({"cpu_seconds": self.cpu_clock() - self._cpu_start})

    async def dismissed_async(self) -> None:
        """Wait for the end of the run, in trio."""
        await trio.to_thread.run_sync(self.dismissed, abandon_on_cancel=True)


def _say(facts: Mapping[str, Any]) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    """Find the function, and run it, in trio if it is a coroutine function."""
    name, text = sys.argv[1:]
    task = Task(**json.loads(text))
    signal.alarm(task.seconds_max)
    if "core" in task.options:
        os.sched_setaffinity(0, {task.options["core"]})
    os.environ |= task.options.get("environment", {})
    module, _, function_name = name.partition(":")
    function = getattr(importlib.import_module(module), function_name)
    if inspect.iscoroutinefunction(function):
        trio.run(function, task)
    else:
        function(task)


if __name__ == "__main__":
    main()
