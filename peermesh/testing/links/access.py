"""Who may use a link with faults: its line in the table of ports."""

from __future__ import annotations

from typing import Final

from handshake.access import Port

PORT: Final = Port(
    "a link for tests",
    "peermesh/testing/links/link.py",
    (),
    "plain on loopback; elsewhere refused, or `allow_plain`",
    note="It carries bytes between two ports, which ask. Its faults are set by its own program.",
)
