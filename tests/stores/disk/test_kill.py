"""A real process with a durable master is killed for good: what it acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stores.replica.conftest import World

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from pathlib import Path

from tests.stores.replica.conftest import World

world = World()
master = world.master(Path(sys.argv[1]))
for number in range(1_000_000):
    # Each put has a twin: they are asked for together, and may only be found together.
    for name in ("one", "two"):
        master.put((name, number), number)
    world.settle()
    print(max(master.outcomes), flush=True)
"""


@pytest.mark.parametrize("lines", [1, 2, 50, 333])
def test_what_was_acknowledged_survives_the_kill(tmp_path, lines):
    path = tmp_path / "store.db"
    arguments = [sys.executable, "-c", PROGRAM, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    world = World()
    master = world.master(path, is_integrity_checked=True)
    found, revision = master.contents(), master.core.revision
    world.close()
    assert acknowledged == [2 * number for number in range(1, lines + 1)]
    assert revision >= acknowledged[-1]
    assert revision == len(found)
    for number in range(revision // 2):
        assert found["one", number] == found["two", number] == number
