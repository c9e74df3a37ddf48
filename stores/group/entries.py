"""What a journal holds: a closed union of entries, each of one leader's term."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stores.group.clock import Times
from stores.group.positions import Dismissed, Voters


@dataclass(frozen=True, slots=True)
class LeadEntry:
    """A leader's first entry. Once it is committed, so is all before it, and the leader serves."""

    term: int
    times: Times
    """What the leader knew of the group's clock: it goes on from there."""


@dataclass(frozen=True, slots=True)
class VotersEntry:
    """Other voters, in force from here on."""

    term: int
    voters: Voters
    dismissed: Dismissed = ()


# Not frozen, like all that is built for every message: it would take three times as long.
@dataclass(slots=True)
class ActionEntry:
    """What the leader's machine decided; all machines apply it alike."""

    term: int
    body: object
    """The machine's own. Absolute: it needs no clock, and no look at what was asked for."""


@dataclass(frozen=True, slots=True)
class TimeEntry:
    """How far the group's clock had come: it does not start anew after an outage."""

    term: int
    times: Times


Entry = LeadEntry | VotersEntry | ActionEntry | TimeEntry


def latest_voters(voters: Voters, entries: Iterable[Entry]) -> Voters:
    """Give the voters in force behind these entries, before which ``voters`` were."""
    changes = [entry.voters for entry in entries if isinstance(entry, VotersEntry)]
    return changes[-1] if changes else voters
