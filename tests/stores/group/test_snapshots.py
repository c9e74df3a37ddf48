"""How a snapshot comes: in order, and not further ahead of the disk than a window."""

from __future__ import annotations

from itertools import count

import pytest

from stores.group import snapshots
from stores.group.clock import Times
from stores.group.effects import Snapshot
from stores.group.messages import SnapshotHead
from stores.group.positions import MemberId, Position
from stores.group.snapshots import WINDOW_PARTS, SnapshotReceiving, SnapshotSending

AT, VOTERS, TIMES = Position(2, 9), (MemberId("a", 1),), Times(3, 4)
PARTS = 3 * WINDOW_PARTS


@pytest.fixture
def receiving():
    return SnapshotReceiving(SnapshotHead(AT, VOTERS, TIMES, PARTS, 5), 12)


def offer(receiving, number, *, is_kept=False):
    """Give it a part, of which the machine keeps all or only the number; says if it is taken."""
    is_taken = receiving.takes(number)
    if is_taken:
        part = f"part {number}"
        receiving.take(part, part if is_kept else number)
    return is_taken


def test_parts_that_the_machine_keeps_count_at_once(receiving):
    assert not offer(receiving, 1, is_kept=True)
    assert all(offer(receiving, number, is_kept=True) for number in range(PARTS))
    assert not offer(receiving, PARTS, is_kept=True)
    assert receiving.next_staged(1) is None
    parts = tuple(f"part {number}" for number in range(PARTS))
    assert receiving.snapshot == Snapshot(AT, VOTERS, TIMES, parts, 5)


def test_other_parts_count_when_they_are_on_the_disk_and_a_window_is_in_memory_at_most(receiving):
    tokens, number, staged = count(1), 0, list[str]()
    while receiving.snapshot is None:
        while offer(receiving, number, is_kept=number == 0):
            number += 1
            assert number - receiving.count <= WINDOW_PARTS
        write = receiving.next_staged(next(tokens))
        assert write.is_first is (not staged)
        assert receiving.next_staged(0) is None, "one is under way at a time"
        staged += write.parts
        receiving.staged()
        assert receiving.count == number
    assert staged == [f"part {number}" for number in range(1, PARTS)]
    assert receiving.snapshot.parts == ("part 0", *range(1, PARTS))


def test_what_comes_during_a_write_is_the_next_one_and_counts_with_it(receiving):
    offer(receiving, 0)
    assert receiving.next_staged(1).parts == ("part 0",)
    offer(receiving, 1)
    offer(receiving, 2, is_kept=True)
    receiving.staged()
    assert receiving.count == 1
    assert receiving.next_staged(2).parts == ("part 1",)
    receiving.staged()
    assert receiving.count == 3


def test_a_disk_that_is_slow_is_waited_for(receiving):
    offer(receiving, 0)
    receiving.tick()
    assert receiving.idle_ticks == 1
    receiving.next_staged(1)
    for _ in range(99):
        receiving.tick()
    assert receiving.idle_ticks == 1
    receiving.staged()
    receiving.tick()
    assert receiving.idle_ticks == 1


def test_a_leader_keeps_what_it_sends_as_long_as_its_size_takes(monkeypatch):
    monkeypatch.setattr(snapshots, "KEPT_TICKS", 10)
    monkeypatch.setattr(snapshots, "PART_TICKS", 2)
    sending = SnapshotSending(Snapshot(AT, VOTERS, TIMES, tuple("abc")), 2, 1)
    for _ in range(16):
        assert sending.is_in_time
        sending.tick()
    sending.tick()
    assert not sending.is_in_time
