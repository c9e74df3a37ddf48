"""Epochs: which of several masters leads. A term, which only a promotion raises, and a start.

An epoch is one number, so that everything that compares epochs compares terms first. A master that
was restarted leads in the term that it had, and never before one that was promoted meanwhile.
"""

from __future__ import annotations

from typing import Final

from wire.errors import LimitExceeded

START_BITS: Final = 48
"""Bits of an epoch for the start. In units of 16 µs they last until the year 2112."""

START_UNIT_BITS: Final = 14
"""Nanoseconds become units of 16 µs: no process starts twice within one."""

TERM_MAX: Final = (1 << 15) - 1
"""Promotions in the life of a store: what is left of the 63 bits that databases have for numbers.
One a day lasts for ninety years."""

_START_MASK: Final = (1 << START_BITS) - 1


def started_at(now_ns: int) -> int:
    """Give the epoch of a master of a new store that starts now."""
    return now_ns >> START_UNIT_BITS & _START_MASK


def term_of(epoch: int) -> int:
    """Give the number of promotions before."""
    return epoch >> START_BITS


def next_epoch(kept: int, epoch_min: int) -> int:
    """Give the epoch for a start with what a backend kept: in its term, or in a later one."""
    in_term = (term_of(kept) << START_BITS) | (epoch_min & _START_MASK)
    return max(kept + 1, in_term, epoch_min)


def promoted(known: int, now_ns: int) -> int:
    """Give the epoch that takes the lead from every master up to the epoch that is known.

    Raises ``LimitExceeded`` in the last term.
    """
    term = term_of(known) + 1
    if term > TERM_MAX:
        raise LimitExceeded(
            f"a store can be promoted {TERM_MAX} times: put what is in it into a new one"
        )
    return (term << START_BITS) | started_at(now_ns)
