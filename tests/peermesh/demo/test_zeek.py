"""Recorded days of real traffic, counted exactly though a keeper or a master is killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BESIDE = Path(__file__).parents[3].parent / "shared" / "data"


def recorded(name: str) -> Path:
    """Find a recorded day in the folder that ZEEK_LOGS names, or beside this tree."""
    path = Path(os.environ.get("ZEEK_LOGS") or BESIDE) / name
    if not path.is_file():
        pytest.skip(f"there is no {name}, neither beside this tree nor where ZEEK_LOGS points")
    return path


@pytest.mark.parametrize(
    ("name", "key", "options", "lines"),
    [
        ("zeek-dns.json.gz", "query", ["--kill", "keeper"], 53_615),
        ("zeek-weird.json.gz", "name", ["--kill", "master", "--replay", "2"], 2 * 24_202),
    ],
)
def test_a_recorded_day_is_counted_exactly(demo, name, key, options, lines):
    with demo(recorded(name), key, "--json", "--pace", "3", *options) as run:
        verdict = run.verdict()
    assert verdict["is_exact"]
    assert (verdict["lost"], verdict["double"], verdict["late"]) == (0, 0, 0)
    assert verdict["events"] == verdict["events_on_clone"] == verdict["lines_in_log"] == lines
    assert verdict["windows"] == verdict["windows_on_clone"] > 20
    assert verdict["killed"] == [options[1]]
