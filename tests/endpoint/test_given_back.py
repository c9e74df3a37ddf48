"""What was taken from a handle and given back comes next, before what came meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from endpoint import Endpoint
from endpoint.mesh.status import StatusCode, StatusEvent
from endpoint.pubsub.messages import Missed
from endpoint.pubsub.stream import StatusHub
from endpoint.replicas.stores.locks import Elected, Elections
from endpoint.replicas.stores.reading import Entry
from endpoint.replicas.stores.store import Store
from peermesh.testing.time_limits import limit
from stores.watches import Bookmark, Gap
from wire.errors import ErrorCode, RequestTimeout, StoreClosed


async def put(store: Store, *values: int) -> None:
    for value in values:
        await (await store.put("k", value)).applied()


def numbers(events: list[Any]) -> list[Any]:
    return [each if isinstance(each, Missed) else each.after for each in events]


async def test_of_events_that_find_no_room_any_more_the_oldest_are_missed() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        events = store.events(queue_size=3)
        await put(store, 1, 2, 3)
        taken = events.poll()
        assert numbers(taken) == [1, 2, 3]
        await put(store, 4, 5)
        events.give_back(taken)
        taken = events.poll()
        assert numbers(taken) == [Missed(2), 3, 4, 5]
        events.give_back(taken)
        assert numbers(events.poll()) == [Missed(2), 3, 4, 5]


def status(number: int) -> StatusEvent:
    return StatusEvent(StatusCode.CALLBACK_FAILED, None, None, ErrorCode.UNSPECIFIED, str(number))


def test_of_status_events_that_find_no_room_any_more_the_oldest_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("endpoint.pubsub.stream.EVENTS_MAX", 3)
    hub = StatusHub()
    subscriber = hub.subscribe()
    for number in range(3):
        hub.push(status(number))
    taken = subscriber.poll()
    hub.push(status(3))
    subscriber.give_back(taken)
    assert subscriber.poll() == [status(1), status(2), status(3)]


async def test_what_was_given_back_after_the_end_is_not_given() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        watch = store.watch()
        mark = await watch.get(limit())
        watch.close()
        watch.give_back([mark])
        with pytest.raises(StoreClosed):
            await watch.get(limit())
    async with Endpoint() as endpoint, endpoint.attach_log("l") as log:
        await (await log.append(1)).applied()
        consumer = log.consume()
        entry = await consumer.get(limit())
        consumer.close()
        consumer.give_back([entry])
        with pytest.raises(StoreClosed):
            await consumer.get(limit())


async def test_a_watch_gives_all_that_was_given_back_whatever_it_was() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        await put(store, 1)
        watch = store.watch()
        await put(store, 2)
        found = [await watch.get(limit()) for _ in range(2)]
        assert [type(each) for each in found] == [Entry, Bookmark]
        for each in reversed(found):
            watch.give_back([each])
        assert watch.poll()[:2] == found
        watch.give_back(found)
        watch.give_back([Gap(0)])
        assert watch.poll()[:3] == [Gap(0), *found]


async def test_a_watch_that_several_read_says_what_it_gave() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        watch = store.watch()
        assert isinstance(await watch.get(limit()), Bookmark)
        await put(store, 1, 2)
        first, second = await watch.get(limit()), await watch.get(limit())
        assert watch.revision == 2
        watch.give_back([first])
        assert watch.revision == 0
        assert [await watch.get(limit()), second] == [first, second]


async def received(get: Callable[[], Any], give_back: Callable[[], Any]) -> Any:
    """Give what a task gets that waits for it as it is given back."""
    found: list[Any] = []

    async def receive() -> None:
        found.append(await get())

    with trio.fail_after(limit()):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            give_back()
    return found[0]


async def test_a_task_that_waits_gets_what_is_given_back() -> None:
    async with Endpoint() as endpoint, endpoint.attach_master("s") as store:
        watch, events = store.watch(), store.events()
        assert isinstance(await watch.get(limit()), Bookmark)
        await put(store, 1)
        for handle in (watch, events):
            item = await handle.get(limit())
            assert await received(handle.get, lambda h=handle, i=item: h.give_back([i])) == item
    subscriber = (hub := StatusHub()).subscribe()
    hub.push(status(1))
    (event,) = subscriber.poll()
    assert await received(subscriber.get, lambda: subscriber.give_back([event])) == event


async def elections_of(endpoint: Endpoint) -> tuple[Any, Elections]:
    store = await endpoint.attach_replica("s", voters=["a"])
    assert await store.await_leader(limit()) == "a"
    return store, store.elections("n")


async def test_an_election_that_is_given_back_comes_again() -> None:
    async with Endpoint(name="a") as endpoint:
        _, elections = await elections_of(endpoint)
        assert await elections.get(limit()) is None
        assert (
            await received(lambda: elections.get(limit()), lambda: elections.give_back([None]))
            is None
        )


async def test_an_election_that_another_one_has_followed_is_not_given_back() -> None:
    async with Endpoint(name="a") as endpoint:
        store, elections = await elections_of(endpoint)
        assert await elections.get(limit()) is None
        async with store.elect("n", value=1):
            found = await elections.get(limit())
            assert isinstance(found, Elected)
            elections.give_back([None])
            with pytest.raises(RequestTimeout):
                await elections.get(0.01)
