"""Replicas of an electing group, for threads."""

import threading

import pytest

from peermesh import blocking
from peermesh.errors import GuardFailed, NoSuchMaster, RequestTimeout, SessionExpired
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
            pages = store.pages(limit=2)
            first = next(pages)
            store.put(2, 2).result(timeout=limit())
            (rest,) = pages
            assert [entry.key for entry in (*first, *rest)] == [0, 1, 2]
            assert rest.revision == first.revision
        (led,) = [store for store in stores if store.is_leader()]
        assert led.leader() == leader
        assert sorted(each.name for each in led.members() if each.is_voter) == ["a", "b", "c"]
        assert led.statistics().role == "leader"
        other = next(store for store in stores if store is not led)
        other.promote(timeout=limit())
        assert other.is_leader()
        led.transfer(leader, limit())
        assert led.is_leader()


def test_sessions_locks_and_elections_for_threads() -> None:
    with blocking.Endpoint(name="a") as a, blocking.Endpoint(name="b") as b:
        assert b.peer("127.0.0.1", a.listen())
        store = a.attach_replica("s", voters=("a",))
        other = b.attach_replica("s", voters=("a",))
        other.await_leader(limit())
        with other.session(ttl=60) as session:
            session.put("key", 1).result(limit())
            assert not session.put_unique("key", 2)
            assert session.is_alive
            session.check()
            assert store.read().entry("key").session == session.number
            assert session.ttl == 60
        assert not session.is_alive
        with pytest.raises(SessionExpired):
            session.check()
        assert store.read().get("key") is None
        with store.lock("it") as lock:
            with pytest.raises(RequestTimeout), other.lock("it", timeout=0):
                raise AssertionError
            store.batch(lock.guard(blocking.Batch().put("x", 1))).result(limit())
            told = threading.Event()

            def hold() -> None:
                with other.lock("it") as later:
                    assert later.token > lock.token
                    told.set()

            thread = threading.Thread(target=hold)
            thread.start()
        assert told.wait(limit())
        thread.join()
        with pytest.raises(GuardFailed):
            store.batch(lock.guard(blocking.Batch().put("x", 2))).result(limit())
        with store.elections("job") as elections:
            assert elections.get(limit()) is None
            with store.elect("job", "me"):
                assert elections.get(limit()).value == "me"
                assert other.elected("job").value == "me"
                assert elections.poll() == []


def test_a_block_of_a_thread_tells_that_its_endpoint_was_shut_down() -> None:
    with blocking.Endpoint(name="a") as endpoint:
        store = endpoint.attach_replica("s", voters=("a",))
        store.await_leader(limit())

        def hold() -> None:
            with store.session(ttl=60):
                endpoint.shutdown()

        with pytest.raises(SessionExpired, match="is over: store s is closed"):
            hold()


def test_a_block_of_a_thread_tells_that_its_session_was_lost() -> None:
    with blocking.Endpoint(name="a") as a:
        store = a.attach_replica("s", voters=("a",))
        lock = store.lock("it", ttl=2)

        def hold() -> None:
            with lock:
                store.erase(("peermesh/lock", "it", lock.number)).result(limit())
                lock.wait_lost()
                assert not lock.is_alive
                assert "Lock" in repr(lock)

        with pytest.raises(SessionExpired, match="erased"):
            hold()
        with store.lock("it") as closed:
            closed.close()  # It is not lost by that.


def test_a_clone_serves_reads_without_its_master() -> None:
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert right.peer("127.0.0.1", left.listen())
        clone = right.attach_clone("s", mutation_buffer_interval=0.2)
        with left.attach_master("s") as master:
            master.put("k", 1).result(timeout=limit())
            assert clone.await_idle(timeout=limit())
            assert clone.get("k") == 1
        with pytest.raises(NoSuchMaster):
            clone.put("k", 2).result(timeout=limit())
        for _ in range(2):
            assert clone.get("k") == 1
            assert clone.exists("k")
            assert not clone.exists("other")
