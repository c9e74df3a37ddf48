"""What a handle gives once, to a thread that Ctrl-C interrupts: nothing is lost, or comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import pytest

from endpoint.mesh.status import StatusCode, StatusEvent
from peermesh import blocking
from peermesh.blocking.portal import _Crossing
from peermesh.blocking.taking import Taking
from peermesh.testing.time_limits import limit
from tests.waiting import until
from wire.errors import ErrorCode


@dataclass
class Giver:
    """A handle that gives numbers once, in their order."""

    give: Callable[[int], Any]
    """Has it give a number."""
    take: Callable[[], list[Any]]
    """Takes numbers, within a time limit."""
    handle: Any


@contextmanager
def keeper_log() -> Iterator[tuple[blocking.Log, blocking.Log]]:
    with blocking.Endpoint() as endpoint, endpoint.attach_log("l") as log:
        yield log, log


@contextmanager
def proxy_log() -> Iterator[tuple[blocking.Log, blocking.Log]]:
    with blocking.Endpoint() as left, blocking.Endpoint() as right:
        assert left.peer("127.0.0.1", right.listen(), timeout=limit())
        with left.attach_log("l") as log, right.attach_log_proxy("l") as proxy:
            yield log, proxy


Logs = Callable[[], AbstractContextManager[tuple[blocking.Log, blocking.Log]]]


@contextmanager
def entry_giver(logs: Logs, *, batches: bool) -> Iterator[Giver]:
    with logs() as (log, read):
        consumer = read.consume("c")

        def take() -> list[Any]:
            if batches:
                return [each.value for each in consumer.get_batch(timeout=limit())]
            return [consumer.get(limit()).value]

        yield Giver(lambda number: log.append(number).result(limit()), take, consumer)


@contextmanager
def watch_giver(*, polls: bool) -> Iterator[Giver]:
    with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:
        watch = store.watch()
        assert isinstance(watch.get(limit()), blocking.Bookmark)

        def take() -> list[Any]:
            found: list[Any] = watch.poll() if polls else [watch.get(limit())]
            assert not found or watch.revision == found[-1].revision
            return [each.changes[0].entry.value for each in found]

        yield Giver(lambda number: store.put("k", number).result(limit()), take, watch)


@contextmanager
def event_giver(*, polls: bool) -> Iterator[Giver]:
    with blocking.Endpoint() as endpoint, endpoint.attach_master("s") as store:
        events = store.events()

        def take() -> list[Any]:
            found: list[Any] = events.poll() if polls else [events.get(limit())]
            return [each.after for each in found]

        yield Giver(lambda number: store.put("k", number).result(limit()), take, events)


@contextmanager
def status_giver() -> Iterator[Giver]:
    with blocking.Endpoint() as endpoint:
        passage, _ = endpoint.inside()
        subscriber = endpoint.subscribe_status(StatusCode.CALLBACK_FAILED)

        def give(number: int) -> None:
            status, code = StatusCode.CALLBACK_FAILED, ErrorCode.UNSPECIFIED
            event = StatusEvent(status, None, None, code, str(number))
            passage.call_sync(subscriber._status_subscriber.push, event)

        def take() -> list[Any]:
            return [int(subscriber.get(limit()).reason)]

        yield Giver(give, take, subscriber)


@contextmanager
def election_giver() -> Iterator[Giver]:
    with ExitStack() as stack:
        endpoint = stack.enter_context(blocking.Endpoint(name="a"))
        store = endpoint.attach_replica("s", voters=["a"])
        assert store.await_leader(limit()) == "a"
        elections = store.elections("n")
        assert elections.get(limit()) is None
        lead = stack.enter_context(ExitStack())

        def give(number: int) -> None:
            lead.close()
            lead.enter_context(store.elect("n", value=number, ttl=30))

        def take() -> list[Any]:
            elected = elections.get(limit())
            return [] if elected is None else [elected.value]

        yield Giver(give, take, elections)


GIVERS: dict[str, Callable[[], AbstractContextManager[Giver]]] = {
    "consumer of a keeper": partial(entry_giver, keeper_log, batches=False),
    "consumer of a keeper, batches": partial(entry_giver, keeper_log, batches=True),
    "consumer of a proxy": partial(entry_giver, proxy_log, batches=False),
    "consumer of a proxy, batches": partial(entry_giver, proxy_log, batches=True),
    "watch": partial(watch_giver, polls=False),
    "watch, polls": partial(watch_giver, polls=True),
    "events": partial(event_giver, polls=False),
    "events, polls": partial(event_giver, polls=True),
    "elections": election_giver,
}
"""Those that cross for what is there already; a status subscriber does not."""


def take_interrupted(
    patch: pytest.MonkeyPatch, giver: Giver, before: Callable[[_Crossing], object]
) -> None:
    """Take, and have Ctrl-C end the waiting after something has happened."""
    call_interrupted(patch, giver.take, before)


def call_interrupted(
    patch: pytest.MonkeyPatch, call: Callable[[], object], before: Callable[[_Crossing], object]
) -> None:
    """Call, and have Ctrl-C end the waiting after something has happened."""

    def interrupted(crossing: _Crossing) -> Any:
        patch.undo()
        before(crossing)
        raise KeyboardInterrupt

    patch.setattr(_Crossing, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call()


def take_to(giver: Giver, last: int, got: list[int]) -> None:
    """Take until the last number has come; all have come in their order, and once."""
    while not got or got[-1] != last:
        got += giver.take()
    assert got == list(range(last + 1))


@pytest.mark.parametrize("what", GIVERS)
def test_what_arrives_as_ctrl_c_ends_the_waiting_comes_next(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with GIVERS[what]() as giver:
        got: list[int] = []
        numbers = count()
        for _ in range(3):
            for number in (next(numbers), next(numbers), last := next(numbers)):
                giver.give(number)
                if what == "elections":
                    take_to(giver, number, got)
            if what == "elections":
                giver.give(last := next(numbers))
            take_interrupted(monkeypatch, giver, _Crossing.wait)
            take_to(giver, last, got)


@pytest.mark.parametrize("what", [*GIVERS, "status"])
def test_what_arrives_after_ctrl_c_has_ended_the_waiting_comes_next(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with (GIVERS | {"status": status_giver})[what]() as giver:
        got: list[int] = []
        for number in range(3):
            take_interrupted(monkeypatch, giver, lambda _: None)
            giver.give(number)
            take_to(giver, number, got)


@pytest.mark.parametrize("what", [*(each for each in GIVERS if "polls" not in each), "status"])
def test_what_arrives_while_ctrl_c_ends_the_waiting_comes_next(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with (GIVERS | {"status": status_giver})[what]() as giver:
        got: list[int] = []
        for number in range(3):

            def give_and_wait(crossing: _Crossing, number: int = number) -> None:
                giver.give(number)
                crossing.wait()

            take_interrupted(monkeypatch, giver, give_and_wait)
            take_to(giver, number, got)


@pytest.mark.parametrize("logs", [keeper_log, proxy_log])
@pytest.mark.parametrize("batches", [False, True], ids=["get", "get_batch"])
def test_a_commit_after_a_read_that_was_interrupted_passes_over_nothing(
    monkeypatch: pytest.MonkeyPatch, logs: Logs, batches: bool
) -> None:
    with logs() as (log, read):
        for number in range(3):
            log.append(number).result(limit())
        consumer = read.consume("c")
        take = consumer.get_batch if batches else consumer.get
        giver = Giver(log.append, take, consumer)  # type: ignore[arg-type]  # It is not looked at.
        take_interrupted(monkeypatch, giver, _Crossing.wait)
        consumer.commit().result(limit())
        restarted = read.consume("c").get_batch(timeout=limit())
        assert [each.value for each in restarted] == [0, 1, 2]


def test_a_watch_goes_on_elsewhere_where_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for polls in (False, True):
        with watch_giver(polls=polls) as giver:
            revision = giver.handle.revision
            giver.give(0)
            take_interrupted(monkeypatch, giver, _Crossing.wait)
            giver.handle._passage.call_sync(int)  # What was sent before is done.
            assert giver.handle.revision == revision
            assert giver.handle.poll()
            assert giver.handle.revision > revision


@pytest.mark.parametrize("before", [_Crossing.wait, lambda _: None], ids=["held", "waiting"])
@pytest.mark.parametrize("way", ["open", "__enter__"])
def test_a_lock_that_comes_as_ctrl_c_ends_the_waiting_is_free(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[_Crossing], object], way: str
) -> None:
    with blocking.Endpoint(name="a") as endpoint:
        store = endpoint.attach_replica("s", voters=["a"])
        assert store.await_leader(limit()) == "a"
        lock = store.lock("it", ttl=60)
        call_interrupted(monkeypatch, getattr(lock, way), before)
        with store.lock("it", timeout=limit()):
            pass


ATTACHING: dict[str, Callable[[blocking.Endpoint], Any]] = {
    "master": lambda endpoint: endpoint.attach_master("s"),
    "replica": lambda endpoint: endpoint.attach_replica("r", voters=["a"]),
    "proxy": lambda endpoint: endpoint.attach_proxy("other"),
    "log": lambda endpoint: endpoint.attach_log("l"),
    "log_replica": lambda endpoint: endpoint.attach_log_replica("q", voters=["a"]),
}


@pytest.mark.parametrize("what", ATTACHING)
def test_what_is_attached_as_ctrl_c_ends_the_waiting_is_closed(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    with blocking.Endpoint(name="a") as endpoint:
        attach = partial(ATTACHING[what], endpoint)
        call_interrupted(monkeypatch, attach, _Crossing.wait)
        passage, core = endpoint.inside()
        passage.call(until, lambda: not core.loop.stores)
        attach().close()


def test_what_a_thread_was_not_given_is_given_back_once() -> None:
    for steps in ("took give_up", "give_up took"):
        given_back: list[Any] = []
        taking = Taking(given_back.append)
        for step in steps.split():
            taking.took("a") if step == "took" else taking.give_up()
        assert given_back == [["a"]]


def test_what_a_thread_was_given_is_not_given_back() -> None:
    given_back: list[Any] = []
    assert Taking(given_back.append).took([1, 2]) == [1, 2]
    assert given_back == []
