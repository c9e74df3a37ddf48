"""Walls of the blocking API: a mistake ends its call, an error its endpoint, and nothing else."""

from __future__ import annotations

import inspect
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import trio

from endpoint.mesh.status import StatusCode
from handshake.credentials import Credentials
from peermesh import ClusterSecret, blocking
from peermesh.testing.time_limits import limit
from wire.errors import (
    EndpointClosed,
    EndpointFailed,
    MeshError,
    NotAllowed,
    StoreClosed,
)
from wire.identifiers import EndpointId


class Boom(Exception):
    """An error that nothing expects."""


@pytest.fixture
def pair() -> Iterator[tuple[blocking.Endpoint, blocking.Endpoint]]:
    """Two peers that know of each other's subscriptions to /n."""
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert left.peer("127.0.0.1", right.listen(), timeout=limit())
        yield left, right


@pytest.fixture
def innocent() -> Iterator[Callable[[], None]]:
    """A pair that has done nothing; calling it has one say something to the other."""
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert left.peer("127.0.0.1", right.listen(), timeout=limit())
        heard = right.subscribe("/n")
        assert left.await_subscribed("/n", timeout=limit())

        def talk() -> None:
            word = uuid.uuid4().bytes
            left.publish("/n", word)
            assert heard.get(limit()).data == word
            assert left.peers()

        yield talk
        talk()


def fail(endpoint: blocking.Endpoint) -> None:
    """Have a task of the endpoint raise, as one with a bug would."""

    async def boom() -> None:
        raise Boom

    endpoint._passage.call_sync(endpoint._endpoint.loop.start_task, boom)


def lose_loop(endpoint: blocking.Endpoint) -> None:
    """End the portal's loop in a way in which no loop may end."""

    def boom() -> None:
        raise Boom

    endpoint._passage._portal._token.run_sync_soon(boom)


