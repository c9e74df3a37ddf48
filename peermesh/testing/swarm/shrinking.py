"""Makes a failing plan small: leaves out the faults that it fails without. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from peermesh.testing.simulation.shrinking import shrink
from peermesh.testing.swarm.plan import Plan


def keep(plan: Plan, faults: tuple[int, ...]) -> Plan:
    """Give a plan with some of its faults only, by their numbers."""
    return replace(plan, faults=tuple(plan.faults[number] for number in faults))


def smallest(plan: Plan, is_failing: Callable[[Plan], bool]) -> tuple[int, ...]:
    """Give the numbers of faults that are enough for the failure: without any one, it is gone."""
    numbers = tuple(range(len(plan.faults)))
    return shrink(numbers, lambda kept: is_failing(keep(plan, kept)))
