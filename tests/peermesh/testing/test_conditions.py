"""What stands on one direction of a link."""

from __future__ import annotations

import pytest

from peermesh.testing.conditions import HEALTHY
from peermesh.testing.faults import (
    Delay,
    Duplication,
    Loss,
    Partition,
    RateLimit,
    Reordering,
    Reset,
    SlowClose,
)


def test_faults_of_several_kinds_stand_together_and_one_of_a_kind():
    faults = (
        Delay(2),
        Loss(0.5),
        Duplication(0.1),
        Reordering(0.1),
        RateLimit(5),
        SlowClose(1),
        Partition(),
    )
    conditions = HEALTHY.with_fault(Delay(1))
    for fault in faults:
        conditions = conditions.with_fault(fault)
    assert conditions.faults() == faults
    assert HEALTHY.faults() == ()


def test_what_does_not_stand_or_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="probability"):
        HEALTHY.with_fault(Loss(2))
    with pytest.raises(ValueError, match="strikes"):
        HEALTHY.with_fault(Reset())


def test_a_partition_and_a_loss_of_everything_hold():
    assert HEALTHY.with_fault(Partition()).is_held
    assert HEALTHY.with_fault(Loss(1)).is_held
    assert not HEALTHY.with_fault(Loss(0.99)).is_held
