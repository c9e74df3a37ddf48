"""Replicas of an electing group, for threads."""

from peermesh import blocking
from peermesh.testing.time_limits import limit


def test_three_replicas_for_threads() -> None:
    voters = ("a", "b", "c")
    with (
        blocking.Endpoint(name="a") as a,
        blocking.Endpoint(name="b") as b,
        blocking.Endpoint(name="c") as c,
    ):
        port = a.listen()
        assert b.peer("127.0.0.1", port)
        assert c.peer("127.0.0.1", port)
        stores = [each.attach_replica("s", voters=voters) for each in (a, b, c)]
        leader = stores[1].await_leader(limit())
        assert leader in voters
        for number, store in enumerate(stores):
            assert store.put(number, number).result(timeout=limit()) > 0
        for store in stores:
            assert sorted(store.read().keys()) == [0, 1, 2]
            assert store.await_idle(timeout=limit())
            assert store.get(2) == 2
        (led,) = [store for store in stores if store.is_leader()]
        assert led.leader() == leader
        assert sorted(each.name for each in led.members() if each.is_voter) == ["a", "b", "c"]
        assert led.statistics().role == "leader"
        other = next(store for store in stores if store is not led)
        other.promote(timeout=limit())
        assert other.is_leader()
        led.transfer(leader, limit())
        assert led.is_leader()
