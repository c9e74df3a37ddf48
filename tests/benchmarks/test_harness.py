"""The benchmarks run, check what came, and print what programs and people can read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Goal, RunFailed, Variant, run_once

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("pubsub", "publish 100 B"),
        ("mixes", "two subscribers"),
        ("latency", "peermesh, any core"),
        ("store", "put, memory"),
        ("qos2", "in memory, 16 pairs"),
    ],
)
def test_a_quick_run_gives_a_line_of_json(name: str, variant: str) -> None:
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--json", "--match", variant]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["benchmark"] == name
    assert variant in line


def test_a_role_that_fails_is_a_failed_run_with_its_last_words() -> None:
    variant = Variant("broken", ("benchmarks.harness:Nothing",), dict, "x", count=1)
    with pytest.raises(RunFailed, match="Nothing"):
        run_once(variant)


@pytest.mark.parametrize(("value", "is_reached"), [(0.4, False), (0.5, True)])
def test_a_goal_judges_a_ratio(value: float, is_reached: bool) -> None:
    assert Goal("a", "b", at_least=0.5).is_reached(value) is is_reached
    assert Goal("a", "b", at_most=0.5).is_reached(value) is (value <= 0.5)
    assert Goal("a", "b").is_reached(value) is None
