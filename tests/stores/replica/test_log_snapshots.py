"""A log's snapshot goes from file to file: a few parts at a time, and all or nothing counts."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest

from peermesh.testing.simulation.disk import Disk
from stores.group import snapshots
from stores.group.effects import StageParts
from stores.group.limits import WRITE_ENTRIES
from stores.group.snapshots import WINDOW_PARTS
from stores.log import parts
from stores.log.bodies import ChangeRetention
from stores.log.kept_runs import RunPlace
from stores.log.partitions import Retention
from stores.log.parts import RunsPart
from stores.replica import kept
from stores.replica.effects import News, ReadRuns, ToDisk, Told
from stores.replica.logs.books import CHECKPOINT_TICKS
from tests.stores.replica.log_file_mesh import FileMesh
from wire.limits import KIB, MIB

COUNT = 60


class Staged(NamedTuple):
    """A write of some parts."""

    is_first: bool
    count: int


class Journey(FileMesh):
    """A group some members of which were away for so long that they need a snapshot."""

    def __init__(self, folder: Path, disk: Disk | None, names: str = "abc") -> None:
        self.staged: list[Staged] = []
        """What members that take a snapshot were to write of it."""
        self.asked = 1 << 60
        self.read_count = 0
        super().__init__(folder, disk, names)

    def begin(self, away: int = 1, values: int = COUNT, size: int = 1) -> str:
        """Have some members lack most; gives the leader."""
        leader = self.lead()
        self.late = [name for name in self.cores if name != leader][-away:]
        self.offset(leader, self.append(leader, 0))
        self.ticks_until(self.level)
        self.settle()
        self.cut = set(self.late)
        for value in range(1, values):
            self.offset(leader, self.append(leader, value if size == 1 else bytes(size)))
        self.offset(leader, self.move(leader, "worker", (0, 3)))
        journal = self.cores[leader].member.journal
        self.ticks_until(lambda: journal.floor.index > values // 2, 300)
        self.settle()
        assert not self.bodies(leader, values // 3), "a leader has them in its file alone"
        self.read_count = 0
        return leader

    def settle(self) -> None:
        """Have all checkpoints done."""
        for _ in range(2 * CHECKPOINT_TICKS):
            self.tick()
            self.work()

    def bodies(self, name: str, end: int) -> list[int]:
        """Give the offsets of runs before one whose entries a member has in memory."""
        runs = self.cores[name].machine.gather([(0, 0)], 1 << 60)
        held = [run.first_offset for run in runs if not isinstance(run, RunPlace)]
        return [offset for offset in held if offset < end]

    def take(self, name: str, effects: list) -> None:
        for effect in effects:
            self.read_count += isinstance(effect, ReadRuns)
            if isinstance(effect, ToDisk) and isinstance(effect.write, StageParts):
                parts = effect.write.parts
                assert all(isinstance(part, RunsPart) for part in parts)
                self.staged.append(Staged(effect.write.is_first, len(parts)))
                if len(self.staged) == self.asked:
                    self.halted = name
        super().take(name, effects)

    @property
    def beginnings(self) -> int:
        """Count the snapshots that were begun."""
        return sum(each.is_first for each in self.staged)

    def heal(self) -> None:
        """Have all members level again."""
        self.cut, self.slow = set(), set()
        self.ticks_until(self.level, 400)

    def reach_the_middle(self, name: str, asked: int = 2) -> None:
        """Go on until a member is to write a part of its snapshot, for the so manieth time."""
        self.cut, self.asked = set(), asked
        for _ in range(10_000):
            if self.halted:
                assert self.halted == name
                assert self.writes[name]
                self.halted = ""
                return
            if self.mail:
                sender, to, payload = self.mail.popleft()
                if to in self.cores:
                    core = self.cores[to]
                    self.take(to, core.receive(self.where[sender], payload))
            elif not any(self.writes[each] or self.file_reads[each] for each in self.cores):
                self.tick()
            else:
                for each in self.cores:
                    self.write(each)
        raise AssertionError(f"{name} is sent no snapshot")

    def assert_whole(self, leader: str) -> None:
        """Compare what all can read, also after a restart of those that were away."""
        expected = self.entries(leader)
        for name in self.late:
            assert self.entries(name) == expected
            self.settle()
            self.crash(name)
            assert self.entries(name) == expected


@pytest.fixture(params=["sqlite", "simulated"])
def make(request, tmp_path, monkeypatch):
    """Give what makes a group, a snapshot of which has many small parts."""
    monkeypatch.setattr(kept, "KEPT_ENTRIES", 5)
    monkeypatch.setattr(parts, "CHUNK_COUNT_MAX", 2)
    made: list[Journey] = []

    def make(names: str = "abc") -> Journey:
        disk = Disk() if request.param == "simulated" else None
        made.append(Journey(tmp_path / "group", disk, names))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_entries_travel_from_file_to_file_a_few_at_a_time(make):
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    mesh.heal()
    assert mesh.read_count > 5
    assert len(mesh.staged) > 2
    assert max(each.count for each in mesh.staged) <= WINDOW_PARTS
    assert mesh.beginnings == 1
    assert not mesh.bodies(late, COUNT // 3), "what came is in the file alone"
    assert mesh.cores[late].machine.all_cursors() == (("worker", ((0, 3),)),)
    mesh.assert_whole(leader)


def test_two_members_take_one_at_a_time_of_their_own(make):
    mesh = make("abcde")
    leader = mesh.begin(away=2)
    mesh.heal()
    assert mesh.beginnings == 2
    mesh.assert_whole(leader)


def trim(mesh: Journey, leader: str, start: int) -> None:
    """Have all entries before an offset let go, also in the leader's file."""
    machine, core = mesh.cores[leader].machine, mesh.cores[leader]
    retention = Retention(count=machine.partitions[0].end - start)
    mesh.take(leader, core.begin_ask(1, ChangeRetention(retention)))
    mesh.ticks_until(lambda: machine.partitions[0].start == start)
    mesh.settle()


