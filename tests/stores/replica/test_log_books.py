"""What a log's replica has in its file, and when: at every write a crash may come."""

from __future__ import annotations

from random import Random

import pytest

from peermesh.testing.simulation.disk import Disk
from stores.log import producers
from stores.log.bodies import ChangeRetention
from stores.log.limits import BLOCK_COUNT_MAX
from stores.log.partitions import Retention
from stores.replica.logs import books
from stores.replica.logs.books import CHECKPOINT_TICKS, BookKeeper
from tests.stores.replica.log_file_mesh import FileMesh
from tests.stores.replica.log_mesh import LogMesh
from wire.encoding import encode


@pytest.fixture(params=["sqlite", "simulated"])
def mesh(request, tmp_path):
    mesh = FileMesh(tmp_path, Disk() if request.param == "simulated" else None)
    yield mesh
    mesh.close()


def test_what_was_acknowledged_outlives_a_crash_at_any_time(mesh):
    mesh.lead()
    for value in range(30):
        mesh.offset("a", mesh.append("a", value))
        mesh.move("a", "worker", (0, value))
        if value % 3 == 0:
            mesh.tick()
        mesh.work()
        if value % 5 == 0:
            before = mesh.cores["a"].machine.digest()
            mesh.crash("a")
            mesh.start_again("a")
            mesh.work()
            assert mesh.entries("a") == {each: each for each in range(value + 1)}
            assert dict(mesh.cores["a"].machine.all_cursors())["worker"] == ((0, value),)
            assert mesh.cores["a"].machine.digest() == before


def test_a_restart_applies_what_came_since_the_last_checkpoint_alone(mesh):
    mesh.lead()
    for value in range(20):
        mesh.offset("a", mesh.append("a", value))
    mesh.pass_ticks(2 * CHECKPOINT_TICKS)
    commit = mesh.cores["a"].member.state.commit
    mesh.offset("a", mesh.append("a", "later"))
    core = mesh.crash("a")
    assert core.machine.position.index == commit
    assert core.machine.partitions[0].end == 20
    mesh.start_again("a")
    assert list(mesh.entries("a").values()) == [*range(20), "later"]


def test_what_retention_let_go_is_not_in_the_file_for_long(mesh):
    mesh.lead()
    core = mesh.cores["a"]
    for value in range(2 * BLOCK_COUNT_MAX + 1):
        mesh.append("a", value)
    mesh.work()
    mesh.take("a", core.begin_ask(1, ChangeRetention(Retention(count=10))))
    mesh.ticks_until(lambda: core.machine.partitions[0].start)
    mesh.pass_ticks(2 * CHECKPOINT_TICKS)
    span = core.machine.partitions[0].span
    again = mesh.crash("a")
    assert again.machine.partitions[0].span == span
    assert again.machine.read(0, span.start, 1)[0].first_offset > 0


def test_offsets_go_on_after_everything_was_trimmed_and_the_member_restarted(mesh):
    mesh.lead()
    core = mesh.cores["a"]
    for value in range(5):
        mesh.offset("a", mesh.append("a", value))
    core.requests.trim(0, 5)
    mesh.flush("a")
    mesh.ticks_until(lambda: core.machine.partitions[0].start == 5)
    mesh.pass_ticks(2 * CHECKPOINT_TICKS)
    mesh.crash("a")
    mesh.start_again("a")
    assert mesh.offset("a", mesh.append("a", "later")) == 5
    assert mesh.entries("a") == {5: "later"}


def test_a_checkpoint_waits_until_all_that_it_has_is_durable(monkeypatch):
    monkeypatch.setattr(books, "CHECKPOINT_TICKS", 1)
    mesh = LogMesh()
    leader = mesh.lead()
    core = mesh.cores[leader]
    mesh.ticks_until(lambda: not core.carrier.is_writing)
    mesh.slow = {leader}
    mesh.offset(leader, mesh.append(leader, "the others have it"))
    member, keeper = core.member, BookKeeper(core.machine, 0)
    assert member.journal.durable < member.state.commit
    keeper.tick(member, 0)
    assert keeper.take(member.state.commit) is None
    mesh.slow = set()
    mesh.work()
    keeper.tick(member, 0)
    found = keeper.take(member.state.commit)
    assert found.checkpoint.applied.index == member.state.commit
    assert keeper.take(member.state.commit) is None, "once"


def test_a_member_that_was_away_has_a_snapshot_in_its_file(request, mesh, tmp_path, monkeypatch):
    monkeypatch.setattr("stores.replica.kept.KEPT_ENTRIES", 5)
    group = FileMesh(tmp_path / "group", mesh.disk, "abc")
    request.addfinalizer(group.close)
    leader = group.lead()
    late = next(name for name in "abc" if name != leader)
    for value in range(10):
        group.offset(leader, group.append(leader, value))
    group.ticks_until(group.level)
    group.cut = {late}
    for value in range(10, 40):
        group.offset(leader, group.append(leader, value))
    group.offset(leader, group.move(leader, "worker", (0, 30)))
    group.ticks_until(lambda: group.cores[leader].member.journal.floor.index > 30)
    group.cut = set()
    group.ticks_until(group.level)
    before = group.cores[late].machine.digest()
    for _ in range(2 * CHECKPOINT_TICKS):
        group.tick()
        group.work()
    again = group.crash(late)
    assert again.machine.digest() == before
    assert group.entries(late) == {value: value for value in range(40)}


def test_what_is_known_of_producers_is_in_the_file_in_its_order(mesh, monkeypatch):
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 3)
    monkeypatch.setattr(producers, "RETIRED_PRODUCERS_MAX", 2)
    monkeypatch.setattr(producers, "PRODUCER_WINDOW", 2)
    mesh.lead()
    chance = Random(5)
    for sequence in range(60):
        requests = mesh.cores["a"].requests
        requests.append(0, (None, encode(sequence)), f"p{chance.randrange(9)}", sequence)
        mesh.flush("a")
        mesh.work()
        if sequence % 3 == 0:
            mesh.pass_ticks(2 * CHECKPOINT_TICKS)
        if sequence % 7 == 0:
            rows = list(mesh.cores["a"].machine._producers.rows())
            mesh.pass_ticks(2 * CHECKPOINT_TICKS)
            again = mesh.crash("a")
            assert list(again.machine._producers.rows()) == rows
            mesh.start_again("a")
            mesh.work()
            assert list(mesh.cores["a"].machine._producers.rows()) == rows


@pytest.mark.parametrize("seed", range(10))
def test_what_was_acknowledged_outlives_a_power_cut_in_the_middle_of_anything(tmp_path, seed):
    chance, mesh = Random(seed), FileMesh(tmp_path, Disk())
    mesh.lead()
    acknowledged: dict[int, int] = {}
    for value in range(40):
        number = mesh.append("a", value)
        for _ in range(chance.randrange(4)):
            mesh.tick()
        if chance.random() < 0.2:
            if mesh.writes["a"]:
                mesh.files["a"].write(mesh.writes["a"].pop(0))  # It may be on the disk, or not.
            mesh.disk.cut_power(chance)
            mesh.crash("a")
            mesh.start_again("a")
        else:
            acknowledged[mesh.offset("a", number)] = value
        entries = mesh.entries("a")
        assert {offset: entries.get(offset) for offset in acknowledged} == acknowledged
        assert len(set(entries.values())) == len(entries), "nothing is there twice"
    mesh.close()
