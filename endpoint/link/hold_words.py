"""What places and senders say about holds, and the limits of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from wire.identifiers import EndpointId
from wire.limits import KIB, MIB

LEASE_SECONDS: Final = 3.0
"""How long a word counts: it comes every second, and two of them may be lost."""

HEADERS_MAX: Final = 256
"""Headers of one word; with more, a place holds all of a sender's messages that pass it."""

HEADERS_SIZE_MAX: Final = 64 * KIB
"""Bytes of the headers of one word, likewise: the longest one fits."""

PLACES_MAX: Final = 4_096
"""Places that a sender remembers, and words that an endpoint says: as many as peers of one."""

HELD_SIZE_MAX: Final = 4 * MIB
"""Bytes of headers that a sender remembers; beyond, places hold all that passes them."""

SLOW_SECONDS: Final = 5.0
"""How long a hold lasts before it is told: a person who watches has begun to wonder."""


class Verdict(Enum):
    """What becomes of a message now."""

    GO = "go"
    WAIT = "wait"
    FORCED = "forced"
    """It has waited for ``hold_seconds_max``: it goes, and full places know it by its flag."""


@dataclass(frozen=True, slots=True)
class HoldWord:
    """What one place asks of one sender. Neither headers nor ``is_all``: nothing any more."""

    sender: EndpointId
    """Whose messages it is about: the word is addressed to it."""
    place: int
    """A number of the endpoint that says it."""
    label: str
    """The name of the subscription, or what else the place is for people."""
    headers: tuple[bytes, ...] = ()
    is_all: bool = False


class Holder(NamedTuple):
    """Whom a message waits for."""

    endpoint: EndpointId
    place: int
    label: str
