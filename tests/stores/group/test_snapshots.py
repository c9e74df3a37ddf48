"""How a snapshot comes: in order, and not further ahead of the disk than a window."""

from __future__ import annotations

from itertools import count

import pytest

from stores.group import snapshots
from stores.group.clock import Times
from stores.group.effects import Snapshot
from stores.group.messages import SnapshotHead
from stores.group.positions import MemberId, Position
from stores.group.snapshots import RESEND_TICKS, WINDOW_PARTS, SnapshotReceiving, SnapshotSending

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


def test_nothing_of_a_snapshot_is_there_before_its_first_part(receiving):
    assert (receiving.count, receiving.idle_ticks, receiving.end) == (0, 0, 12)
    offer(receiving, 0)
    assert receiving.next_staged(7).token == 7


def numbers(parts):
    """Give the numbers of parts that are sent, each of which is what it says."""
    assert all((part.term, part.session) == (2, 1) for part in parts)
    assert all(part.part == f"part {part.number}" for part in parts)
    return [part.number for part in parts]


def test_a_leader_has_a_window_of_parts_under_way_that_moves_with_acknowledgements():
    parts = tuple(f"part {number}" for number in range(PARTS))
    sending = SnapshotSending(Snapshot(AT, VOTERS, TIMES, parts), 2, 1)
    assert sending.head == SnapshotHead(AT, VOTERS, TIMES, PARTS, 0)
    assert numbers(sending.more()) == list(range(WINDOW_PARTS))
    assert sending.more() == []
    assert numbers(sending.acknowledge(3)) == list(range(WINDOW_PARTS, WINDOW_PARTS + 3))
    assert sending.acknowledge(3) == sending.acknowledge(2) == [], "late words change nothing"
    assert sending.acknowledge(PARTS + 1) == [], "it cannot have more than there are"
    assert numbers(sending.acknowledge(PARTS - 1)) == [PARTS - 1]
    assert not sending.is_done
    assert sending.acknowledge(PARTS) == []
    assert sending.is_done


def test_parts_without_progress_for_some_ticks_are_sent_again():
    sending = SnapshotSending(Snapshot(AT, VOTERS, TIMES, ("part 0", "part 1", "part 2")), 2, 1)
    sending.more()
    for _ in range(2):
        assert [numbers(sending.tick()) for _ in range(RESEND_TICKS)][:-1] == [[]] * 2
    sending.tick()
    sending.acknowledge(1)
    for _ in range(RESEND_TICKS - 1):
        sending.tick()
        sending.acknowledge(1)  # It is no progress.
    assert numbers(sending.tick()) == [1, 2]
    found = [numbers(sending.tick()) for _ in range(2 * RESEND_TICKS)]
    assert found == [*[[]] * (RESEND_TICKS - 1), [1, 2]] * 2


def test_a_disk_that_is_slow_is_waited_for(receiving):
    offer(receiving, 0)
    receiving.tick()
    assert receiving.idle_ticks == 1
    receiving.tick()
    assert receiving.idle_ticks == 2
    offer(receiving, 1)
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
    assert sending.is_in_time
    sending.tick()
    assert not sending.is_in_time
