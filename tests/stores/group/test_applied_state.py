"""The committed part of a journal stays as it is when a snapshot is none."""

from __future__ import annotations

import pytest

from stores.group.applied_state import AppliedState
from stores.group.clock import NO_TIMES
from stores.group.effects import Snapshot
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
