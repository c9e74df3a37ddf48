"""Whether a gateway serves, waits, or sends clients elsewhere: a table of all that it may see."""

from __future__ import annotations

import math

import pytest

from peermesh.gateways.webhdfs.limits import LEADER_SECONDS, WAIT_SECONDS
from peermesh.gateways.webhdfs.readiness import Outlook, State


@pytest.mark.parametrize(
    ("silent_seconds", "hears_majority", "state", "patience_seconds"),
    [
        (0, True, State.ACTIVE, 0),
        (0, False, State.ACTIVE, 0),
        (LEADER_SECONDS - 0.1, True, State.ACTIVE, LEADER_SECONDS),
        (LEADER_SECONDS - 0.1, False, State.ACTIVE, LEADER_SECONDS),
        (LEADER_SECONDS, True, State.ELECTING, WAIT_SECONDS),
        (LEADER_SECONDS, False, State.STANDBY, LEADER_SECONDS),
        (math.inf, True, State.ELECTING, WAIT_SECONDS),
        (math.inf, False, State.STANDBY, LEADER_SECONDS),
    ],
)
def test_what_a_gateway_does_by_what_it_sees(
    silent_seconds: float, hears_majority: bool, state: State, patience_seconds: float
) -> None:
    outlook = Outlook(silent_seconds, hears_majority)
    assert outlook.state is state
    assert outlook.patience_seconds == patience_seconds
    assert outlook.is_led is (silent_seconds == 0)
    closed = Outlook(silent_seconds, hears_majority, is_closed=True)
    assert (closed.state, closed.patience_seconds, closed.is_led) == (State.CLOSED, 0, False)
