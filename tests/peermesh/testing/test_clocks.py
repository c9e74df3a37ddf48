"""Another time of day for one process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from peermesh.testing.clocks import USAGE, skew_clock

ROOT = Path(__file__).parent.parent.parent.parent
SHOW = "import sys, time\nprint(time.time(), time.time_ns() / 1e9, sys.argv[1:], __name__)"


def run(*arguments):
    command = [sys.executable, "-m", "peermesh.testing.clocks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("as_module", [False, True])
def test_a_program_sees_another_time_of_day(tmp_path, monkeypatch, hours, as_module):
    (tmp_path / "shows.py").write_text(SHOW)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    program = ["-m", "shows"] if as_module else [str(tmp_path / "shows.py")]
    before = time.time()
    done = run(str(hours * 3600), *program, "--option")
    after = time.time()
    assert done.stderr == ""
    seconds, from_ns, *rest = done.stdout.split(maxsplit=2)
    for seen in (float(seconds), float(from_ns)):
        assert before <= seen - hours * 3600 <= after
    assert rest == ["['--option'] __main__\n"]


def test_skewing_is_of_the_true_time_and_can_be_taken_back():
    true = time.time
    try:
        skew_clock(1000)
        skew_clock(500)
        assert 499 < time.time() - true() < 501
    finally:
        skew_clock(0)
    assert abs(time.time() - true()) < 1


def test_whoever_forgets_the_program_is_told_the_usage():
    failed = run("5")
    assert (failed.returncode, failed.stderr) == (1, f"{USAGE}\n")
