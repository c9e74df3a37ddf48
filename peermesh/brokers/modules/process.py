"""A module in a process of its own: what it does cannot hold up, or bring down, the others.

Here are its description, and the process: how it is started, what is shared with it, how it ends.
"""

from __future__ import annotations

import contextlib
import mmap
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Final

from endpoint import arguments as checks
from peermesh.brokers.modules.pipe import Pipe
from wire.encoding import encode
from wire.values import Value

END_SECONDS: Final = 5.0
"""How long a process may take to end when it is told to; then it is killed."""

GROUP_SIGNALS: Final = (signal.SIGINT, signal.SIGHUP)
"""What a terminal sends to all processes of its group: the broker then ends its own in order."""

BEGUN, ENDED, DROPPED = range(3)
"""What a broker shares with one process: how many messages the module was given, how many it has
done with, and, if not 0, that it gets no more of those that the process has."""

SHARED_SIZE: Final = 24


def shared_numbers(descriptor: int) -> memoryview:
    """Map a file as numbers. They survive the process, and reading them costs no message."""
    return memoryview(mmap.mmap(descriptor, SHARED_SIZE)).cast("Q")


class ProcessModule:
    """Runs ``package.module:Class`` in another process; that one is a module with plain methods."""

    def __init__(self, path: str, **arguments: Value) -> None:
        """Call the class over there with these arguments, which have to be values of the mesh.

        Raises ``EncodeError`` for others.
        """
        self.path = checks.text("path", path)
        encode(arguments)  # A mistake is told here, not by the thread that starts the process.
        self.arguments = arguments
        self.child: Child | None = None
        """Its process now, if there is one."""

    @property
    def pid(self) -> int | None:
        """The number of the process now, if there is one."""
        return self.child.pid if self.child is not None else None


class Child:
    """One process of a module, from its start to its end."""

    def __init__(self, module: ProcessModule, name: str, number: int) -> None:
        """Start it; raises ``OSError``."""
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            file = stack.enter_context(tempfile.TemporaryFile())
            file.truncate(SHARED_SIZE)
            descriptors = (theirs.fileno(), file.fileno())
            # Until it ignores them by itself, the process has them blocked, as this thread has.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)
            try:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "peermesh.brokers.modules.child"),
                        *map(str, descriptors),
                        module.path,
                    ],
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                )
            except OSError:
                ours.close()
                raise
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            self.shared = shared_numbers(file.fileno())
        self.pipe = Pipe(ours)
        self.settled = 0
        """Messages that this process was sent and of which it is known what became of them."""
        self.reaped = False
        """Whether the process has ended."""
        # Not as arguments of the command: every user of the machine can read those.
        described: Value = {"arguments": module.arguments, "name": name, "number": number}
        self.send([encode(described)])

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send(self, values: Iterable[bytes]) -> None:
        """Send encoded values in one write, unless the process is dying: its end is seen."""
        with contextlib.suppress(OSError):
            self.pipe.write(values)

    def end(self) -> None:
        """Have it end, and kill it when it does not."""
        self.send([encode(("close",))])
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def reap(self) -> int:
        """Wait for the end of a process whose pipe has ended, and give its code."""
        self.pipe.close()
        code = self._process.wait()
        self.reaped = True
        return code
