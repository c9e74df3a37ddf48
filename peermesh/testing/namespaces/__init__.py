"""Hosts in network namespaces of one Linux machine, and wires between them that misbehave.

Each host is a namespace with an address of its own; processes in it use the kernel's own TCP. All
packets pass through this process, which loses, doubles, delays and reorders them: so it needs
nothing of the kernel but namespaces and TUN devices, and chance has a seed.
"""

from __future__ import annotations

from peermesh.testing.namespaces.network import Host, HostLink, Network, open_network
from peermesh.testing.namespaces.probing import probe

__all__ = ["Host", "HostLink", "Network", "open_network", "probe"]