def test_what_retention_lets_go_meanwhile_stays_for_who_is_sent_it(make):
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    old = mesh.cores[leader].machine.gather([(0, 0)], 1 << 60)[:10]
    mesh.reach_the_middle(late)
    mesh.slow = {late}
    trim(mesh, leader, 40)
    assert len(mesh.files[leader].read(old)) == len(old)
    mesh.heal()
    assert mesh.beginnings == 1
    assert mesh.cores[late].machine.partitions[0].start == 40
    mesh.offset(leader, mesh.append(leader, "later"))
    mesh.settle()
    assert mesh.files[leader].read(old) == [], "now it goes"
    mesh.assert_whole(leader)


def test_a_member_that_is_too_slow_for_what_is_let_go_begins_anew(make, monkeypatch):
    monkeypatch.setattr(snapshots, "KEPT_TICKS", 0)
    monkeypatch.setattr(snapshots, "PART_TICKS", 0)
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    mesh.reach_the_middle(late)
    mesh.slow = {late}
    trim(mesh, leader, 40)
    mesh.heal()
    assert mesh.beginnings == 2
    mesh.assert_whole(leader)


def test_a_member_whose_leader_is_lost_in_the_middle_takes_all_from_the_next_one(make):
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    mesh.reach_the_middle(late)
    mesh.mail.clear()
    mesh.cores.pop(leader)
    heir = mesh.lead_again()
    assert heir != late
    mesh.ticks_until(mesh.level)
    assert mesh.beginnings == 2
    mesh.assert_whole(heir)


def test_a_snapshot_waits_until_what_it_leaves_out_is_in_the_file(make, monkeypatch):
    monkeypatch.setattr(parts, "CHUNK_COUNT_MAX", 1_000)
    pending = WRITE_ENTRIES + 20
    mesh = make()
    leader = mesh.lead()
    mesh.late = [late] = [name for name in mesh.cores if name != leader][-1:]
    mesh.offset(leader, mesh.append(leader, 0))
    mesh.ticks_until(mesh.level)
    mesh.slow = {late}
    for value in range(1, pending):
        mesh.offset(leader, mesh.append(leader, value))
    journal = mesh.cores[late].member.journal
    assert journal.end.index > journal.durable + WRITE_ENTRIES + 10
    mesh.cut = {late}
    for value in range(pending, pending + 10):
        mesh.offset(leader, mesh.append(leader, value))
    floor = journal.end.index
    mesh.ticks_until(lambda: mesh.cores[leader].member.journal.floor.index > floor, 300)
    mesh.cut = set()
    mesh.ticks_until(lambda: mesh.cores[late].is_served)
    mesh.pass_ticks(10)
    assert not mesh.staged, "its disk has something else to do"
    mesh.heal()
    assert mesh.beginnings == 1
    mesh.assert_whole(leader)


