"""The channel between a leader and its followers, and runs that fit into a message of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from channels import ChannelConfig
from stores.limits import RUN_COUNT_MAX, RUN_SIZE_MAX
from stores.seeker import HEARTBEAT_TICKS
from wire.identifiers import EntityId

STORE_CHANNEL: Final = ChannelConfig(
    heartbeat_interval_ticks=HEARTBEAT_TICKS, connection_timeout_factor=100, nack_timeout_ticks=2
)
"""Broker's figures for its stores: with ticks of 100 ms, a heartbeat every half second, a consumer
is given up after 50 seconds, and what is missing is asked for after 200 ms."""


class CloneId(NamedTuple):
    """One attempt of one follower to attach: what the channel takes for a consumer."""

    entity: EntityId
    session: int


def in_runs(payloads: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
    """Cut a sequence of payloads into what fits in one message each."""
    if len(payloads) == 1:
        return (payloads,)
    runs: list[Sequence[bytes]] = []
    start, size = 0, 0
    for index, payload in enumerate(payloads):
        is_full = size + len(payload) > RUN_SIZE_MAX or index - start == RUN_COUNT_MAX
        if is_full and index > start:
            runs.append(payloads[start:index])
            start, size = index, 0
        size += len(payload)
    if start < len(payloads):
        runs.append(payloads[start:])
    return runs
