"""Brokers that are killed or stopped under live clients lose, double and reorder nothing."""

from __future__ import annotations

import pytest
import trio

from peermesh.testing.time_limits import limit
from tests.peermesh.brokers.edge.rounds import ENDS, WRONG, ZOOKEEPER, play


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "kind", [pytest.param(ZOOKEEPER, marks=pytest.mark.zookeeper), "embedded", "lone"]
)
async def test_live_clients_notice_no_change_of_broker(kind: str, end: str) -> None:
    with trio.fail_after(limit(120)):
        found = await play(kind, end, rounds=1)
    assert found["messages"] > 0
    assert not any(found[what] for what in WRONG)


@pytest.mark.zookeeper
async def test_live_clients_and_one_of_the_seed_s_notice_no_end_of_zookeeper() -> None:
    with trio.fail_after(limit(120)):
        found = await play(ZOOKEEPER, ZOOKEEPER, rounds=2)
    assert found["messages"] > 0
    assert not any(found[what] for what in WRONG)
