"""The processes of one run, seen from the one that starts them; and who else used the machine."""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parent.parent

LEAVE_SECONDS: Final = 10.0
"""How long a dismissed process may take before it is killed."""


class RunFailed(Exception):
    """A process ended early or in silence. Its last words are in the text."""


class RoleProcess:
    """A ``benchmarks.role`` with this interpreter. Leaving the block ends it, by its own id."""

    def __init__(self, function: str, task: dict[str, Any]) -> None:
        """Start it."""
        # Settings of the user's own mesh would change what is measured.
        clean = {key: text for key, text in os.environ.items() if not key.startswith("PEERMESH_")}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open for as long as the process
        self._function = function
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.role", function, json.dumps(task)],
            cwd=ROOT,
            env=clean,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._unread = b""

    def hear(self, seconds: float) -> dict[str, Any]:
        """Wait for the next thing that it tells; raises ``RunFailed``."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise RunFailed(f"{self._function} said nothing for {seconds:.0f} s{self._words()}")
            chunk = os.read(self._process.stdout.fileno(), 65_536)
            if not chunk:
                raise RunFailed(f"{self._function} ended early{self._words()}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        facts: dict[str, Any] = json.loads(line)
        return facts

    def dismiss(self) -> dict[str, Any]:
        """Tell it that the run is over, and hear what it took."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.hear(LEAVE_SECONDS)

    def _words(self) -> str:
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return f":\n{text}" if text else ""

    def __enter__(self) -> Self:
        """Run within the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it: in peace after a good run, at once after a bad one."""
        try:
            if kind is None:
                self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._errors.close()


class ForeignLoad:
    """Cores that processes which are not ours took since the beginning of a run."""

    def __init__(self) -> None:
        """Begin now."""
        self._start = time.monotonic()
        self._all = _busy_seconds()
        self._ours = _our_seconds()

    def cores(self) -> float | None:
        """Give their number; ``None`` where the system does not tell."""
        busy = _busy_seconds()
        if busy is None or self._all is None:
            return None
        foreign = busy - self._all - (_our_seconds() - self._ours)
        return max(0.0, foreign) / max(1e-9, time.monotonic() - self._start)


def _busy_seconds() -> float | None:
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _, _, interrupt, soft_interrupt, steal = map(int, line.split()[1:9])
    busy = user + nice + system + interrupt + soft_interrupt + steal
    return busy / os.sysconf("SC_CLK_TCK")


def _our_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    usages = [resource.getrusage(kind) for kind in kinds]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
