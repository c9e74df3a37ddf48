"""Long work goes in steps of 2,000 entries, and those who ask for it take turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stores import commands, effects as fx, snapshots
from stores.broadcasting import CloneId
from stores.digests import DigestWalk
from stores.index import KeyIndex
from stores.snapshots import SnapshotSource
from stores.work import JOBS_MAX, SLICE_COUNT, WorkQueue

COUNT = 7_000


def job(log: list[str], *names: str) -> Iterator[None]:
    for name in names[:-1]:
        log.append(name)
        yield
    log.append(names[-1])


def test_askers_take_turns_and_each_has_its_jobs_done_in_order():
    queue, log = WorkQueue(), list[str]()
    queue.add("a", 1, job(log, "a1", "a2", "a3"))
    queue.add("a", 2, job(log, "a4"))
    queue.add("b", 1, job(log, "b1"))
    while queue:
        queue.step()
    assert log == ["a1", "b1", "a2", "a3", "a4"]


def test_a_question_that_is_repeated_costs_one_answer():
    queue, log = WorkQueue(), list[str]()
    for number in range(100):
        assert queue.add("a", "same", job(log, str(number)))
    while queue:
        queue.step()
    assert log == ["99"]


def test_an_asker_with_too_many_jobs_is_refused_and_no_other():
    queue = WorkQueue()
    assert all(queue.add("a", number, iter(())) for number in range(JOBS_MAX))
    assert not queue.add("a", JOBS_MAX, iter(()))
    assert queue.add("a", 0, iter(()))
    assert queue.add("b", 0, iter(()))


def test_a_job_that_fails_is_over():
    def failing() -> Iterator[None]:
        yield from ()
        raise ValueError

    queue, log = WorkQueue(), list[str]()
    queue.add("a", 1, failing())
    queue.add("a", 2, job(log, "a"))
    with pytest.raises(ValueError, match=r"^$"):
        queue.step()
    queue.step()
    assert log == ["a"]
    assert not queue


def test_what_was_cancelled_is_not_done():
    queue, log = WorkQueue(), list[str]()
    queue.add("a", 1, job(log, "a1"))
    queue.add("a", 2, job(log, "a2"))
    queue.add("b", 1, job(log, "b1"))
    queue.cancel("a", 1)
    queue.cancel("c", 1)
    queue.discard("b")
    queue.step()
    assert log == ["a2"]
    assert not queue


# What stores do in steps: entries are counted where each kind of work looks at them.


class Entries:
    """Counts the entries that each kind of work has handled."""

    def __init__(self, monkeypatch: Any) -> None:
        self.count = 0
        for owner, name, count in (
            (DigestWalk, "_checksums", lambda self, keys: len(keys)),
            (KeyIndex, "_place", lambda self, key, is_present: 1),
            (SnapshotSource, "_end_of", lambda self, start: snapshots.CHUNK_COUNT_MAX),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name), count))
        answers = commands.ReadAnswerCommand.__init__

        def answer(command: Any, number: int, rows: Any, continuation: Any) -> None:
            self.count += len(rows)
            answers(command, number, rows, continuation)

        monkeypatch.setattr(commands.ReadAnswerCommand, "__init__", answer)

    def _counted(self, method: Any, count: Any) -> Any:
        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.count += count(*arguments, **keywords)
            return method(*arguments, **keywords)

        return counted

    def in_steps(self, node: Any) -> list[int]:
        """Let a core do all its work; gives the entries of each step."""
        steps = []
        while node.core.has_work:
            self.count = 0
            node.work()
            steps.append(self.count)
        return steps


@pytest.fixture
def full(pair, world) -> Any:
    """A master and a clone with more entries than a slice has."""
    master, _ = pair
    for number in range(COUNT):
        master.put(number, number)
    world.settle()
    return pair


def test_a_digest_is_taken_in_slices_at_the_master_and_at_its_clones(full, world, monkeypatch):
    entries = Entries(monkeypatch)
    for asker in range(100):
        full[0].run(full[0].core.begin_verify(asker))
    assert entries.count == 0
    steps = entries.in_steps(full[0])
    assert max(steps) <= SLICE_COUNT
    assert sum(steps) == COUNT  # for the first; the other 99 share the next one
    while world.packets:
        world.deliver(world.packets.pop(0))
    steps = entries.in_steps(full[1])
    assert max(steps) <= SLICE_COUNT
    assert sum(steps) == COUNT
    entries.count = 0
    world.settle()
    assert entries.count == 2 * COUNT
    verified = full[0].said(fx.Verified)
    assert [each.token for each in verified] == list(range(100))
    assert all(len({row.digest for row in each.rows}) == 1 for each in verified)


def test_writes_between_two_slices_are_not_in_the_digest(full, world):
    master, clone = full
    master.run(master.core.begin_verify(1))
    number = COUNT
    while master.core.has_work:
        master.work()
        for key in (number, number % COUNT, 2 * COUNT - 1 - number):
            master.put(key, "changed")
        master.erase(COUNT - 10 - number % COUNT)
        number += 1
        master.flush()
    (packets, world.packets) = world.packets, []
    for packet in packets:
        world.deliver(packet)
        while clone.core.has_work:
            clone.work()
    world.settle()
    (verified,) = master.said(fx.Verified)
    own, other = verified.rows
    assert own.digest == other.digest
    assert own.digest.entry_count == COUNT
    assert clone.said(fx.MasterLost) == []


def test_a_clear_while_a_digest_is_taken_takes_nothing_from_it(full, world):
    master, _ = full
    master.run(master.core.begin_verify(1))
    master.work()
    master.core.requests.clear()
    world.settle()
    (verified,) = master.said(fx.Verified)
    assert {row.digest.entry_count for row in verified.rows} == {COUNT}
    assert len({row.digest for row in verified.rows}) == 1


def test_a_promoted_clone_ends_what_it_compared(full, world):
    master, clone = full
    master.run(master.core.begin_verify(1))
    while world.packets:
        world.deliver(world.packets.pop(0))
    assert clone.core.has_work
    master.crash()
    clone.promote()
    world.settle()
    assert clone.core.begin_verify(2) is not None
    world.settle()
    assert len(clone.contents()) == COUNT


@pytest.mark.parametrize("replica", [0, 1])
def test_the_first_scan_of_a_proxy_sorts_in_slices(full, world, monkeypatch, replica):
    node = full[replica]
    proxy = world.proxy(node)
    world.packets.clear()
    entries = Entries(monkeypatch)
    number = proxy.pose(commands.ScanCommand(1, 0, b"", None, SLICE_COUNT, True))
    while world.packets:
        world.deliver(world.packets.pop(0))
    steps = entries.in_steps(node)
    assert max(steps) <= SLICE_COUNT
    assert sum(steps) >= COUNT + SLICE_COUNT // 2
    world.settle()
    assert len(proxy.answers[number].rows) >= SLICE_COUNT // 2


def test_too_many_questions_of_one_endpoint_are_sent_elsewhere(full, world):
    master, _ = full
    proxy = world.proxy(master)
    world.packets.clear()
    for number in range(1, JOBS_MAX + 2):
        proxy.pose(commands.ScanCommand(number, 0, b"", None, 1, True))
    packets, world.packets = world.packets, []
    for packet in packets:
        master.run(master.core.receive(packet.sender, packet.payload, world.now_ns))
    refusals = [packet for packet in world.packets if "busy" in repr(packet)]
    assert len(refusals) == 1


def test_a_chunk_far_ahead_is_cut_in_slices(full, world, monkeypatch):
    monkeypatch.setattr("stores.snapshots.CHUNK_COUNT_MAX", 1_000)
    master, _ = full
    clone = world.clone()
    world.deliver(next(each for each in world.packets if each.receiver == master.id))
    entries = Entries(monkeypatch)
    session = max(
        each.session for each in master.core._clones._clones if each.entity.endpoint == clone.id
    )
    far = commands.SnapshotRequestCommand((2**40,))
    master.hear(far, sender=clone.core.entity, session=session, epoch=master.core.epoch)
    assert entries.count == 0
    steps = entries.in_steps(master)
    assert max(steps) <= 1_000
    assert len(steps) >= COUNT // 1_000 - 1


def test_questions_about_history_are_answered_one_a_turn_and_repeated_ones_once(full, world):
    master, clone = full
    (name,) = master.core._clones._clones
    for after in range(100):
        content = commands.HistoryRequestCommand(after, COUNT)
        master.hear(content, sender=name.entity, session=name.session, epoch=master.core.epoch)
    assert world.packets == []
    master.work()
    (packet,) = world.packets
    answer = master.said(fx.Unicast)[-1]
    assert answer.to == clone.id
    assert "after=99" in repr(packet)
    assert not master.core.has_work


def test_snapshots_are_frozen_one_a_turn(full, world):
    master, clone = full
    entity = clone.core.entity
    writer = clone.core.requests.writer
    first = 1 + max(known.session for known in master.core._clones._clones)
    for session in range(first, first + 100):
        master.put("more", session)
        content = commands.HandshakeRequestCommand(writer, 0)
        master.hear(content, sender=entity, session=session, epoch=master.core.epoch)
    assert list(master.core._clones._clones) == [CloneId(entity, first)]
    master.work()
    assert list(master.core._clones._clones) == [CloneId(entity, first + 99)]
    assert not master.core.has_work


def test_what_expires_at_once_goes_in_slices(pair, world):
    master, clone = pair
    for number in range(COUNT):
        master.put(number, number, 10**6)
    world.settle()
    world.now_ns += 10**9
    master.tick()
    assert len(master.replica.keys()) == COUNT - SLICE_COUNT
    left = COUNT - SLICE_COUNT
    while master.core.has_work:
        master.work()
        left = max(0, left - SLICE_COUNT)
        assert len(master.replica.keys()) == left
    world.settle()
    assert clone.contents() == {}
