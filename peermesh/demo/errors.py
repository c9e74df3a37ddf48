"""What may go wrong with the demo, in words for whoever typed the command."""

from __future__ import annotations

from wire.errors import MeshError


class DemoError(MeshError):
    """The demo cannot begin, or cannot go on."""


class InputError(DemoError):
    """The input, or the field to count by, is not there or cannot be read."""


class StuckError(DemoError):
    """A role makes no progress, though everybody is alive."""


class RequirementError(DemoError):
    """Something that the Spark job needs is not installed."""
