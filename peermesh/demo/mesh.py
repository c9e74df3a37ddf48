"""How the roles find each other, and what they share: stores by name, a file, some times."""

from __future__ import annotations

from typing import Final

import trio

from peermesh import Endpoint
from peermesh.demo.plan import Ports

REDIAL_SECONDS_MAX: Final = 0.2
"""The longest pause between attempts to reach a process that is being started again."""

IDLE_SECONDS: Final = 1.0
"""How long one attempt to be level with a leader may take: a round trip, and some ticks."""

LOCAL: Final = "127.0.0.1"

COUNTS: Final = "counts"
CHECKPOINTS: Final = "checkpoints"

TABLE_FILE: Final = "table.json"
"""In which the viewer hands over what its copies have."""


def dial(endpoint: Endpoint, nursery: trio.Nursery, ports: Ports, own: int | None = None) -> None:
    """Peer with all who listen, now or later, but for ourselves."""
    for port in ports.members:
        if port != own:
            nursery.start_soon(endpoint.peer, LOCAL, port, REDIAL_SECONDS_MAX)
