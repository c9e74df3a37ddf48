"""The kill loop itself: a few rounds, since the long runs are for the command."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.long
def test_three_kills_lose_nothing_and_double_nothing():
    command = [sys.executable, "-m", "benchmarks.kill_loop", "--rounds", "3"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "all there once" in found.stdout


def test_a_snapshot_is_measured():
    command = [sys.executable, "-m", "benchmarks.store_snapshot", "--entries", "2000"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    # Whether it was fast enough is not for a test to say.
    assert not found.stderr or found.stderr.startswith("missed: "), found.stderr
    assert "| sqlite |" in found.stdout
