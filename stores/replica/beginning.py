"""What a replica starts with: what is stored of it, and what its core takes from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stores.group.member_parts import Stored
from stores.group.roles import Draw
from stores.group.words import Aim
from wire.identifiers import EndpointId

PATIENCE_TICKS: Final = 50
"""Ticks for which what was asked waits for an answer of a group with several voters: 5 s."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a replica comes to its group, and how it bears that no leader serves it."""

    patience_ticks: int = PATIENCE_TICKS
    """What was asked waits so long for an answer of the group, before it fails."""
    is_single: bool = False
    """True for a master, and its clones: nothing is elected, and what was asked waits on. False if
    it fails as soon as two elections came to nothing."""
    ack_entries: int = 1
    """Entries after which it acknowledges; what is left at the leader's next round, in 100 ms at
    most. More than one only where it is never to vote: no commit waits for it."""
    stale_ns: int | None = None
    """After so long without a leader reads are refused; ``None`` is never."""
    aim: Aim = Aim.JOIN
    """Of a master: whether it leads what clones hold already."""
    is_founder: bool = False
    """True if it founds the group alone, where none is heard; others become voters later."""
    announced: frozenset[EndpointId] = frozenset()
    """Of a master: where clones are known to be when it starts."""


ELECTED: Final = Manner()
"""That of a group with several voters."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is stored of a replica."""

    stored: Stored
    group: bytes | None
    """``None`` until it founds or joins one."""
    reached: int = 0
    """The machine's rows may have changes up to this entry: all up to it are committed."""
    manner: Manner = ELECTED


@dataclass(frozen=True, slots=True)
class Opened:
    """What the files of a replica have."""

    beginning: Beginning
    parts: Sequence[object]
    """The state of its machine; nothing of a new one, where that knows its beginning itself."""
    exposed: tuple[str, ...]
    """Files that others could read until they were opened."""
    aside: str | None
    """The new name of a file of an earlier release, which a learner has set aside."""
    damaged: tuple[str, ...] = ()
    """Blocks of the ballot that cannot be read, a sentence for each; their copies were."""
    has_lost_ballot: bool = False
    """True for files of a group that had no ballot: which member's they were is not known."""


@dataclass(frozen=True, slots=True)
class World:
    """What a core takes from outside, all of it harmless to call."""

    draw: Draw
    monotonic_ns: Callable[[], int]
    now_ns: Callable[[], int]
    new_group: Callable[[], bytes]
    vouches: Callable[[EndpointId, str], bool]
    """Tells whether an endpoint may have a member of that name."""
    may_vote: Callable[[], bool]
    """Tells whether this endpoint has the right to vote."""
