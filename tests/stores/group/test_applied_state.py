"""What the machine beside a journal applies, stages and installs."""

from __future__ import annotations

import pytest

from stores.group.applied_state import AppliedState, CannotApply
from stores.group.clock import NO_TIMES
from stores.group.effects import Snapshot
from stores.group.entries import ActionEntry, LeadEntry
from stores.group.journal import Journal
from stores.group.positions import START, MemberId, Position
from tests.stores.group.lists import Lists
from wire.errors import DecodeError

VOTERS = (MemberId("a", 1),)


class Picky(Lists):
    def install(self, parts):
        raise DecodeError("no parts of a machine")


def test_a_snapshot_that_the_machine_refuses_changes_nothing():
    state = AppliedState(Journal(START, VOTERS), Picky(), 0, NO_TIMES)
    with pytest.raises(DecodeError):
        state.install(Snapshot(Position(1, 5), VOTERS, NO_TIMES, ()))
    assert (state.commit, state.journal.floor, state.journal.end) == (0, START, START)


class Broken(Lists):
    def apply(self, position, body):
        if body == "b":
            raise KeyError(body)


def test_an_entry_that_the_machine_cannot_apply_is_named_and_those_before_it_count():
    journal = Journal(START, VOTERS, [ActionEntry(1, each) for each in "abc"])
    state = AppliedState(journal, Broken(), 0, NO_TIMES)
    with pytest.raises(CannotApply, match=r"entry 1:2 of the journal does not .*: KeyError\('b'\)"):
        state.advance(3)
    assert state.commit == 1


class Recorder(Lists):
    """Remembers where each body was, in place of what it does."""

    def __init__(self):
        super().__init__()
        self.applied, self.staged_there = [], []

    def apply(self, position, body):
        self.applied.append((position, body))
        return body.upper()

    def stage(self, position, body):
        self.staged_there.append((position, body))


def test_actions_are_applied_where_they_are_in_the_journal_and_later_ones_are_staged_there():
    entries = (
        ActionEntry(1, "a"),
        LeadEntry(2, NO_TIMES),
        *(ActionEntry(2, each) for each in "bc"),
    )
    state = AppliedState(Journal(START, VOTERS, entries), Recorder(), 0, NO_TIMES)
    assert state.advance(3) == {1: "A", 3: "B"}
    assert state.machine.applied == [(Position(1, 1), "a"), (Position(2, 3), "b")]
    state.stage_all()
    assert state.machine.staged_there == [(Position(2, 4), "c")]


def test_a_snapshot_of_what_is_committed_here_already_is_installed():
    state = AppliedState(Journal(START, VOTERS), Lists(), 0, NO_TIMES)
    state.install(Snapshot(START, VOTERS, NO_TIMES, tuple(Lists().freeze())))
    assert state.commit == 0
