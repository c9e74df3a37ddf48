"""Another time of day for one process: of Python code in it, from the next look at the clock on.

Monotonic time goes on as it does, as when somebody sets the clock of a machine. What took
``time.time`` by its own name before, code in C, and ``datetime.now`` see the true time still;
peermesh asks the module each time.

A whole program is run with a skewed clock by ``python -m peermesh.testing.clocks SECONDS -m MODULE
...``, or with the path of a script instead of ``-m MODULE``.
"""

from __future__ import annotations

import runpy
import sys
import time
from typing import Final

_TRUE: Final = (time.time, time.time_ns)

USAGE: Final = "usage: python -m peermesh.testing.clocks SECONDS (-m MODULE | SCRIPT) ..."


def skew_clock(seconds: float) -> None:
    """Set this process's time of day so many seconds ahead of the true one, or behind it."""
    true, true_ns = _TRUE
    skew_ns = round(seconds * 1_000_000_000)
    time.time = lambda: true() + seconds
    time.time_ns = lambda: true_ns() + skew_ns


def main(arguments: list[str]) -> None:
    """Skew the clock, and become the program."""
    match arguments:
        case [seconds, "-m", module, *rest]:
            skew_clock(float(seconds))
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [seconds, script, *rest]:
            skew_clock(float(seconds))
            sys.argv = [script, *rest]
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.exit(USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
