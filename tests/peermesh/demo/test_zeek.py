"""A recorded day of real traffic, counted exactly though the log's leader is killed."""

from __future__ import annotations

import pytest

from tests.recorded import recorded

pytestmark = [pytest.mark.spark, pytest.mark.long]

LINES = 53_615


def test_a_recorded_day_is_counted_exactly(demo):
    options = ("--json", "--pace", "3", "--kill", "log-leader")
    with demo(recorded("zeek-dns.json.gz"), "query", *options) as run:
        verdict = run.verdict()
    assert verdict["is_exact"]
    assert (verdict["lost"], verdict["double"], verdict["late"]) == (0, 0, 0)
    assert verdict["events"] == verdict["events_in_replica"] == verdict["lines_in_log"] == LINES
    assert verdict["windows"] == verdict["windows_in_replica"] > 20
    assert verdict["killed"] == ["log-leader"]
