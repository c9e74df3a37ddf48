"""What a file begins a group with, apart from files: replicas in memory load no code of theirs."""

from __future__ import annotations

from dataclasses import dataclass

from stores.group.positions import MemberId


@dataclass(frozen=True, slots=True)
class Founding:
    """What a file of an earlier release begins a group with: one member that has all of it."""

    group: bytes
    member: MemberId
    now_ns: int
    """Wall time. The group's clock begins there, as the expiries in the file are wall times."""