@pytest.mark.parametrize("asked", [1, 2, 4])
@pytest.mark.parametrize("is_written", [False, True])
def test_a_crash_in_the_middle_leaves_what_was_there(make, asked, is_written):
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    mesh.reach_the_middle(late, asked)
    if is_written:
        mesh.files[late].write(mesh.writes[late].pop(0))
    mesh.crash(late)
    assert mesh.entries(late) == {0: 0}, "nothing of it is taken for committed"
    mesh.mail.clear()
    mesh.take(late, mesh.cores[late].start())
    mesh.heal()
    assert mesh.beginnings == 2
    mesh.assert_whole(leader)


def test_a_disk_that_is_full_in_the_middle_ends_the_member_and_leaves_what_was_there(make):
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    mesh.reach_the_middle(late)
    job = mesh.writes[late].pop(0)
    mesh.take(late, mesh.cores[late].commit_failed(job.token, "the disk is full"))
    told = [each.news for each in mesh.told[late] if isinstance(each, Told)]
    assert told == [News.UNLED, News.DISK_FAILED], "it was out of touch before"
    mesh.crash(late)
    assert mesh.entries(late) == {0: 0}
    mesh.mail.clear()
    mesh.take(late, mesh.cores[late].start())
    mesh.heal()
    mesh.assert_whole(leader)


def test_a_leader_whose_file_is_damaged_has_another_one_lead_and_send_it(make, monkeypatch):
    mesh = make()
    leader = mesh.begin()
    core = mesh.cores[leader]
    monkeypatch.setattr(core, "runs_read", lambda token, _: core.runs_damaged(token, "damaged"))
    mesh.cut = set()

    def told() -> list[News]:
        return [each.news for each in mesh.told[leader] if isinstance(each, Told)]

    mesh.ticks_until(lambda: bool(told()), 40)
    assert told() == [News.DISK_FAILED]
    mesh.cores.pop(leader)
    heir = mesh.lead_again()
    mesh.ticks_until(mesh.level)
    mesh.assert_whole(heir)


def test_a_leader_without_other_voters_goes_on_with_what_it_can_read(make):
    mesh = make("a")
    leader = mesh.lead()
    core, found = mesh.cores[leader], []
    core.reader.read([RunPlace(0, 0, 1, 0, 1, core.held(), 0)], found.append)
    (read,) = (each for each in core.take() if isinstance(each, ReadRuns))
    mesh.take(leader, core.runs_damaged(read.token, "a row is damaged"))
    assert found == [[]]
    assert not any(isinstance(each, Told) for each in mesh.told[leader])
    assert core.is_leader


def test_what_cannot_be_read_is_not_sent_and_asked_for_again(make, monkeypatch):
    mesh = make()
    leader = mesh.begin()
    (late,) = mesh.late
    mesh.cut = set()
    with monkeypatch.context() as patch:
        patch.setattr(mesh.files[leader], "read", lambda places: [])
        mesh.pass_ticks(50)
        assert mesh.read_count > 2 * WINDOW_PARTS, "it is asked for again"
        assert mesh.entries(late) == {0: 0}
    mesh.heal()
    assert mesh.entries(late) == mesh.entries(leader)


def test_a_large_log_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    count, size = 256, 256 * KIB
    monkeypatch.setattr(kept, "KEPT_SIZE", MIB)
    mesh = Journey(tmp_path / "group", None)
    leader = mesh.begin(values=count, size=size)
    (late,) = mesh.late
    tracemalloc.start()
    try:
        mesh.heal()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert mesh.cores[late].machine.used[1] > (count - 1) * size
    assert peak < count * size / 4
    mesh.settle()
    assert len(mesh.bodies(late, count)) * size <= kept.KEPT_SIZE + 2 * size
    assert len(mesh.bodies(leader, count)) * size <= kept.KEPT_SIZE + 2 * size
    mesh.close()
