"""All that can happen in small meshes, in every order, to the product's own cores of flow control.

The larger part is a command: ``python -m tests.endpoint.link.explore``.
"""

from __future__ import annotations

import pytest

from tests.endpoint.link.explore import CHANGES, QUICK, SCENARIOS, explore
from tests.endpoint.link.product import load
from tests.endpoint.link.world import Scenario
from tests.safeguards.table_link import LINK

STATES_MAX = 60_000
LONG = [name for name in SCENARIOS if name not in QUICK]


@pytest.mark.parametrize("name", QUICK)
def test_no_order_of_events_breaks_a_promise(name: str) -> None:
    result = explore(load(), SCENARIOS[name], STATES_MAX)
    assert result.wrong is None
    assert result.states > 20


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("name", LONG)
def test_no_order_of_events_breaks_a_promise_in_a_larger_mesh(name: str) -> None:
    result = explore(load(), SCENARIOS[name])
    assert result.wrong is None


@pytest.mark.parametrize(("change", "name"), CHANGES, ids=[change for change, _ in CHANGES])
def test_a_safeguard_that_is_switched_off_breaks_one(change: str, name: str) -> None:
    (safeguard,) = (each for each in LINK if each.name == change)
    result = explore(load(safeguard), SCENARIOS[name], STATES_MAX)
    assert result.wrong is not None
    assert result.wrong != "too many states"


def test_an_exploration_that_is_too_large_says_so() -> None:
    scenario = Scenario(((0, 1),), (9,), losses=3)
    assert explore(load(), scenario, 50).wrong == "too many states"


def test_the_product_itself_stays_as_it_is() -> None:
    import endpoint.link.link as before

    changed = load(LINK[0])
    import endpoint.link.link as after

    assert before is after
    assert changed.Link is not after.Link
