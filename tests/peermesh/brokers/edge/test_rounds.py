"""Brokers that are killed or stopped under live clients lose, double and reorder nothing."""

from __future__ import annotations

import pytest
import trio

from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.edge.rounds import ENDS, WRONG, play


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "kind", [pytest.param("zookeeper", marks=pytest.mark.zookeeper), "embedded", "lone"]
)
async def test_live_clients_notice_no_change_of_broker(kind: str, end: str) -> None:
    with trio.fail_after(limit(120)):
        found = await play(kind, end, rounds=1)
    assert found["messages"] > 0
    assert not any(found[what] for what in WRONG)
