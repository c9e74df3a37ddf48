"""A role's link to its supervisor: reports go out, orders come in, and the end of both is the end.

Reports are lines of JSON on a pipe of their own, since Spark and its JVM write to stdout. Orders
are lines of JSON on stdin. When stdin ends, the supervisor wants the role to end, or is gone; so no
role outlives its supervisor, whatever happens to that.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from peermesh.demo.plan import Input, Plan, Ports

END_SECONDS_MAX: Final = 5.0
"""How long a role may take to end in order. It may wait for another that has ended already."""

Message = dict[str, Any]
"""A report or an order: ``event`` or ``order`` names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a role is told when it starts, as its only argument."""

    reports: int
    """The file descriptor for reports."""
    directory: str
    """Where the demo keeps its files."""
    what: Input
    plan: Plan
    ports: Ports
    draws: bool
    """Whether the viewer shows the table."""
    member: int = 0
    """Which of the processes with the stores it is."""

    def text(self) -> str:
        """Write it as an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the argument."""
        found = json.loads(text)
        what, plan = Input(**found.pop("what")), Plan(**found.pop("plan"))
        return cls(what=what, plan=plan, ports=Ports.of(found.pop("ports")), **found)

    def path(self, name: str) -> Path:
        """Give a file in the demo's directory."""
        return Path(self.directory, name)

    def total(self) -> int:
        """Give the lines of all replays."""
        return self.plan.total(self.what.copies)


class Reports:
    """The way out."""

    def __init__(self, descriptor: int) -> None:
        """Write to this file descriptor, which Spark's processes need not inherit."""
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the call has no keywords
        self._descriptor = descriptor

    def send(self, event: str, **details: object) -> None:
        """Report something; a supervisor that is gone does not matter any more."""
        data = json.dumps({"event": event, **details}).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BrokenPipeError:
            pass


class Orders:
    """The way in, read by a thread that ends with the process, and sees that it ends."""

    def __init__(self, receive: Callable[[Message], object], end: Callable[[], object]) -> None:
        """Call ``receive`` with every order and ``end`` after the last, from the thread."""
        self._receive = receive
        self._end = end
        self.is_ended = False

    def start(self) -> Self:
        """Begin to read."""
        threading.Thread(target=self._read, name="orders", daemon=True).start()
        return self

    def _read(self) -> None:
        # A buffered read of sys.stdin would hold its lock, and Python wants that when it ends.
        with open(os.dup(0), "rb") as stdin:
            for line in stdin:
                self._receive(json.loads(line))
        self.is_ended = True
        self._end()
        time.sleep(END_SECONDS_MAX)
        os._exit(1)
