"""Limits of waits: they grow with how slow the machine is seen to be, but not in a simulation."""

from __future__ import annotations

from itertools import count

import pytest

from peermesh.testing.simulation import Simulation, simulate
from peermesh.testing.time_limits import (
    LOOK_AGAIN_SECONDS,
    LOOKS_KEPT,
    SLOWNESS_MAX,
    WORK_SECONDS,
    Slowness,
    limit,
    slowness,
    work_once,
)


def seeing(*factors: float) -> Slowness:
    """Make a slowness whose looks see these, one each time that it is asked."""
    works = iter(factors)
    times = count(0.0, LOOK_AGAIN_SECONDS)
    return Slowness(lambda: next(works) * WORK_SECONDS, lambda: next(times))


def test_an_idle_or_a_fast_machine_stretches_nothing():
    machine = seeing(1, 0.1)
    assert [machine.limit(7) for _ in range(2)] == [7, 7]


def test_a_slow_machine_stretches_limits_as_much_as_it_is_slow():
    machine = seeing(5, 1)
    assert machine.limit(6) == 30
    assert machine.limit(6) == 30, "one lucky look does not make it fast"


def test_the_worst_of_long_ago_is_forgotten():
    machine = seeing(10, *[1] * LOOKS_KEPT)
    assert [machine.factor() for _ in range(LOOKS_KEPT)] == [10] * LOOKS_KEPT
    assert machine.factor() == 1


def test_a_machine_that_was_asleep_was_not_slow():
    assert seeing(1e6).factor() == SLOWNESS_MAX


def test_asking_again_at_once_does_no_work():
    works = iter([3 * WORK_SECONDS])
    machine = Slowness(lambda: next(works), lambda: 0.0)
    assert machine.factor() == machine.factor() == 3


def test_time_in_a_simulation_is_never_slow():
    machine = seeing(10, 10)
    assert machine.limit(1) == 10

    async def main(_: Simulation) -> float:
        return machine.limit(1)

    assert simulate(main, seed=1) == 1


def test_this_machine_is_looked_at():
    assert work_once() > 0
    assert 1 <= slowness() <= SLOWNESS_MAX
    assert limit(0.5) >= 0.5
    assert limit() >= 30


@pytest.mark.parametrize("seconds", [0.0, float("inf")])
def test_no_time_and_all_time_stay_what_they_are(seconds):
    assert seeing(4).limit(seconds) == seconds
