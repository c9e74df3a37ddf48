"""The parameters that a channel refuses."""

from __future__ import annotations

import pytest

from channels import ChannelConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heartbeat_interval_ticks", -1),
        ("connection_timeout_factor", 0),
        ("nack_timeout_ticks", 0),
    ],
)
def test_numbers_that_stop_the_channel_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        ChannelConfig(**{name: value})


def test_the_defaults_are_brokers():
    config = ChannelConfig()
    assert config.heartbeat_interval_ticks == 5
    assert config.connection_timeout_factor == 4
    assert config.nack_timeout_ticks == 5
