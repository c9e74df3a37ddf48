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
]
