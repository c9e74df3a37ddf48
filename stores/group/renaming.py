"""How the only voter of a group takes another name.

It alone decides, so its file may be opened under another name: that is one more change of the
voters, in a term of its own. The member keeps its life, by which a change that broke off is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stores.group.ballot import Ballot
from stores.group.effects import Persist, Promises
from stores.group.entries import LeadEntry, VotersEntry
from stores.group.journal import Journal
from stores.group.member_parts import Stored
from stores.group.membership import dismissed_after


@dataclass(frozen=True, slots=True)
class Renaming:
    """What is to be made durable, in this order."""

    before: Promises
    """It leads in a later term, and has its own vote there."""
    write: Persist
    after: Promises
    """Those under the new name."""


def is_alone(stored: Stored) -> bool:
    """Tell whether a member is the only voter of its group, and lacks nothing."""
    journal = _journal(stored)
    return _is_whole(stored, journal) and journal.voters.current == (stored.promises.member,)


def renaming(stored: Stored, name: str) -> Renaming:
    """Give how a member that ``is_alone`` is called ``name`` from now on."""
    journal, promises = _journal(stored), stored.promises
    term = max(promises.term, journal.end.term) + 1
    before = replace(promises, term=term, vote=promises.member)
    member = promises.member._replace(name=name)
    dismissed = dismissed_after(journal.voters.dismissed, (member,))
    entries = (LeadEntry(term, stored.times), VotersEntry(term, (member,), dismissed))
    write = Persist(0, None, journal.end_index, entries)
    return Renaming(before, write, replace(before, member=member, vote=member))


def renamed(stored: Stored) -> Promises | None:
    """Give the promises under the name that the journal has already; ``None`` if none changed.

    An older journal that was put in the place has the name from before: it is not gone by.
    """
    journal, promises = _journal(stored), stored.promises
    current, member = journal.voters.current, promises.member
    if [voter.life for voter in current] != [member.life] or current == (member,):
        return None
    return replace(promises, member=current[0]) if _is_whole(stored, journal) else None


def _is_whole(stored: Stored, journal: Journal) -> bool:
    return Ballot(stored.promises, stored.slots, journal.end).is_whole


def _journal(stored: Stored) -> Journal:
    return Journal(stored.floor, stored.voters, stored.entries, dismissed=stored.dismissed)
