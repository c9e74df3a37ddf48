"""The words for what may go wrong."""

from __future__ import annotations

import pickle

import pytest

from peermesh.testing.faults import (
    Delay,
    Duplication,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
    Unsupported,
    check,
)


@pytest.mark.parametrize(
    "fault",
    [
        Delay(-1),
        Delay(0.1, jitter=0.2),
        Delay(float("inf")),
        Loss(1.1),
        Duplication(-0.1),
        Reordering(2),
        RateLimit(0),
        SlowClose(-1),
        Reset(-1),
        Reset(float("nan")),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_with_the_rule(fault):
    with pytest.raises(ValueError, match=r".*: .*(at least|at most|between|use Partition)"):
        check(fault)


@pytest.mark.parametrize(
    "fault", [Delay(0.1, 0.1), Loss(1), RateLimit(1), SlowClose(0), Reset(), Reset(0), Partition()]
)
def test_a_fault_that_makes_sense_is_not(fault):
    check(fault)


def test_what_a_world_cannot_do_names_the_world_the_fault_and_the_reason():
    error = Unsupported("the proxy", Reordering(0.5), "TCP has put all in order")
    assert str(error) == "the proxy cannot do Reordering(probability=0.5): TCP has put all in order"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