def test_an_error_of_an_endpoint_is_its_own(
    innocent: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = blocking.Endpoint()
    subscriber = endpoint.subscribe("/t")
    got: list[BaseException] = []

    def read() -> None:
        try:
            subscriber.get()
        except BaseException as error:
            got.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    fail(endpoint)
    for reader in readers:
        reader.join(limit())
    assert [type(error) for error in got] == [EndpointFailed] * 3
    for call in (
        endpoint.peers,
        endpoint.listen,
        lambda: endpoint.publish("/t", 1),
        subscriber.get,
    ):
        with pytest.raises(EndpointFailed, match="ended by an error") as caught:
            call()
        assert isinstance(caught.value.__cause__, Boom)
    innocent()
    endpoint.shutdown()
    endpoint.shutdown(None)
    logged = [record for record in caplog.records if "ended by an error" in record.message]
    assert len(logged) == 1
    assert "failed" in repr(endpoint)


def test_an_error_of_a_call_is_the_callers_own(innocent: Callable[[], None]) -> None:
    async def boom() -> None:
        raise Boom

    def boom_at_once() -> None:
        raise Boom

    with blocking.Endpoint() as endpoint:
        for call, bad in (
            (endpoint._passage.call, boom),
            (endpoint._passage.call_sync, boom_at_once),
        ):
            with pytest.raises(Boom):
                call(bad)
        assert endpoint.peers() == []
    innocent()


@pytest.mark.parametrize("end", [fail, lose_loop])
def test_a_call_that_waits_is_told_of_the_error_that_ends_its_endpoint(
    end: Callable[[blocking.Endpoint], None],
) -> None:
    endpoint, neighbour = blocking.Endpoint(), blocking.Endpoint()
    found: list[BaseException] = []

    def wait() -> None:
        try:
            endpoint.await_peer(EndpointId(bytes(16)), None)
        except BaseException as error:
            found.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not endpoint._life.room._calls:
        threading.Event().wait(0.001)
    end(endpoint)
    waiter.join(limit())
    assert not waiter.is_alive()
    assert isinstance(found[0], EndpointFailed)
    assert isinstance(found[0].__cause__, Boom if end is fail else trio.TrioInternalError)
    neighbour.shutdown()
    endpoint.shutdown()


def test_an_error_between_the_threads_ends_its_endpoint_alone(
    innocent: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = blocking.Endpoint()

    def boom(*_: object) -> None:
        raise Boom

    monkeypatch.setattr(endpoint._endpoint.loop.publication, "put_all", boom)
    with suppress(EndpointFailed):
        while True:
            endpoint.publish("/t", b"x")
    innocent()
    endpoint.shutdown()


def await_failure(endpoint: blocking.Endpoint) -> None:
    """Ask until the endpoint has failed."""
    with suppress(EndpointFailed):
        while True:
            endpoint.peers()


def test_a_loop_that_died_is_replaced() -> None:
    first, other = blocking.Endpoint(), blocking.Endpoint()
    store = other.attach_master("s")
    lose_loop(first)
    for endpoint in (first, other):
        await_failure(endpoint)
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert left.peer("127.0.0.1", right.listen(), timeout=limit())
    with pytest.raises(EndpointFailed):
        store.put("k", 1)
    for endpoint in (first, other):
        endpoint.shutdown()


def test_a_task_of_another_lodger_that_fails_ends_nothing_else(
    innocent: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def boom() -> None:
        raise Boom

    with blocking.Endpoint() as endpoint:
        portal = endpoint._life.portal
        portal.start_soon(boom)
        while not any(record.exc_info for record in caplog.records):
            endpoint.peers()
    innocent()


def test_receipts_have_an_outcome_when_the_loop_dies() -> None:
    endpoint = blocking.Endpoint()
    clone = endpoint.attach_clone("without a master", mutation_buffer_interval=3_600)
    receipts = [clone.put("k", number) for number in range(3)]
    lose_loop(endpoint)
    for receipt in receipts:
        with pytest.raises(MeshError):
            receipt.result(limit())
    endpoint.shutdown()


def test_what_the_end_overtakes_has_an_outcome() -> None:
    endpoint = blocking.Endpoint()
    store = endpoint.attach_master("s")
    store._is_armed = True  # As if another thread were about to wake the loop, and came too late.
    receipt = store.put("k", 1)
    endpoint.shutdown()
    with pytest.raises(StoreClosed):
        receipt.result(limit())


Mistake = Callable[[Any, Any, Any], object]

MISTAKES: dict[str, Mistake] = {
    "port as text": lambda a, _b, _m: a.peer("127.0.0.1", "nine", timeout=0),
    "port as float": lambda a, _b, _m: a.peer("127.0.0.1", 9999.0, timeout=0),
    "retry as text": lambda a, _b, _m: a.peer("127.0.0.1", 9999, "x", timeout=0),
    "to= another text": lambda a, _b, _m: a.publish("/x", 1, to="x" * 36),
    "to=5": lambda a, _b, _m: a.publish("/x", 1, to=5),
    "to= a list": lambda a, b, _m: a.publish("/x", 1, to=[b]),
    "a list as topic": lambda a, _b, _m: a.publish(["/x"], 1),
    "a batch of no pairs": lambda a, _b, _m: a.publish_batch(["/xy", "/yz"]),
    "a text as time": lambda a, b, _m: a.await_peer(b.node_id(), "0.5"),
    "nan as time": lambda _a, _b, m: m.await_idle(float("nan")),
    "a callback that is none": lambda a, b, _m: a.await_peer(b, callback="ready"),
    "a text as grace": lambda a, _b, _m: a.shutdown("now"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_its_own_call(name: str, pair, innocent: Callable[[], None]) -> None:
    left, right = pair
    store = left.attach_master("s")
    with pytest.raises((TypeError, ValueError)):
        MISTAKES[name](left, right, store)
    innocent()
    assert left.peers()


def test_what_can_mean_one_thing_only_is_taken(pair) -> None:
    left, right = pair
    subscriber = right.subscribe(["/a", "/b"])
    assert left.await_subscribed("/a", 1, limit())
    for number, receiver in enumerate((right, right.node_id(), str(right.node_id()))):
        left.publish("/a", number, to=receiver)
        assert subscriber.get(limit()) == ("/a", number)
    assert left.await_peer(right, 0)
    assert left.await_peer(str(right.node_id()), timeout=0)
    assert left.peer("127.0.0.1", str(right.listen()), timeout=limit())
    unknown = EndpointId(bytes(16))
    assert not left.await_peer(unknown, 0.001)
    left.shutdown(None)


def test_what_a_role_forbids_is_told_to_the_caller(innocent: Callable[[], None]) -> None:
    secret = ClusterSecret.generate()
    credentials = replace(Credentials.from_secret(secret, "sensor-1"), can_trust_names=True)
    roles = {"names": {"sensor-*": "sensor"}, "roles": {"sensor": {"publish": ["/sensors/"]}}}
    with blocking.Endpoint(credentials=credentials, roles=roles) as endpoint:
        for publish in (endpoint.publish, endpoint.publish_nowait):
            with pytest.raises(NotAllowed, match="may not publish on '/alarms'"):
                publish("/alarms", 1)
        endpoint.publish("/sensors/heat", 1)
        assert endpoint.peers() == []
    innocent()


def test_a_subscriber_hears_its_own_endpoint_if_it_asks_for_that() -> None:
    with blocking.Endpoint() as endpoint:
        deaf, hearing = endpoint.subscribe("/t"), endpoint.subscribe("/t", local=True)
        endpoint.publish("/t", 1)
        assert hearing.get(limit()).topic == "/t"
        assert not deaf.available()


# Callbacks.


def test_a_callback_may_call_anything(pair, innocent: Callable[[], None]) -> None:
    left, right = pair
    told: list[object] = []
    done = threading.Event()

    def ready(outcome: object) -> None:
        told.extend((bool(outcome), len(left.peers()), bool(left.await_peer(right, 1))))
        with blocking.Endpoint() as another:
            told.append(bool(another.peer("127.0.0.1", right.listen(), timeout=limit())))
        left.shutdown()
        done.set()

    assert left.await_peer(right, ready) is None
    assert done.wait(limit())
    assert told == [True, 1, True, True]
    with pytest.raises(EndpointClosed):
        left.peers()
    innocent()


@pytest.mark.parametrize("error", [Boom("it has a bug"), SystemExit(3)])
def test_a_callback_that_raises_is_told_and_ends_nothing(
    error: BaseException, innocent: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    def bad(_: object) -> None:
        raise error

    with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:
        events = endpoint.subscribe_status()
        for begin in (store.await_idle, lambda bad: endpoint.await_peer(endpoint, bad, 0)):
            assert begin(bad) is None
            while (event := events.get(limit())).status is not StatusCode.CALLBACK_FAILED:
                pass
            assert "bad" in event.reason
        assert endpoint.peers() == []
    assert any(record.exc_info and record.exc_info[1] is error for record in caplog.records)
    innocent()


def test_an_asynchronous_callback_is_refused_with_a_text() -> None:
    async def ready(_: object) -> None:
        raise AssertionError

    with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:
        events = endpoint.subscribe_status()
        store.await_idle(ready)
        while (event := events.get(limit())).status is not StatusCode.CALLBACK_FAILED:
            pass
        assert "plain function" in event.reason


def test_a_call_from_the_loops_own_thread_is_refused() -> None:
    with blocking.Endpoint() as endpoint, endpoint.subscribe("/t") as subscriber:
        passage = endpoint._passage
        for call in (endpoint.peers, subscriber.get, endpoint.shutdown):
            with pytest.raises(RuntimeError, match="thread"):
                passage.call_sync(call)
        assert endpoint.peers() == []


def test_a_blocking_call_within_another_loop_works() -> None:
    async def main() -> None:
        with blocking.Endpoint() as left, blocking.Endpoint() as right:
            assert left.peer("127.0.0.1", right.listen(), timeout=limit())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.lowlevel.checkpoint)

    trio.run(main)


# The end.


def test_all_threads_that_shut_down_wait_until_it_is_over() -> None:
    endpoint = blocking.Endpoint()
    states: list[bool] = []

    def end() -> None:
        endpoint.shutdown()
        states.append(endpoint._life.room.is_over)

    threads = [threading.Thread(target=end) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit())
    assert states == [True] * 4


def peermesh_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("peermesh")}


def test_endpoints_that_come_and_go_leave_nothing() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with blocking.Endpoint():
        pass
    before, threads = descriptors(), peermesh_threads()
    for number in range(200):
        endpoint = blocking.Endpoint()
        if number % 10 == 0:
            endpoint.listen()
            endpoint.subscribe("/t").fileno()
            endpoint.await_peer(endpoint, print, 0)
        if number % 50 == 0:
            fail(endpoint)
        endpoint.shutdown()
    del endpoint
    while peermesh_threads() - threads:
        threading.Event().wait(0.001)
    assert descriptors() <= before + 2


# Every handle, every method.

LOCAL = {
    "name", "node_id", "settings", "topic", "dropped", "revision", "is_master", "is_keeper",
    "inside", "not_before", "at_master", "close", "shutdown", "forked", "ended", "end",
    "wake", "ready_count",
}  # fmt: skip
"""What needs no endpoint, and what is not for users."""

STILL_READ = {"poll", "available", "await_idle"}
"""What a closed handle gives still."""

VALUES: dict[str, object] = {
    "address": "127.0.0.1", "amount": 1, "batch": (("/t", 1),), "consumer": "c", "count": 1,
    "data": 1, "entries": ((None, 1),), "index": 0, "key": "k", "name": "n",
    "node_id": EndpointId(bytes(16)),
    "offset": 0, "partition": 0, "port": 1, "positions": {0: 0}, "revision": 1, "since": 0,
    "start": None, "text": "t", "topic": "/new", "topics": "/new", "value": 1, "values": (1,),
    "voters": ("a",), "when": 0,
}  # fmt: skip


def all_handles(endpoint: blocking.Endpoint) -> list[object]:
    """Give one handle of each kind."""
    store, log = endpoint.attach_master("s"), endpoint.attach_log("l")
    return [
        endpoint,
        endpoint.publisher("/t"),
        endpoint.subscribe("/t"),
        endpoint.subscribe_status(),
        store,
        endpoint.attach_clone("another"),
        endpoint.attach_proxy("third"),
        store.at_master(),
        store.events(),
        store.watch(),
        log,
        log.consume("c"),
    ]


def public_calls(handle: object) -> Iterator[tuple[str, Callable[[], object]]]:
    """Give every call of a handle, with values for what has to be given."""
    for name in dir(type(handle)):
        if (name.startswith("_") and name != "__iter__") or name in LOCAL:
            continue
        if isinstance(inspect.getattr_static(handle, name), property):
            continue
        yield f"{type(handle).__name__}.{name}", filled(name, getattr(handle, name))
    if isinstance(handle, blocking.Endpoint):
        yield "Endpoint.publish", lambda: handle.publish("/t", b"x")


def filled(name: str, method: Callable[..., Any]) -> Callable[[], object]:
    wanted = inspect.signature(method).parameters.values()
    values = {
        each.name: VALUES[each.name]
        for each in wanted
        if each.default is each.empty
        and each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}
    }
    rest = tuple(
        "/new" for each in wanted if each.kind is each.VAR_POSITIONAL and "topics" in each.name
    )

    def call() -> object:
        if name == "batch":
            return method(blocking.Batch().put("k", 1))
        found = method(*rest, **values)
        # What is gone through raises, or ends, when it is begun.
        return next(found, None) if name in {"__iter__", "entries", "pages"} else found

    return call


def complaints(handles: list[object], kinds: tuple[type[Exception], ...]) -> list[str]:
    """Say which calls raise something else than these, or nothing although they had to."""
    found = []
    for handle in handles:
        repr(handle)
        for name, call in public_calls(handle):
            try:
                result = call()
            except kinds:
                continue
            except BaseException as error:
                found.append(f"{name} raises {error!r}")
                continue
            method = name.partition(".")[2]
            if method not in STILL_READ | {"__iter__"}:
                found.append(f"{name} gives {result!r}")
    return found


def test_after_the_end_every_call_says_so() -> None:
    endpoint = blocking.Endpoint()
    handles = all_handles(endpoint)
    endpoint.shutdown()
    assert "\n".join(complaints(handles, (EndpointClosed, StoreClosed))) == ""
    store = handles[4]
    assert isinstance(store, blocking.Store)
    assert "shut down" in str(store.await_idle())
    store.close()


def test_after_a_failure_every_call_says_so() -> None:
    endpoint = blocking.Endpoint()
    handles = all_handles(endpoint)
    fail(endpoint)
    with suppress(EndpointFailed):
        endpoint.await_peer(EndpointId(bytes(16)), None)
    endpoint.shutdown()
    assert "\n".join(complaints(handles, (EndpointFailed,))) == ""
    for handle in handles:
        if handle is not endpoint and hasattr(handle, "close"):
            handle.close()


def test_what_is_iterated_is_iterated_where_it_was_given() -> None:
    """A generator may use what its own thread has, or take long: the endpoint goes on."""
    threads = []

    def given(*items: Any) -> Iterator[Any]:
        threads.append(threading.current_thread())
        yield from items

    with blocking.Endpoint() as endpoint:
        with endpoint.attach_master("s") as store, store.watch(keys=given("a", "b")) as watch:
            assert watch.get(timeout=limit()) is not None
            with pytest.raises(TypeError, match="keys='a' is str"):
                store.watch(keys="a")
        with endpoint.attach_log("l", partitions=2) as log:
            log.consume(partitions=given(0, 1)).close()
    assert threads == [threading.current_thread()] * 2
