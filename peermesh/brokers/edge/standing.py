"""What the edge broker and its clients are for threads: after ``close`` they raise its error."""

from __future__ import annotations

from typing import ClassVar

from peermesh.blocking.standing import Standing
from peermesh.brokers.edge.errors import EdgeClosed
from wire.errors import MeshError


class EdgeStanding(Standing):
    """A base of what its user makes; calls after ``close`` raise ``EdgeClosed``."""

    closed_error: ClassVar[type[MeshError]] = EdgeClosed
