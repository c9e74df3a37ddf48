"""Links with faults, for any TCP service: a proxy that delays, holds up, cuts and breaks."""

from __future__ import annotations

from peermesh.testing.links.events import (
    ConnectionEnded,
    ConnectionJoined,
    ConnectionOpened,
    ConnectionRefused,
    ConnectionReset,
    FaultApplied,
    LinkEvent,
    LinkHealed,
    LinkStatistics,
)
from peermesh.testing.links.link import Link, open_link

__all__ = [
    "ConnectionEnded",
    "ConnectionJoined",
    "ConnectionOpened",
    "ConnectionRefused",
    "ConnectionReset",
    "FaultApplied",
    "Link",
    "LinkEvent",
    "LinkHealed",
    "LinkStatistics",
    "open_link",
]
