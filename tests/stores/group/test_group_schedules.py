"""With all rules on, no schedule goes wrong."""

from __future__ import annotations

import pytest

from tests.stores.group.schedules import SCHEDULES


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.__name__)
def test_all_rules_together_hold_in_every_schedule(schedule):
    schedule()
