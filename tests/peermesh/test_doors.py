"""One API in three doors: each does the same, with the same signatures and the same words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import peermesh
from peermesh import aio, blocking
from peermesh.errors import (
    EndpointClosed,
    GuardFailed,
    InvalidData,
    MasterExists,
    NoSuchKey,
    OutboxFull,
    RequestTimeout,
    SessionExpired,
    StoreClosed,
    SubscriberOverflow,
)
from peermesh.names import COLOURED, GATEWAYS
from peermesh.testing.time_limits import limit
from tests.doors import DOORS, Block, Door, Raised, Steps, Try


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    """Each door, and of asyncio's loops each."""
    return DOORS[request.param]


def pair(api: Any) -> Steps:
    """Open two peers."""
    a = yield Block(api.Endpoint())
    b = yield Block(api.Endpoint())
    assert (yield a.peer("127.0.0.1", (yield b.listen()), timeout=limit()))
    return a, b


# Messages.


def test_messages_come_in_order_and_as_they_were(door: Door) -> None:
    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        subscriber = yield Block(b.subscribe("/t", "/u"))
        assert (yield a.await_subscribed("/t", timeout=limit()))
        values = [1, "two", b"three", (4, None), 5.5]
        for value in values:
            yield a.publish("/t", value)
        a.publish_nowait("/t", 6, to=b)
        yield a.publish_batch([("/u/1", 7), ("/u/2", b"8")])
        publisher = a.publisher("/t")
        yield publisher.publish(9)
        yield publisher.publish_batch([10, 11])
        got = []
        while len(got) < 11:
            got += yield subscriber.get_batch(limit())
        assert [data for _, data in got] == [*values, 6, 7, b"8", 9, 10, 11]
        message = yield Try(lambda: subscriber.get(0.01))
        assert isinstance(message.error, TimeoutError)
        yield a.publish("/t", "last")
        message = yield subscriber.get(limit())
        assert (message.topic, message.data) == ("/t", "last")

    door.run(script)


def test_many_messages_wait_for_room_and_none_is_lost(door: Door) -> None:
    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        subscriber = yield Block(b.subscribe("/t", queue_size=100_000))
        assert (yield a.await_subscribed("/t", timeout=limit()))
        for number in range(20_000):
            yield a.publish("/t", number)
        got: list[Any] = []
        while len(got) < 20_000:
            got += yield subscriber.get_batch(limit())
        assert [data for _, data in got] == list(range(20_000))

    door.run(script)


def test_a_reader_may_want_an_error_where_its_queue_is_full(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint())
        subscriber = yield Block(
            endpoint.subscribe("/t", queue_size=1, overflow="error", local=True)
        )
        while True:
            yield endpoint.publish_batch([("/t", 1), ("/t", 2), ("/t", 3)])
            found = yield Try(lambda: subscriber.get(limit()))
            if isinstance(found, Raised):
                assert isinstance(found.error, SubscriberOverflow)
                return

    door.run(script)


def test_topics_come_and_go(door: Door) -> None:
    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        subscriber = yield Block(b.subscribe("/t"))
        subscriber.add_topic("/u")
        assert (yield a.await_subscribed("/u", timeout=limit()))
        yield a.publish("/u", 1)
        assert (yield subscriber.get(limit())).data == 1
        subscriber.remove_topic("/u")
        assert subscriber.available() == 0
        assert subscriber.dropped == 0
        subscriber.close()
        closed = yield Try(lambda: subscriber.get(limit()))
        assert isinstance(closed.error, EndpointClosed)

    door.run(script)


# The mesh.


def test_barriers_say_what_is_missing_or_call_back(door: Door) -> None:
    told: list[object] = []

    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        stranger = peermesh.EndpointId(b"s" * 16)
        outcome = yield a.await_peer(stranger, 0.01)
        assert not outcome
        assert str(stranger) in outcome.reason
        assert (yield a.await_peer(b, timeout=limit()))
        assert (yield a.await_peer(b, told.append, limit())) is None
        status = yield Block(a.subscribe_status())
        while not told:
            yield Try(lambda: status.get(0.01))
        assert told[0]
        assert a.name_of(b) == b.name_of(b.node_id())
        assert [peer.node_id for peer in a.peers()] == [b.node_id()]
        assert a.statistics().endpoints_known >= 1
        assert a.describe().to_dict()
        assert (yield a.unpeer("127.0.0.1", a.peers()[0].address[1]))

    door.run(script)


def test_a_callback_that_raises_is_told_of_and_ends_nothing(door: Door) -> None:
    def broken(_: object) -> None:
        raise ArithmeticError("of a user")

    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        status = yield Block(a.subscribe_status())
        yield a.await_peer(b, callback=broken)
        while True:
            event = yield status.get(limit())
            if event.status is peermesh.StatusCode.CALLBACK_FAILED:
                break
        assert "of a user" in event.reason
        assert (yield a.await_peer(b, timeout=limit()))

    door.run(script)


