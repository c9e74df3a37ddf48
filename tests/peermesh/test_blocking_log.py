"""Logs for threads: the same names, and calls that wait."""

from __future__ import annotations

import threading

import pytest

from peermesh import blocking
from peermesh.testing.time_limits import limit
from stores.log.partitions import Span
from stores.log.runs import Position
from wire.errors import OffsetOutOfRange, QuotaExceeded, RequestTimeout, StoreClosed


@pytest.fixture
def pair():
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert right.peer("127.0.0.1", left.listen(), retry=0)
        assert left.await_peer(right.node_id(), timeout=limit())
        yield left, right


def test_a_log_of_threads(pair, tmp_path):
    left, right = pair
    path = tmp_path / "log.db"
    with left.attach_log("log", (), 2, blocking.Backend.SQLite, path=path) as keeper:
        with right.attach_log_proxy("log") as log:
            assert log.name() == "log"
            assert log.partition_count() == 2
            assert log.append("one", partition=1).result(limit()) == Position(1, 0)
            assert log.append_batch(["two", "three"], partition=1).result(limit()) == Position(1, 1)
            assert [entry.value for entry in log.read(1, 0)] == ["one", "two", "three"]
            consumer = log.consume("name", partitions=[1])
            assert consumer.get(limit()).value == "one"
            consumer.commit().result(limit())
            assert log.committed("name") == {1: 1}
            assert log.lag("name") == 2
            assert [entry.value for entry in consumer.get_batch()] == ["two", "three"]
            assert consumer.positions() == {1: 3}
            with pytest.raises(RequestTimeout):
                consumer.get(0.01)
            log.commit("name", {1: 3}).result(limit())
            assert keeper.consumers() == {"name": {1: 3}}
            log.trim(1, 2).result(limit())
            assert log.offsets() == {0: Span(0, 0), 1: Span(2, 3)}
            with pytest.raises(OffsetOutOfRange):
                log.read(1, 0)
            consumer.seek(1, 2)
            assert consumer.get(limit()).value == "three"
            assert log.offset_at(1, 0) == 2
            log.forget_consumer("name").result(limit())
            assert keeper.consumers() == {}
            assert keeper.await_idle(limit())
        with pytest.raises(StoreClosed):
            log.append("late")


def test_a_full_log_says_so_and_takes_more_with_a_larger_quota(pair):
    left, right = pair
    with left.attach_log("log", max_entries=1) as keeper, right.attach_log_proxy("log") as log:
        log.append("one").result(limit())
        with pytest.raises(QuotaExceeded, match="log log is full"):
            log.append("two").result(limit())
        keeper.set_quota(max_entries=2)
        log.append("two").result(limit())
        assert (keeper.statistics().entries, keeper.statistics().max_entries) == (2, 2)


def test_many_threads_append_and_one_follows(pair):
    left, right = pair
    with left.attach_log("log") as keeper, right.attach_log_clone("log") as follower:

        def append(number: int) -> None:
            for at in range(50):
                keeper.append((number, at)).result(limit())

        threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        seen: dict[int, list[int]] = {}
        for entry in follower.consume():
            number, at = entry.value
            seen.setdefault(number, []).append(at)
            if entry.offset == 199:
                break
        for thread in threads:
            thread.join()
        assert seen == {number: list(range(50)) for number in range(4)}
