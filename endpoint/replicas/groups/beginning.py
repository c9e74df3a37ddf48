"""What a replica starts with: what is stored of it, and what its core takes from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stores.group.member import Stored
from stores.group.roles import Draw
from wire.identifiers import EndpointId


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is stored of a replica."""

    stored: Stored
    group: bytes | None
    """``None`` until it founds or joins one."""
    reached: int = 0
    """The machine's rows may have changes up to this entry: all up to it are committed."""


@dataclass(frozen=True, slots=True)
class World:
    """What a core takes from outside, all of it harmless to call."""

    draw: Draw
    monotonic_ns: Callable[[], int]
    now_ns: Callable[[], int]
    new_group: Callable[[], bytes]
    vouches: Callable[[EndpointId, str], bool]
    """Tells whether an endpoint may have a member of that name."""
