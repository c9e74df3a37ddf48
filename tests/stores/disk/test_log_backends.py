"""The backends of logs: what they keep, what they let go, and what they say about other files."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from stores.actions import WriterId
from stores.disk import log as log_sqlite
from stores.disk.log import SQLiteLogBackend
from stores.disk.memory import MemoryLogBackend
from stores.log.changes import EpochEnds, LogBackend, LogChanges, Role
from stores.log.producers import ProducerRow
from stores.log.runs import OpenRun, Run
from stores.outcomes import Applied, Outcome, WriterRow
from tests.stores.disk.files import sealed_log
from wire.encoding import encode
from wire.errors import BackendFailure, InvalidData
from wire.identifiers import EndpointId, EntityId

WRITER = WriterId.of(EntityId(EndpointId(bytes(16)), 1), 7)


def run_of(partition: int, first: int, count: int, timestamp_ns: int = 0, size: int = 1) -> Run:
    flat: list[bytes | None] = []
    for number in range(first, first + count):
        flat += [None, encode(str(number) * size)]
    return OpenRun(partition, first, timestamp_ns, flat).seal()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def reopen(path, make_log):
    """Open the same file again and again, as keepers that follow one another do."""
    opened: list[SQLiteLogBackend] = []

    def open_again(**options):
        while opened:
            opened.pop().close()
        opened.append(make_log(path, **options))
        return opened[0]

    yield open_again
    while opened:
        opened.pop().close()


@pytest.fixture(params=["memory", "sqlite", "sqlite without its cache", "sealed without its cache"])
def backend(request, path, keys, monkeypatch):
    """Give a backend that is loaded, with three partitions."""
    if "without" in request.param:
        monkeypatch.setattr(log_sqlite, "CACHE_SIZE_MAX", 0)
    kind = request.param.partition(" ")[0]
    made: LogBackend = MemoryLogBackend()
    if kind != "memory":
        made = SQLiteLogBackend(path) if kind == "sqlite" else sealed_log(path, keys)
    made.load_keeper(1, 3)
    yield made
    made.close()


def test_runs_are_read_from_the_one_with_the_offset_on(backend):
    runs = [run_of(1, 0, 3), run_of(1, 3, 1), run_of(1, 4, 6)]
    backend.commit(LogChanges(runs=[runs[0], run_of(0, 0, 5)]))
    backend.commit(LogChanges(runs=runs[1:]))
    assert backend.read(1, 0, 10_000) == runs
    assert backend.read(1, 2, 10_000) == runs
    assert backend.read(1, 3, 10_000) == runs[1:]
    assert backend.read(1, 9, 10_000) == runs[2:]
    assert backend.read(1, 10, 10_000) == []
    assert backend.read(2, 0, 10_000) == []


def test_one_run_is_read_however_large_it_is(backend):
    runs = [run_of(0, 0, 1, size=1_000), run_of(0, 1, 1, size=1_000)]
    backend.commit(LogChanges(runs=runs))
    assert backend.read(0, 0, 10) == runs[:1]


def test_trimming_lets_whole_runs_go(backend):
    runs = [run_of(0, 0, 3), run_of(0, 3, 3)]
    backend.commit(LogChanges(runs=runs))
    backend.commit(LogChanges(starts=[(0, 2)]))
    assert backend.read(0, 2, 10_000) == runs
    backend.commit(LogChanges(starts=[(0, 4)]))
    assert backend.read(0, 2, 10_000) == []
    assert backend.read(0, 4, 10_000) == runs[1:]


def test_a_cleared_partition_begins_elsewhere(backend):
    backend.commit(LogChanges(runs=[run_of(0, 0, 3), run_of(1, 0, 3)]))
    backend.commit(LogChanges(cleared=[(0, 7)], runs=[run_of(0, 7, 1)]))
    assert backend.read(0, 7, 10_000) == [run_of(0, 7, 1)]
    assert backend.read(0, 0, 10_000) == []
    assert backend.read(1, 0, 10_000) == [run_of(1, 0, 3)]


def test_a_partition_is_cut_where_runs_meet(backend):
    backend.commit(LogChanges(runs=[run_of(0, 0, 3), run_of(0, 3, 2), run_of(1, 0, 3)]))
    backend.commit(LogChanges(cut=[(0, 3)], runs=[run_of(0, 3, 4)]))
    assert backend.read(0, 0, 10_000) == [run_of(0, 0, 3), run_of(0, 3, 4)]
    assert backend.read(1, 0, 10_000) == [run_of(1, 0, 3)]


def test_a_file_keeps_whose_it_is(reopen):
    backend = reopen()
    backend.load_keeper(100, 1)
    row = WriterRow(WRITER, 2, ())
    producer = ProducerRow("p", ((1, 0, 0),), 1)
    backend.commit(LogChanges(runs=[run_of(0, 0, 3)], writers=[row], producers=[producer]))
    backend.commit(LogChanges(role=Role.DEPOSED, known_epoch=700))
    found = reopen().load_keeper(200, 1)
    assert (found.role, found.epoch, found.known_epoch) == (Role.DEPOSED, 100, 700)
    assert (found.writers, [each.name for each in found.producers]) == ([row], ["p"])
    backend = reopen()
    backend.load_follower()
    lives = [EpochEnds(100, (0,)), EpochEnds(700, (2,))]
    backend.commit(LogChanges(epoch=700, lives=lives, is_memory_new=True, role=Role.COPY))
    with pytest.raises(BackendFailure, match="promote that"):
        reopen().load_keeper(800, 1)
    backend = reopen()
    found = backend.load_follower()
    assert (found.role, found.epochs) == (Role.COPY, lives)
    assert (list(found.writers), list(found.producers)) == ([], [])
    backend.commit(LogChanges(role=Role.KEEPER))
    assert reopen().load_keeper(1 << 48 | 5, 1).epoch > 700


def test_another_log_replaces_everything(backend):
    backend.commit(LogChanges(runs=[run_of(0, 0, 3), run_of(1, 0, 3)]))
    backend.commit(LogChanges(log_id=9, epoch=9, cleared=[(0, 0)], runs=[run_of(0, 0, 1)]))
    assert backend.read(0, 0, 10_000) == [run_of(0, 0, 1)]
    assert backend.read(1, 0, 10_000) == []


def test_times_are_found(backend):
    backend.commit(LogChanges(runs=[run_of(0, 0, 2, 10), run_of(0, 2, 2, 20), run_of(0, 4, 1, 20)]))
    backend.commit(LogChanges(runs=[run_of(1, 0, 1, 15), run_of(0, 5, 1, 30)]))
    found = [backend.find(0, stamp) for stamp in (0, 10, 11, 20, 21, 30, 31)]
    assert found == [0, 0, 2, 2, 5, 5, None]
    assert backend.find(2, 0) is None


def test_a_file_keeps_everything(reopen):
    backend = reopen()
    first = backend.load_keeper(100, 2)
    assert (first.log_id, first.epoch, first.epochs) == (100, 100, [EpochEnds(100, (0, 0))])
    outcomes = (Outcome(1, 1, Applied(0)), Outcome(2, 2, Applied(5, answer=False)))
    backend.commit(
        LogChanges(
            runs=[run_of(0, 0, 3, 10), run_of(1, 0, 1, 11)],
            starts=[(0, 1)],
            cursors=(("consumer", ((0, 2), (1, 1))), ("gone", ((0, 0),))),
            writers=[WriterRow(WRITER, 2, outcomes)],
            producers=[ProducerRow("p", ((1, 0, 0), (2, 1, 0)), 1), ProducerRow("q", ((9, 0, 1),))],
        )
    )
    backend.commit(
        LogChanges(
            forgotten_consumers=["gone"],
            producers=[ProducerRow("p", ((3, 0, 2),), 2)],
        )
    )
    again = reopen().load_keeper(1, None)
    assert (again.log_id, again.epoch) == (100, 101)
    assert [(part.start, part.end) for part in again.partitions] == [(1, 3), (0, 1)]
    assert again.partitions[0].last_timestamp_ns == 10
    assert again.cursors == (("consumer", ((0, 2), (1, 1))),)
    assert again.epochs == [EpochEnds(100, (0, 0)), EpochEnds(101, (3, 1))]
    assert again.writers == [WriterRow(WRITER, 2, outcomes)]
    assert [(row.name, row.appended) for row in again.producers] == [
        ("q", ((9, 0, 1),)),
        ("p", ((2, 1, 0), (3, 0, 2))),
    ]


def test_a_follower_s_file_keeps_of_which_life_it_is(reopen):
    backend = reopen()
    empty = backend.load_follower()
    assert (empty.log_id, empty.epoch, empty.partitions) == (0, 0, [])
    backend.commit(LogChanges(log_id=5, epoch=6, cleared=[(0, 0), (1, 3)]))
    backend.commit(LogChanges(runs=[run_of(1, 3, 2)]))
    again = reopen().load_follower()
    assert (again.log_id, again.epoch) == (5, 6)
    assert [(part.start, part.end) for part in again.partitions] == [(0, 0), (3, 5)]


def test_readers_do_not_wait_for_the_disk_where_the_cache_serves(reopen):
    backend = reopen()
    backend.load_keeper(1, 1)
    backend.commit(LogChanges(runs=[run_of(0, 0, 1)]))
    with backend._disk:  # as while a commit is under way
        found = backend.read(0, 0, 10_000)
    assert found == [run_of(0, 0, 1)]


def test_one_thread_reads_while_another_commits(reopen, monkeypatch):
    monkeypatch.setattr(log_sqlite, "CACHE_SIZE_MAX", 0)
    backend = reopen(synchronous="OFF")
    backend.load_keeper(1, 1)
    count, seen = 200, []

    def read() -> None:
        while len(seen) < count:
            seen.extend(run.first_offset for run in backend.read(0, len(seen), 10_000))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(count):
        backend.commit(LogChanges(runs=[run_of(0, number, 1)]))
    reader.join()
    assert seen == list(range(count))


def test_other_files_are_refused(path, reopen):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (a)")
    connection.close()
    with pytest.raises(BackendFailure, match="another kind"):
        reopen().load_keeper(1, 1)


def test_a_file_in_use_is_refused(path, reopen):
    reopen().load_keeper(1, 1)
    other = SQLiteLogBackend(path)
    with pytest.raises(BackendFailure, match="another keeper or follower has it"):
        other.load_keeper(1, 1)
    other.close()


def test_the_number_of_partitions_stays(reopen):
    reopen().load_keeper(1, 2)
    with pytest.raises(InvalidData, match="2 partitions, not 3"):
        reopen().load_keeper(1, 3)


@pytest.mark.parametrize("options", [{"synchronous": "MAYBE"}, {"path": ""}])
def test_bad_options_are_refused(path, options):
    with pytest.raises(BackendFailure):
        SQLiteLogBackend(**{"path": path, **options})


def test_after_it_was_closed_it_says_so(reopen):
    backend = reopen()
    backend.load_keeper(1, 1)
    backend.close()
    with pytest.raises(BackendFailure, match="closed"):
        backend.commit(LogChanges())
