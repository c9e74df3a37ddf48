"""What both ends of a channel agree on: parameters in ticks, and limits with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INITIAL_SEQUENCE: Final = 1
"""A new producer stands here, as Broker's does; its first event is the next number."""

NACK_COUNT_MAX: Final = 4_096
"""Sequence numbers in one nack: 20 KiB on the wire. What is missing beyond is asked for later."""

RETRANSMIT_COUNT_MAX: Final = 256
"""Payloads in one retransmitted run: as many as one frame takes (``GROUP_COUNT`` of the wire)."""

CONSUMER_BUFFER_MAX: Final = 65_536
"""Payloads that wait for an earlier one: a quarter of a second at 250,000 commands a second.

Beyond it the consumer drops what comes, and asks for it again when its turn has come.
"""


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """Time in a channel, counted in ticks of its owner. Both ends of a channel take the same."""

    heartbeat_interval_ticks: int = 5
    """The longest silence of either end. Zero disables heartbeats and all timeouts, for links that
    lose nothing; consumers then acknowledge at every tick with progress."""

    connection_timeout_factor: int = 4
    """So many heartbeat intervals of silence mean that the other end is gone."""

    nack_timeout_ticks: int = 5
    """So many ticks without progress before a consumer asks for what it lacks."""

    carries_snapshot: bool = False
    """Say true where the owner sends its state along with each handshake, as masters do for clones.

    A repeated handshake then starts at the producer's current number, which is what the state of
    now fits to. Otherwise it starts where the consumer's acknowledgements ended, so that no event
    is skipped.
    """

    def __post_init__(self) -> None:
        """Refuse numbers that would stop the channel from working."""
        if self.heartbeat_interval_ticks < 0:
            raise ValueError("heartbeat_interval_ticks is zero (disabled) or positive")
        if self.connection_timeout_factor < 1:
            raise ValueError("connection_timeout_factor is at least 1")
        if self.nack_timeout_ticks < 1:
            raise ValueError("nack_timeout_ticks is at least 1")


DEFAULT_CONFIG: Final = ChannelConfig()
"""Broker's values."""
