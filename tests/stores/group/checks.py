"""What has to be true of a group, whatever happens to it: while it runs, and once it is healed."""

from __future__ import annotations

import heapq
from itertools import combinations
from typing import NamedTuple

from stores.group.effects import Committed, LeaderChanged
from stores.group.entries import ActionEntry, VotersEntry
from tests.stores.group.lists import Registered


class Violation(Exception):
    """Something that must never happen did."""


class Operation(NamedTuple):
    """What a client had an answer to."""

    kind: str
    key: int
    value: str
    begun: float
    ended: float
    result: object
    """Of a push the position of its value, of a read the values."""


class Witness:
    """Sees all that members commit, and compares it: the safety properties of Raft."""

    def __init__(self, voters):
        self.committed = {}
        self.terms = {}
        """By index, the term whose leader committed it: leaders of later ones have it."""
        self.leaders = {}
        self.evicted = set()
        self.config = (0, voters)
        self.wished = None
        """By position, the changes of the voters that a person asked for, where that is known."""
        self.dismissed = set()
        self.elections = 0

    def see(self, member, effect):
        match effect:
            case Committed(first=first, last=last):
                floor = member.journal.floor.index
                for index in range(max(first, floor + 1), last + 1):
                    self._commit(member, index, member.journal.entry(index))
            case LeaderChanged(term=term, leader=leader) if leader == member.id:
                self._lead(member, term)

    def _commit(self, member, index, entry):
        first = self.committed.setdefault(index, entry)
        self.terms.setdefault(index, member.ballot.term)
        if first != entry:
            raise Violation(f"committed twice: {index} is {first}, and {entry} at {member!r}")
        if isinstance(entry, VotersEntry) and index > self.config[0]:
            self._change(index, entry)
        if isinstance(entry, ActionEntry) and isinstance(entry.body, Registered):
            self.evicted.add(entry.body.evicted)

    def _change(self, index, entry):
        before, after = ({each.name for each in some} for some in (self.config[1], entry.voters))
        if self.wished is not None:
            if (entry.term, index) in self.wished:
                self.dismissed |= before - after
            elif back := self.dismissed & after:
                raise Violation(f"dismissal: {back} vote again at {index}, and no person said so")
            self.dismissed -= after
        self.config = index, entry.voters

    def _lead(self, member, term):
        self.elections += 1
        other = self.leaders.setdefault(term, member.id)
        if other != member.id:
            raise Violation(f"election safety: {other} and {member.id} lead term {term}")
        journal = member.journal
        for index, entry in self.committed.items():
            if self.terms[index] > term:
                continue  # It was elected earlier, and hears of that late: it commits nothing.
            if index > journal.end.index:
                raise Violation(f"leader completeness: {member!r} lacks {index}: {entry}")
            if index > journal.floor.index and journal.entry(index) != entry:
                raise Violation(f"leader completeness: {member!r} has another {index}")


def check_healed(members):
    """All members are level, and their journals and machines are the same."""
    if len({member.state.commit for member in members}) > 1:
        raise Violation(f"liveness: {members} stand at different commits")
    if len({member.state.machine.digest() for member in members}) > 1:
        raise Violation("machines differ")
    for a, b in combinations(members, 2):
        first = max(a.journal.floor.index, b.journal.floor.index) + 1
        last = min(a.journal.end.index, b.journal.end.index)
        for index in range(first, last + 1):
            is_same_term = a.journal.term_at(index) == b.journal.term_at(index)
            if is_same_term and a.journal.entry(index) != b.journal.entry(index):
                raise Violation(f"log matching: {a!r} and {b!r} differ at {index}")


def check_history(operations, lists):
    """No acknowledged push is lost or there twice, and each list is linearizable."""
    for key in {operation.key for operation in operations}:
        _check_list([each for each in operations if each.key == key], lists.get(key, ()))


def _check_list(operations, final):
    places = {value: place for place, value in enumerate(final, 1)}
    if len(places) < len(final):
        raise Violation(f"exactly once: {len(final) - len(places)} values are there twice")
    spans = []
    for operation in operations:
        if operation.kind == "push":
            if places.get(operation.value) != operation.result:
                place = places.get(operation.value)
                raise Violation(f"acknowledged loss: {operation}, and it is at {place}")
            version = operation.result
        else:
            version = len(operation.result)
            if final[:version] != operation.result:
                raise Violation(f"read of what never was: {operation}")
        spans.append((operation.begun, operation.ended, version, operation.kind))
    _check_order(sorted(spans))
    begun = {each.value: each.begun for each in operations if each.kind == "push"}
    for operation in operations:
        last = operation.result[-1] if operation.kind == "read" and operation.result else None
        if begun.get(last, 0.0) > operation.ended:
            raise Violation(f"read of the future: {operation}")


def _check_order(spans):
    """Have each operation see what had ended before it began; a push sees less than it makes."""
    ended, seen = [], 0
    for begun, end, version, kind in spans:
        while ended and ended[0][0] < begun:
            seen = max(seen, heapq.heappop(ended)[1])
        if version < seen or (kind == "push" and version == seen and seen):
            raise Violation(f"not linearizable: a {kind} at {version} after {seen} was seen")
        heapq.heappush(ended, (end, version))
