"""Terms in stretches: a lead that is taken by force begins one, beyond all elections. Pure."""

from __future__ import annotations

from typing import Final

FORCED_TERMS: Final = 1 << 32
"""A lead that is taken by force begins a new stretch of so many terms: no election gets there."""

DRAWN_TERMS: Final = 1 << 31
"""Among so many terms at the beginning of a stretch its first one is drawn: two members that take
the lead by force at once, each out of the other's reach, do not get the same."""

LEAD_TERMS: Final = 1 << 16
"""Terms between two leads by force of one stretch, at least: fewer are elections after one, and
each that is won has an entry. That two draw so near each other is one chance in sixteen thousand,
for two persons who force at once."""

FOUNDING_TERM_MAX: Final = FORCED_TERMS - LEAD_TERMS
"""The last term in which a group begins, whatever the clock says: elections have room after it."""


def founding_term(now_ns: int) -> int:
    """Give the term in which a group begins, at a time of Unix: its seconds.

    One that is founded anew, without what it had, begins after all terms of before, as elections
    are fewer than seconds: what others have kept of it, such as fencing tokens, stays behind.
    """
    return min(max(now_ns // 1_000_000_000, 1), FOUNDING_TERM_MAX)


def stretch_of(term: int) -> int:
    """Count the leads by force up to a term."""
    return term // FORCED_TERMS


def begin_of(stretch: int) -> int:
    """Give the first term of a stretch."""
    return stretch * FORCED_TERMS


def is_forced(term: int, last: int) -> bool:
    """Tell whether the lead was taken by force since the term ``last``."""
    return stretch_of(term) > stretch_of(last)


def is_of_another_lead(term: int, last: int) -> bool:
    """Tell whether a lead was taken by force that the term ``last`` is not of.

    Two of one stretch are told apart by what they have drawn: no lead has so many elections.
    """
    return is_forced(term, last) or (term >= FORCED_TERMS and term - last >= LEAD_TERMS)
