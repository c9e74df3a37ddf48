"""How long a key lives: for ever, until an instant, or as long as a session; one number for all.

``None`` is for ever. Numbers below ``EXPIRY_END_NS`` are nanoseconds: a span in what is asked, an
instant in what is stored. Those from there on are sessions. So a key's session is stored, sent and
judged wherever its expiry is, and a later put without it sets the key free, as it ends an expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stores.limits import EXPIRY_END_NS
from wire.errors import SessionExpired, StoreError

Objections = Sequence[StoreError | None]
"""For each of some keys why a session cannot have it; empty if it can have all of them."""

Object = Callable[[int, Sequence[bytes]], Objections]
"""Objects to some keys of a session, which come one after the other."""


def life_of(session: int) -> int:
    """Give the life of a session's keys."""
    return EXPIRY_END_NS + session


def session_of(life: int | None) -> int | None:
    """Give the session that a key lives with, if it lives with one."""
    return None if life is None or life < EXPIRY_END_NS else life - EXPIRY_END_NS


def instant_of(life: int | None, epoch_ns: int) -> int | None:
    """Give when a key expires, in ns of Unix; ``None`` if no time is known.

    Instants are counted from ``epoch_ns``.
    """
    if life is None or life >= EXPIRY_END_NS:
        return None
    return min(life + epoch_ns, EXPIRY_END_NS - 1)


def no_sessions(session: int, keys: Sequence[bytes]) -> Objections:
    """Object, for a store that has no sessions."""
    return [SessionExpired(f"there is no session {session}: this store has none")] * len(keys)
