"""The blocking API: from many threads at once, with its timeouts, and nothing left behind."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from peermesh import Batch, Bookmark, blocking as broker
from peermesh.blocking.portal import Portal
from peermesh.testing.hostile import open_hostile
from peermesh.testing.time_limits import limit
from wire.errors import (
    EndpointClosed,
    GuardFailed,
    MasterExists,
    NoSuchMaster,
    QuotaExceeded,
    RequestTimeout,
    StoreClosed,
    TypeClash,
)
from wire.identifiers import EndpointId
from wire.messages import Announcements, DropConn


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert {thread for thread in threading.enumerate() if thread.name == "peermesh"} <= before


@pytest.fixture
def pair() -> Iterator[tuple[broker.Endpoint, broker.Endpoint]]:
    with broker.Endpoint() as left, broker.Endpoint() as right:
        assert right.peer("127.0.0.1", left.listen(), retry=0)
        assert left.await_peer(right.node_id(), timeout=limit())
        yield left, right


def await_subscription(left: broker.Endpoint, right: broker.Endpoint, topic: str) -> None:
    """Wait until ``left`` knows what ``right`` wants: publish until something arrives."""
    probe = right.subscribe("/probe")
    while not probe.available():
        left.publish("/probe", 1)
    probe.close()


def test_many_threads_share_one_subscriber(pair) -> None:
    left, right = pair
    subscriber = right.subscribe("/t")
    await_subscription(left, right, "/t")
    taken: list[object] = []

    def take() -> None:
        for _, data in subscriber:
            taken.append(data)

    readers = [threading.Thread(target=take) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(3_000):
        left.publish("/t", number)
    while len(taken) < 3_000:
        threading.Event().wait(0.001)
    subscriber.close()
    for reader in readers:
        reader.join(limit())
        assert not reader.is_alive()
    assert sorted(taken) == list(range(3_000))


def test_threads_that_publish_at_once_on_many_topics_keep_their_own_order(pair) -> None:
    left, right = pair
    count = 3_000
    subscriber = right.subscribe("/t", queue_size=64)
    await_subscription(left, right, "/t")

    def publish(thread: int) -> None:
        for number in range(count):
            padding = bytes(2_000 if number % 50 == 0 else 8)
            left.publish(f"/t/{number % 3}", bytes([thread]) + number.to_bytes(4) + padding)

    threads = [threading.Thread(target=publish, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    last: dict[tuple[int, str], int] = {}
    for _ in range(4 * count):
        topic, data = subscriber.get(limit())
        before = last.get((data[0], topic), int(topic[-1]) - 3)
        last[data[0], topic] = int.from_bytes(data[1:5])
        assert last[data[0], topic] == before + 3
    for thread in threads:
        thread.join(limit())
    assert subscriber.available() == 0


def test_timeouts_raise_or_return_false_as_documented(pair) -> None:
    left, right = pair
    with pytest.raises(TimeoutError):
        right.subscribe("/t").get(timeout=0.01)
    nobody = EndpointId(bytes(16))
    outcome = left.await_peer(nobody, timeout=0.01)
    assert not outcome
    assert str(nobody) in str(outcome)
    assert not right.peer("127.0.0.1", 1, retry=0)
    assert not right.peer("127.0.0.1", 1, timeout=0.01)
    with right.attach_clone("nowhere") as clone:
        idle = clone.await_idle(timeout=0.01)
        assert not idle
        assert "no master" in str(idle)


def test_what_was_published_before_the_end_arrives() -> None:
    with broker.Endpoint() as right:
        subscriber = right.subscribe("/t")
        port = right.listen()
        with broker.Endpoint() as left:
            assert left.peer("127.0.0.1", port, timeout=limit())
            for number in range(10_000):
                left.publish("/t", number)
        assert [subscriber.get(limit())[1] for _ in range(10_000)] == list(range(10_000))


def test_a_closed_endpoint_says_so() -> None:
    endpoint = broker.Endpoint()
    store = endpoint.attach_master("s")
    subscriber = endpoint.subscribe("/t")
    endpoint.publish("/t", b"x")
    endpoint.shutdown()
    endpoint.shutdown()
    for call in (endpoint.listen, endpoint.peers, lambda: endpoint.publish("/t", b"x")):
        with pytest.raises(EndpointClosed):
            call()
    with pytest.raises(EndpointClosed):
        subscriber.get()
    with pytest.raises(StoreClosed):
        store.get("k")
    with pytest.raises(StoreClosed):
        store.put("k", 1)


def test_a_second_master_and_a_clone_beside_the_master_are_refused(pair) -> None:
    left, right = pair
    with left.attach_master("s"):
        with pytest.raises(MasterExists, match="attach a clone"):
            left.attach_master("s")
        with pytest.raises(NoSuchMaster):
            left.attach_clone("s")
        with right.attach_clone("s") as clone:
            assert clone.await_idle(timeout=limit())
            with pytest.raises(MasterExists):
                right.attach_master("s")


def test_a_full_store_says_so_and_takes_more_with_a_larger_quota(pair) -> None:
    left, right = pair
    with left.attach_master("s", max_entries=1) as store, right.attach_clone("s") as clone:
        store.put("k", 1).result(timeout=limit())
        for handle in (store, clone):
            with pytest.raises(QuotaExceeded, match="store s is full: 1 of 1 entries"):
                handle.put("l", 1).result(timeout=limit())
        with pytest.raises(NoSuchMaster):
            clone.set_quota(max_entries=2)
        store.set_quota(max_entries=2)
        clone.put("l", 1).result(timeout=limit())
        assert (store.statistics().entries, store.statistics().max_entries) == (2, 2)


def test_reads_at_the_master_see_ones_own_writes(tmp_path: Path) -> None:
    with (
        broker.Endpoint() as endpoint,
        endpoint.attach_master("s", broker.Backend.SQLite, path=tmp_path / "s.db") as store,
    ):
        for number in range(50):
            store.put("k", number)
            assert store.get("k") == number
        receipt = store.append("k", "text")
        with pytest.raises(TypeClash):
            receipt.result(limit())
        assert store.get("k") == 49


def test_endpoints_share_one_thread_and_the_last_one_ends_it() -> None:
    with broker.Endpoint(), broker.Endpoint():
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("peermesh") == 1
        portal = Portal.acquire()
        portal.release()
    assert "peermesh" not in [thread.name for thread in threading.enumerate()]


def test_a_store_follows_its_master_through_a_thread(pair) -> None:
    left, right = pair
    with left.attach_master("s") as master, right.attach_clone("s") as clone:
        assert clone.await_idle(timeout=limit())
        with clone.events() as events, clone.watch(prefix="k") as watch:
            mark = watch.get(limit())
            assert isinstance(mark, Bookmark)
            assert mark.revision == 0
            master.put("k", 1)
            event = events.get(limit())
            assert (event.key, event.after, event.writer) == ("k", 1, left.node_id())
            (change,) = watch.get(limit()).changes
            assert (change.key, change.entry.value, watch.revision) == ("k", 1, 1)
            with pytest.raises(RequestTimeout):
                watch.get(0)
            assert (watch.poll(), events.poll()) == ([], [])
        with pytest.raises(StoreClosed):
            watch.get(limit())


def test_a_store_is_read_and_changed_with_care_through_a_thread(pair) -> None:
    left, right = pair
    with left.attach_master("s") as master, right.attach_clone("s") as clone:
        assert clone.await_idle(timeout=limit())
        revision = clone.compare_and_set("k", 1, None).result(limit())
        entry = clone.not_before(revision).entry("k")
        assert (entry.value, entry.revision, entry.expires_at) == (1, revision, None)
        with pytest.raises(GuardFailed):
            clone.compare_and_set("k", 2, None).result(limit())
        second = clone.compare_and_set("k", (5, 6), revision)
        assert clone.not_before(second).get_index_from_value("k", 1) == 6
        assert master.at_master().get("k") == (5, 6)
        for number in range(5):
            master.put(("n", number), number)
        fresh = clone.at_master()
        assert [entry.value for entry in fresh.entries(prefix=("n",))] == [0, 1, 2, 3, 4]
        page = fresh.scan(("n", 1), ("n", 4), limit=2)
        assert [entry.key for entry in page] == [("n", 1), ("n", 2)]
        rest = clone.scan(("n", 1), ("n", 4), limit=2, after=page.continuation)
        assert ([entry.value for entry in rest], rest.continuation) == ([3], None)
        assert fresh.exists("k")
        assert len(fresh.keys()) == len(fresh.items()) == 6
        assert fresh.get("missing", 7) == 7
        receipt = clone.batch(Batch().if_absent("k").erase("k").otherwise().put("k", "there"))
        receipt.result(limit())
        assert not receipt.has_held()
        assert clone.get("k") == "there"
        assert clone.compare_and_erase("k", receipt.result()).result(limit())
        assert not clone.exists("k")


def test_a_name_is_shown_as_by_the_other_api(monkeypatch) -> None:
    monkeypatch.setenv("PEERMESH_NAME", "store-b")
    with broker.Endpoint(name="store-a") as left, broker.Endpoint() as right:
        status = left.subscribe_status()
        assert right.peer("127.0.0.1", left.listen(), retry=0)
        assert left.await_peer(right.node_id(), timeout=limit())
        (peer,) = left.peers()
        assert (peer.name, left.name_of(right), left.name_of(left)) == (
            "store-b",
            "store-b",
            "store-a",
        )
        assert repr(left).startswith(f"<Endpoint store-a ({left.node_id()}) listening ")
        assert left.describe().name == "store-a"
        event = status.get(timeout=limit())
        assert (event.name, event.endpoint) == ("store-b", right.node_id())
        assert f": store-b ({right.node_id()})" in str(event)
        with broker.Endpoint(name="store-a") as third:
            assert third.peer("127.0.0.1", left.listen(), retry=0)
            assert third.name_of(left) == f"store-a~{left.node_id().hex()[:4]}"
    assert repr(left) == f"<Endpoint store-a ({left.node_id()}) closed>"
    with pytest.raises(EndpointClosed):
        left.name_of(right)
    with pytest.raises(broker.SettingsError, match="name cannot be 'a b'"):
        broker.Endpoint(name="a b")


def test_a_peer_s_bad_name_ends_its_connection_alone() -> None:
    async def lie(port: int, label: str) -> None:
        async with open_hostile(("127.0.0.1", port)) as raw:
            said = raw.about(raw.local, time=2, links=(hub.node_id(),))
            await raw.send(Announcements((replace(said, label=label),)))
            assert await raw.receive_some(DropConn) is not None

    with broker.Endpoint(name="hub") as hub, broker.Endpoint(name="friend") as friend:
        port = hub.listen()
        assert friend.peer("127.0.0.1", port, retry=0)
        for label in ("\x1b[2J", "a b", "x" * 10_000, "friend*"):
            with hub.subscribe_status() as status:
                trio.run(lie, port, label)
                while (event := status.get(timeout=limit())).status != "peer_removed":
                    pass
            assert "\x1b" not in str(event)
            assert len(str(event)) < 500
            assert [peer.name for peer in hub.peers()] == ["friend"]
