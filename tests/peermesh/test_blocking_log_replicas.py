"""Replicas of a log whose group elects its leader, for threads."""

import pytest

from peermesh import blocking
from peermesh.errors import QuotaExceeded
from peermesh.testing.time_limits import limit


def test_three_replicas_of_a_log_for_threads() -> None:
    voters = ("a", "b", "c")
    with (
        blocking.Endpoint(name="a") as a,
        blocking.Endpoint(name="b") as b,
        blocking.Endpoint(name="c") as c,
    ):
        port = a.listen()
        assert b.peer("127.0.0.1", port)
        assert c.peer("127.0.0.1", port)
        logs = [each.attach_log_replica("l", voters=voters, partitions=2) for each in (a, b, c)]
        leader = logs[1].await_leader(limit())
        assert leader in voters
        for number, log in enumerate(logs):
            assert log.append(number, partition=1).result(limit()).offset == number
        for log in logs:
            log.catch_up(limit())
            assert [entry.value for entry in log.read(1, 0)] == [0, 1, 2]
        (led,) = [log for log in logs if log.is_leader()]
        assert led.leader() == leader
        assert "ReplicaLog l" in repr(led)
        assert sorted(each.name for each in led.members() if each.is_voter) == ["a", "b", "c"]
        other = next(log for log in logs if log is not led)
        other.promote(timeout=limit())
        assert other.is_leader()
        with other.consume("worker", partitions=[1]) as consumer:
            assert consumer.get(limit()).value == 0
            consumer.commit().result(limit())
        led.catch_up(limit())
        assert led.committed("worker") == {1: 1}
        led.set_retention(keep_count=100)
        led.set_quota(max_entries=4)
        led.append(3, partition=1).result(limit())
        with pytest.raises(QuotaExceeded):
            other.append(4, partition=1).result(limit())
        assert led.statistics().max_entries == 4
        led.transfer(leader, limit())
        assert led.is_leader()
