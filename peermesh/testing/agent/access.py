"""Who commands an agent of a cluster under test: its line in the table of ports."""

from __future__ import annotations

from typing import Final

from handshake.access import Port

PORT: Final = Port(
    "an agent of the test harness",
    "peermesh/testing/agent/client.py",
    (),
    "a pair of sockets that the agent alone inherits",
    note="Its parent commands it. The port of its endpoint is one of the mesh.",
)