# Stores.


def test_stores_do_all_that_they_can(door: Door) -> None:
    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        master = yield Block(a.attach_master("s"))
        clone = yield Block(b.attach_clone("s"))
        assert master.is_master()
        assert not clone.is_master()
        assert master.name() == "s"
        receipts = [
            (yield clone.put("k", 1)),
            (yield clone.increment("k", 4)),
            (yield clone.decrement("k")),
            (yield clone.append("text", "ab")),
            (yield clone.insert_into("set", 1)),
            (yield clone.insert_into("table", "x", 2)),
            (yield clone.remove_from("set", 1)),
            (yield clone.push("list", 1)),
            (yield clone.push("list", 2)),
            (yield clone.pop("list")),
            (yield clone.put("gone", 1)),
            (yield clone.erase("gone")),
            (yield clone.batch(api.Batch().if_absent("b").put("b", 1))),
        ]
        assert (yield clone.put_unique("u", 1, timeout=limit()))
        assert not (yield clone.put_unique("u", 2))
        assert (yield clone.await_idle(limit()))
        assert [each.is_resolved for each in receipts] == [True] * len(receipts)
        expected = {"k": 4, "text": "ab", "list": (1,), "b": 1, "u": 1}
        for key, value in expected.items():
            assert (yield clone.get(key)) == value
        assert (yield clone.get("missing", 7)) == 7
        entry = yield clone.entry("k")
        yield clone.compare_and_set("k", 9, entry.revision)
        refused = yield clone.compare_and_erase("k", entry.revision)
        assert (yield clone.await_idle(limit()))
        with pytest.raises(GuardFailed):
            refused.outcome()
        assert (yield clone.at_master().get("k")) == 9
        assert (yield clone.not_before(receipts[0]).exists("k"))
        assert (yield clone.get_index_from_value("list", 0)) == 1
        missing = yield Try(lambda: clone.get_index_from_value("none", 0))
        assert isinstance(missing.error, NoSuchKey)
        assert len((yield clone.keys())) == len((yield clone.items()))
        page = yield master.scan(limit=2)
        assert len(page) == 2
        assert (yield clone.verify(limit()))
        yield clone.clear()
        assert (yield clone.await_idle(limit()))
        assert (yield master.keys()) == []
        other = yield Try(lambda: b.attach_master("s"))
        assert isinstance(other.error, MasterExists)
        assert clone.statistics()

    door.run(script)


def test_events_and_watches_tell_of_each_change(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint())
        store = yield Block(endpoint.attach_master("s"))
        yield store.put("a", 1)
        assert (yield store.await_idle(limit()))
        events, watch = store.events(), store.watch()
        late = yield Try(lambda: events.get(0.01))
        assert isinstance(late.error, RequestTimeout)
        yield store.put("a", 2)
        event = yield events.get(limit())
        assert (event.before, event.after) == (1, 2)
        assert isinstance((yield watch.get(limit())), peermesh.Entry)
        assert isinstance((yield watch.get(limit())), peermesh.Bookmark)
        assert watch.revision >= 1
        assert events.poll() == []
        events.close()
        events.close()
        closed = yield Try(lambda: events.get(limit()))
        assert isinstance(closed.error, StoreClosed)
        watch.close()

    door.run(script)


def test_a_proxy_reads_and_writes_elsewhere(door: Door) -> None:
    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        yield Block(a.attach_master("s"))
        proxy = yield Block(b.attach_proxy("s"))
        receipt = yield proxy.put("k", 1)
        assert (yield proxy.await_idle(limit()))
        assert receipt.outcome() == 1
        assert (yield proxy.get("k")) == 1
        assert (yield proxy.at_master().exists("k"))

    door.run(script)


def test_groups_have_leaders_sessions_and_locks(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint(name="a"))
        store = yield Block(endpoint.attach_replica("s", voters=["a"]))
        assert (yield store.await_leader(limit())) == "a"
        assert store.is_leader()
        assert store.leader() == "a"
        assert [member.name for member in (yield store.members())] == ["a"]
        session = store.session(ttl=5)
        yield Block(session)
        assert session.is_alive
        assert session.ttl == 5
        receipt = yield session.put("mine", 1)
        assert (yield store.await_idle(limit()))
        assert receipt.outcome()
        assert (yield store.read("linear").get("mine")) == 1
        lock = store.lock("l", ttl=5)
        yield Block(lock)
        assert lock.token.revision
        assert (yield store.elected("l")) is None
        wrong = yield Try(lambda: store.read("soon"))
        assert isinstance(wrong.error, InvalidData)

    door.run(script)


