"""A simulated disk: what survives what."""

from __future__ import annotations

from random import Random

import pytest

from peermesh.testing.simulation.backend import DiskBackend
from peermesh.testing.simulation.disk import SECTOR_SIZE, Disk
from peermesh.testing.simulation.log_backend import DiskLogBackend
from stores.log.changes import LogChanges, Role
from stores.persistence import Changes, Rows
from tests.stores.disk.kinds import LogKind
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


def backend(disk: Disk, owner: str = "me", **options: object) -> DiskBackend:
    return DiskBackend(disk, owner, "s.db", options)


def changes(revision: int) -> Changes:
    key = b"key%d" % revision
    return Changes(revision, rows=Rows([key], [b"value" * 200], [revision]))


def test_a_store_finds_every_acknowledged_commit_again_and_the_last_may_be_torn():
    revisions = set()
    for seed in range(50):
        disk = Disk()
        store = backend(disk)
        first = store.load(1)
        for revision in (1, 2):
            store.commit(changes(revision))
        disk.lie_fsync()
        store.commit(changes(3))
        disk.cut_power(Random(seed))
        loaded = backend(disk).load(1)
        assert loaded.epoch > first.epoch
        assert len(loaded.columns.values) == loaded.revision
        revisions.add(loaded.revision)
    assert revisions == {2, 3}


def test_a_store_without_syncs_may_lose_everything_but_its_order():
    lost = set()
    for seed in range(50):
        disk = Disk()
        store = backend(disk, synchronous="OFF")
        store.load(1)
        for revision in (1, 2, 3):
            store.commit(changes(revision))
        disk.cut_power(Random(seed))
        loaded = backend(disk).load(1)
        assert list(loaded.columns.revisions.values()) == list(range(1, loaded.revision + 1))
        lost.add(3 - loaded.revision)
    assert {0, 1, 2, 3} == lost


def test_changes_add_up_to_what_a_master_had():
    disk = Disk()
    store = backend(disk)
    store.load(1)
    store.commit(Changes(2, rows=Rows([b"a", b"b"], [b"1", b"2"], [1, 2], [99, None])))
    store.commit(Changes(4, rows=Rows([b"a"], [b"3"], [3]), erased=[b"b"]))
    store.close()
    loaded = backend(disk, "you").load(1)
    assert loaded.columns.values == {b"a": b"3"}
    assert loaded.columns.expiries == {}
    assert loaded.revision == 4
    store = backend(disk, "you")
    store.load(1)
    store.commit(Changes(5, is_cleared=True))
    assert backend(disk, "you").load(1).columns.values == {}


def test_a_file_belongs_to_one_master_at_a_time():
    disk = Disk()
    store = backend(disk)
    store.load(1)
    with pytest.raises(BackendFailure, match="another process"):
        backend(disk, "you").load(1)
    disk.release("me")
    backend(disk, "you").load(1)
    with pytest.raises(BackendFailure, match="killed"):
        store.commit(changes(1))


def test_an_unknown_option_is_refused():
    with pytest.raises(BackendFailure, match="colour"):
        backend(Disk(), colour="blue")


def log_backend(disk: Disk, **options: object) -> DiskLogBackend:
    return DiskLogBackend(disk, "me", "l.db", options)


def test_a_log_keeps_what_sqlite_keeps(tmp_path):
    kind, disk = LogKind(None), Disk()
    simulated, real = log_backend(disk), kind.make(tmp_path / "l.db")
    assert kind.load(simulated) == kind.load(real)
    for commit, state in kind.commits(12):
        for each in (simulated, real):
            each.commit(commit)
        simulated.close()
        simulated = log_backend(disk)
        assert kind.load(simulated) == state
    real.close()
    again = kind.make(tmp_path / "l.db")
    assert kind.load(again) == kind.load(log_backend(disk))
    again.close()


def test_a_log_finds_every_acknowledged_commit_again_and_the_last_may_be_torn():
    kind, found = LogKind(None), set()
    for seed in range(50):
        disk = Disk()
        log = log_backend(disk)
        states = [kind.load(log)]
        for number, (commit, state) in enumerate(kind.commits(3)):
            states.append(state)
            if number == 2:
                disk.lie_fsync()
            log.commit(commit)
        disk.cut_power(Random(seed))
        found.add(states.index(kind.load(log_backend(disk))))
    assert found == {2, 3}


def test_a_log_knows_whose_it_is_after_a_restart():
    disk = Disk()
    log = log_backend(disk)
    first = log.load_keeper(1, 2)
    log.commit(LogChanges(role=Role.DEPOSED, known_epoch=700))
    loaded = log_backend(disk).load_keeper(2, 2)
    assert (loaded.role, loaded.known_epoch) == (Role.DEPOSED, 700)
    assert (loaded.log_id, loaded.epoch, loaded.epochs) == (
        first.log_id,
        first.epoch,
        first.epochs,
    )
    log = log_backend(disk)
    log.load_follower()
    log.commit(LogChanges(role=Role.COPY))
    with pytest.raises(BackendFailure, match="copy"):
        log_backend(disk).load_keeper(3, 2)
    with pytest.raises(BackendFailure, match="colour"):
        log_backend(disk, colour="blue")
