"""Terms as earlier releases counted them: the high bits of an epoch, below which a start was."""

from __future__ import annotations

from typing import Final

START_BITS: Final = 48
"""Bits of an epoch for the start, in units of 16 µs."""


def term_of(epoch: int) -> int:
    """Give the number of promotions before."""
    return epoch >> START_BITS
