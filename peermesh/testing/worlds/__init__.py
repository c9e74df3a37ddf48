"""Where clusters live: simulated, on loopback, in processes, in network namespaces.

A world starts nodes and links them. Each is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from peermesh.testing.worlds.world import World

WORLDS: Final = {
    "sim": "peermesh.testing.worlds.sim:SimulatedWorld",
    "loopback": "peermesh.testing.worlds.loopback:LoopbackWorld",
    "process": "peermesh.testing.worlds.process:ProcessWorld",
    "netns": "peermesh.testing.worlds.netns:NamespaceWorld",
}
"""The worlds by their names, from the fastest to the most real."""


def world_class(name: str) -> type[World]:
    """Import a world; raises ``ValueError`` for a name that is none."""
    if name not in WORLDS:
        raise ValueError(f"there is no world {name!r}: choose one of {', '.join(WORLDS)}")
    module, _, kind = WORLDS[name].partition(":")
    found: type[World] = getattr(import_module(module), kind)
    return found


__all__ = ["WORLDS", "world_class"]
