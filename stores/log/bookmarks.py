"""What a reader has of a log: which log it is, and how much of its journal has been."""

from __future__ import annotations

from typing import NamedTuple

from stores.group.positions import START, Position
from wire.public import public


@public
class LogBookmark(NamedTuple):
    """What an offset does not say: of which log it is, and what of it was there already."""

    group: bytes | None = None
    """The group that keeps the log; ``None`` for an offset of no certain log."""
    position: Position = START
    """An entry of the group's journal: what was read came with it, or before."""
