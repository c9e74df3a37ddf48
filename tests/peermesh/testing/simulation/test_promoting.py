"""A clone that is promoted while its master's farewell is on its way, for longer or shorter."""

from __future__ import annotations

import pytest

from peermesh import Endpoint
from peermesh.errors import PromotionRefused
from peermesh.testing.faults import Delay
from peermesh.testing.simulation import Simulation, run


async def promote(simulation: Simulation, seconds: float, *, says_farewell: bool) -> str:
    """Promote a clone right after its master closed, or did not; gives what came of it."""
    hosts = [simulation.host(name) for name in ("main", "spare")]
    endpoints = []
    for host in hosts:
        with host:
            endpoints.append(Endpoint())
    left, right = endpoints
    async with left, right:
        assert await right.peer(hosts[0].address, await left.listen(hosts[0].address))
        master, clone = await left.attach_master("s"), await right.attach_clone("s")
        await (await master.put("key", 1)).applied()
        assert await clone.await_idle()
        await simulation.link("main", "spare").apply(Delay(seconds))
        if says_farewell:
            await master.close()
        assert clone.part.core.is_served, "the farewell is on its way"
        try:
            promotion = await clone.promote()
        except PromotionRefused as error:
            return str(error)
        assert (await clone.get("key"), clone.is_master()) == (1, True)
        return f"term {promotion.term}"


@pytest.mark.parametrize("seconds", [0.001, 0.2, 0.9])
def test_a_promotion_waits_for_a_farewell_that_is_on_its_way(seconds: float):
    for seed in range(3):
        found = run(seed, lambda each: promote(each, seconds, says_farewell=True)).value
        assert found.startswith("term "), found


def test_a_promotion_beside_a_master_that_lives_is_refused_once_it_has_answered():
    found = run(1, lambda each: promote(each, 0.2, says_farewell=False)).value
    assert "is alive" in found
