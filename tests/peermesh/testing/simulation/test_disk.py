"""A simulated disk: what survives what."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from peermesh.testing.simulation.disk import SECTOR_SIZE, Disk
from peermesh.testing.simulation.log_replica_file import DiskLogReplica
from peermesh.testing.simulation.replica_file import DiskReplica
from stores.actions import PutCommand
from stores.group.clock import Times
from stores.group.effects import Persist
from stores.group.entries import ActionEntry, LeadEntry
from tests.stores.disk.log_replicas import LogReplicaKind, state_of as state_of_log
from tests.stores.disk.replicas import (
    BODIES,
    FOUNDING,
    GROUP,
    WRITER,
    ReplicaKind,
    ReplicaModel,
    state_of,
)
from wire.errors import BackendFailure


def test_what_was_synced_survives_and_what_was_not_is_lost_torn_or_kept():
    fates = set()
    for seed in range(50):
        disk = Disk()
        file = disk.open("f", "me")
        disk.write(file, 0, b"a" * 3 * SECTOR_SIZE)
        disk.sync(file)
        disk.write(file, 3 * SECTOR_SIZE, b"b" * 3 * SECTOR_SIZE)
        disk.cut_power(Random(seed))
        content = disk.open("f", "me").read()
        assert content[: 3 * SECTOR_SIZE] == b"a" * 3 * SECTOR_SIZE
        fates.add(content.count(b"b") // SECTOR_SIZE)
    assert fates == {0, 1, 2, 3}


def test_a_crash_of_the_process_alone_loses_nothing():
    disk = Disk()
    disk.write(disk.open("f", "me"), 0, b"unsynced")
    disk.release("me")
    assert disk.open("f", "you").read() == b"unsynced"


def test_a_sync_that_failed_is_never_made_good():
    disk = Disk()
    file = disk.open("f", "me")
    disk.fail_fsync()
    disk.write(file, 0, b"lost")
    with pytest.raises(OSError, match="Input/output"):
        disk.sync(file)
    disk.heal()
    disk.sync(file)
    assert file.read() == b"lost"
    disk.cut_power(Random(1))
    assert file.read() == b""


def test_a_full_disk_takes_what_there_is_room_for():
    disk = Disk()
    file = disk.open("f", "me")
    disk.full(free=4)
    disk.write(file, 0, b"four")
    with pytest.raises(OSError, match="No space"):
        disk.write(file, 4, b"!")
    assert file.read() == b"four"


def backend(disk: Disk, owner: str = "me", **options: object) -> DiskReplica:
    return DiskReplica(disk, owner, "s.db", BODIES, options)


def opened(disk: Disk, **options: object) -> DiskReplica:
    store = backend(disk, **options)
    store.load(FOUNDING)
    store.join(GROUP)
    return store


def append(store: DiskReplica, index: int) -> None:
    entry = ActionEntry(1, PutCommand(WRITER, 1, None, [b"key", b"value" * 200]))
    store.persist(Persist(1, None, index - 1, (entry,)))


@pytest.mark.parametrize("seed", range(5))
def test_a_replica_keeps_what_sqlite_keeps(seed: int, tmp_path: Path) -> None:
    disk, real = Disk(), ReplicaKind(None).make(tmp_path / "s.db")
    simulated = backend(disk)
    assert state_of(simulated.load(FOUNDING)) == state_of(real.load(FOUNDING))
    for step, state in ReplicaModel(Random(seed)).steps(40):
        step(simulated)
        step(real)
        simulated.close()
        simulated = backend(disk)
        assert state_of(simulated.load(FOUNDING)) == state
    real.close()
    with closing(ReplicaKind(None).make(tmp_path / "s.db")) as again:
        assert state_of(again.load(FOUNDING)) == state


def test_entries_that_a_lead_by_force_takes_back_are_in_a_file_of_their_own():
    disk = Disk()
    store = opened(disk)
    for index in (1, 2, 3):
        append(store, index)
    store.persist(Persist(1, None, 1, (LeadEntry(900, Times(1, 1)),)), forced_after=1)
    assert disk.files["s.db.lost-1"].read()
    assert [entry.term for entry in backend(disk).load(FOUNDING).entries] == [1, 900]


def test_a_replica_finds_every_acknowledged_commit_again_and_the_last_may_be_torn():
    counts = set()
    for seed in range(50):
        disk = Disk()
        store = opened(disk)
        for index in (1, 2):
            append(store, index)
        disk.lie_fsync()
        append(store, 3)
        disk.cut_power(Random(seed))
        loaded = backend(disk).load(FOUNDING)
        assert loaded.meta.group == GROUP
        counts.add(len(loaded.entries))
    assert counts == {2, 3}


def test_what_a_failed_sync_left_is_durable_once_it_is_loaded():
    for seed in range(10):
        disk = Disk()
        store = opened(disk)
        append(store, 1)
        disk.fail_fsync()
        with pytest.raises(BackendFailure, match="Input/output"):
            append(store, 2)
        disk.heal()
        disk.release("me")
        found = len(backend(disk).load(FOUNDING).entries)
        disk.release("me")
        disk.cut_power(Random(seed))
        assert len(backend(disk).load(FOUNDING).entries) == found


def test_a_replica_without_syncs_may_lose_everything_but_its_order():
    counts = set()
    for seed in range(50):
        disk = Disk()
        store = opened(disk, synchronous="OFF")
        for index in (1, 2, 3):
            append(store, index)
        disk.cut_power(Random(seed))
        counts.add(len(backend(disk).load(FOUNDING).entries))
    assert counts == {0, 1, 2, 3}


def test_a_file_belongs_to_one_replica_at_a_time():
    disk = Disk()
    store = opened(disk)
    with pytest.raises(BackendFailure, match="another process"):
        backend(disk, "you").load(FOUNDING)
    disk.release("me")
    backend(disk, "you").load(FOUNDING)
    with pytest.raises(BackendFailure, match="killed"):
        append(store, 1)


def test_an_unknown_option_is_refused():
    with pytest.raises(BackendFailure, match="colour"):
        backend(Disk(), colour="blue")


def log_file(disk: Disk, **options: object) -> DiskLogReplica:
    return DiskLogReplica(disk, "me", "l.db", options)


def log_state(log: DiskLogReplica) -> object:
    return state_of_log(log, log.load(FOUNDING))


def test_a_log_keeps_what_sqlite_keeps(tmp_path):
    kind, disk = LogReplicaKind(None), Disk()
    simulated, real = log_file(disk), kind.make(tmp_path / "l.db")
    assert log_state(simulated) == kind.load(real)
    for step, state in kind.commits(24):
        for each in (simulated, real):
            step(each)
        simulated.close()
        simulated = log_file(disk)
        assert log_state(simulated) == state
    real.close()


def test_a_log_finds_every_acknowledged_commit_again_and_the_last_may_be_torn():
    kind, found = LogReplicaKind(None), set()
    for seed in range(50):
        disk = Disk()
        log = log_file(disk)
        states = [log_state(log)]
        for number, (step, state) in enumerate(kind.commits(3)):
            states.append(state)
            if number == 2:
                disk.lie_fsync()
            step(log)
        disk.cut_power(Random(seed))
        found.add(states.index(log_state(log_file(disk))))
    assert found == {2, 3}


def test_an_unknown_option_of_a_log_is_refused():
    with pytest.raises(BackendFailure, match="colour"):
        log_file(Disk(), colour="blue")
