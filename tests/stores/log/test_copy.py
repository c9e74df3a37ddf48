"""A follower's copy while its disk is slow: what a keeper says meanwhile meets what is coming."""

from __future__ import annotations

from stores.log.changes import LoadedLog
from stores.log.copy import Copy
from stores.log.partitions import Partition, RunInfo
from stores.log.runs import Run
from wire.encoding import encode

LOG_ID = 7


def run(first_offset: int, end: int) -> Run:
    count = end - first_offset
    return Run(0, first_offset, count, 1, encode((None, b"\x01") * count))


def copy_of(partitions: list[Partition], log_id: int = LOG_ID) -> Copy:
    return Copy(LoadedLog(log_id, 1, partitions, (), [], (), ()))


def commit_all(copy: Copy) -> None:
    while not copy.is_settled:
        if copy._in_flight is None:
            copy.start_commit()
        copy.finish_commit()


def test_another_keeper_may_come_before_the_first_commit_is_over() -> None:
    copy = copy_of([], log_id=0)
    copy.agree(LOG_ID, 1, (0,), ((0, 0),))
    assert copy.start_commit() is not None
    copy.add(run(0, 50))
    copy.agree(LOG_ID, 2, (0,), ((0, 30),))
    assert copy.ends == [0], "no place up to 30 is known where runs meet"
    copy.add(run(0, 30))
    commit_all(copy)
    assert copy.partitions.ends() == (30,)


def test_what_a_commit_is_about_to_clear_says_nothing_of_where_runs_meet() -> None:
    old = Partition()
    for start in range(0, 130, 10):
        old.extend(RunInfo(start, 10, start * 10**9, 10))
    copy = copy_of([old])
    copy.clear(0, 100)
    assert copy.start_commit() is not None
    copy.add(run(100, 125))
    copy.add(run(125, 150))
    copy.agree(LOG_ID, 2, (100,), ((0, 120),))
    assert copy.ends == [100], "110 is in the middle of a run"
    commit_all(copy)
    assert (copy.partitions.starts(), copy.partitions.ends()) == ((100,), (100,))
