"""What a run ends with that found something wrong."""

from __future__ import annotations


class Violation(AssertionError):
    """A promise was broken."""