def test_a_session_ends_with_its_endpoint(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint(name="a"))
        store = yield Block(endpoint.attach_replica("s", voters=["a"]))
        assert (yield store.await_leader(limit())) == "a"
        session = store.session(ttl=60)
        yield session.open()
        assert session.is_alive
        yield endpoint.shutdown()
        assert not session.is_alive
        lost = yield Try(session.check)
        assert isinstance(lost.error, SessionExpired)
        assert f"session {session.number} of store s is over: store s is closed" in str(lost.error)
        yield session.close()

    door.run(script)


# Logs.


def test_logs_are_appended_to_and_read(door: Door) -> None:
    def script(api: Any) -> Steps:
        a, b = yield from pair(api)
        log = yield Block(a.attach_log("l", partitions=1))
        proxy = yield Block(b.attach_log_proxy("l"))
        receipt = yield proxy.append("one")
        yield proxy.append_batch(["two", "three"])
        assert (yield proxy.await_idle(limit()))
        assert receipt.is_resolved
        entries = yield log.read(0, 0)
        assert [entry.value for entry in entries] == ["one", "two", "three"]
        consumer = yield Block(proxy.consume("c"))
        assert (yield consumer.get(limit())).value == "one"
        yield consumer.commit()
        assert (yield proxy.await_idle(limit()))
        assert (yield log.lag("c")) == 2
        assert log.is_keeper()
        assert (yield log.partition_count()) == 1

    door.run(script)


# The end.


def test_what_is_closed_says_so(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint())
        subscriber = endpoint.subscribe("/t", local=True)
        store = yield Block(endpoint.attach_master("s"))
        yield endpoint.publish("/t", 1)
        yield endpoint.shutdown()
        yield endpoint.shutdown()
        assert (yield subscriber.get(limit())).data == 1
        for call, kind in (
            (lambda: subscriber.get(limit()), EndpointClosed),
            (lambda: endpoint.publish("/t", 1), EndpointClosed),
            (lambda: endpoint.listen(), EndpointClosed),
            (lambda: store.put("k", 1), StoreClosed),
            (lambda: store.entry("k"), StoreClosed),
        ):
            found = yield Try(call)
            assert isinstance(found, Raised)
            assert isinstance(found.error, kind), found
        assert not (yield store.await_idle(0.01))
        yield store.close()

    door.run(script)


def test_a_full_outbox_says_so_where_nothing_waits(door: Door) -> None:
    def script(api: Any) -> Steps:
        endpoint = yield Block(api.Endpoint())
        yield Block(endpoint.subscribe("/t", queue_size=1, stall_seconds=None, local=True))
        while True:
            found = yield Try(lambda: endpoint.publish_nowait("/t", b"1" * 1_000_000))
            if isinstance(found, Raised):
                assert isinstance(found.error, OutboxFull)
                return

    door.run(script)


# One description.


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Give what a user calls of a class."""
    for name in dir(kind):
        if not name.startswith("_"):
            yield name, inspect.getattr_static(kind, name)


FRONT_ENDS = re.compile(r"for (?:a front end|front ends|the loop|the hub|the store's driver)\b")
"""How methods say that users do not call them."""

PLAIN = ((r"Attaching\[(\w+)\]", r"\1"), (r"\bAsyncIterator\b", "Iterator"))
"""What is another type where calls wait in their thread."""


def signature(function: Any, *, is_plain: bool) -> str:
    text = str(inspect.signature(function))
    for pattern, instead in PLAIN if is_plain else ():
        text = re.sub(pattern, instead, text)
    return text


@pytest.mark.parametrize("api", [aio, blocking], ids=["asyncio", "blocking"])
@pytest.mark.parametrize("name", sorted(set(COLOURED) - set(GATEWAYS)))
def test_each_door_has_the_signatures_and_the_words_of_trio(name: str, api: Any) -> None:
    ours, theirs = getattr(api, name), getattr(peermesh, name)
    is_plain = api is blocking
    assert inspect.getdoc(ours) == inspect.getdoc(theirs)
    for member, described in members(theirs):
        text = inspect.getdoc(described) or ""
        if FRONT_ENDS.search(text) or member == "forked":
            continue
        if not (inspect.isfunction(described) or isinstance(described, property)):
            continue
        found = inspect.getattr_static(ours, member)
        assert inspect.getdoc(found) == text, member
        if isinstance(described, property):
            assert isinstance(found, property)
            continue
        expected = signature(described, is_plain=is_plain)
        assert signature(found, is_plain=False) == expected, member
        waits = inspect.iscoroutinefunction(described) and not is_plain
        assert inspect.iscoroutinefunction(found) == waits
