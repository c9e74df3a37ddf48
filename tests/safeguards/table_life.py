"""The safeguards of an endpoint's life: its tasks, its readers, and threads that use it."""

from __future__ import annotations

from tests.safeguards.safeguard import Safeguard

LIFE = [
    Safeguard(
        "an endpoint works until its block is left",
        "who is cancelled cannot put anything in order: what he asks is never answered",
        "endpoint/tasks.py",
        "        with trio.CancelScope(shield=True) as scope:\n",
        "        with trio.CancelScope() as scope:\n",
        ("tests/endpoint/test_shutdown.py",),
    ),
    Safeguard(
        "readers hear of the last of a burst",
        "a thread waits for more, while what has come waits for it",
        "endpoint/connection.py",
        "            self._host.rest()\n            chunk = await",
        "            chunk = await",
        ("tests/endpoint/test_readers.py",),
    ),
    Safeguard(
        "a closed clone is not read",
        "a clone that nobody keeps up to date is read as if it were",
        "endpoint/store_runner.py",
        "        self.error = error\n        self.is_in_touch = False\n",
        "        self.error = error\n",
        ("tests/endpoint/test_store_reading.py::test_a_closed_clone_is_not_read",),
    ),
    Safeguard(
        "large messages of threads are counted",
        "threads that publish faster than the mesh takes fill the memory",
        "peermesh/blocking/outbound.py",
        "                self._is_crowded = True\n",
        "                pass\n",
        ("tests/peermesh/test_blocking_flow.py",),
    ),
    Safeguard(
        "a stream lets its reader sleep",
        "a reader takes many small bites of a stream, and a core for itself",
        "endpoint/connection.py",
        "                if self._is_conversing:\n                    self.patience.found()\n"
        "                else:\n                    self.patience.missed()\n",
        "                self.patience.found()\n",
        ("tests/endpoint/test_patience.py",),
    ),
    Safeguard(
        "what is large is no conversation",
        "who streams large messages both ways keeps a core busy with looking",
        "endpoint/connection.py",
        "        return 0 < self._said < CONVERSATION_SIZE\n",
        "        return 0 < self._said\n",
        ("tests/endpoint/test_patience.py",),
    ),
    Safeguard(
        "one connection at a time keeps an endpoint awake",
        "with a hundred peers each look takes as long as looking at all of them",
        "endpoint/connection.py",
        "        if patience.seconds and not host.is_polling:\n",
        "        if patience.seconds:\n",
        ("tests/endpoint/test_patience.py",),
    ),
    Safeguard(
        "nobody stays awake on a simulated network",
        "time stands still there for whoever does not sleep",
        "endpoint/transport.py",
        "        self.polls = readiness is trio.lowlevel and cores() > 1\n",
        "        self.polls = cores() > 1\n",
        ("tests/endpoint/test_patience.py",),
    ),
    Safeguard(
        "looking in vain is tried ever less often",
        "with more processes than cores, each takes the time that the other needs to answer",
        "endpoint/patience.py",
        "min(2 * self._pause, PAUSE_MAX)",
        "1",
        ("tests/endpoint/test_patience.py",),
    ),
    Safeguard(
        "TLS looks for what is there",
        "an answer over TLS wakes nobody who stays awake for it",
        "endpoint/tls.py",
        "        while (chunk := self._read()) is None:\n            sealed =",
        "        while (chunk := None) is None:\n            sealed =",
        ("tests/endpoint/test_patience.py",),
    ),
]
