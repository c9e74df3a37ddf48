"""A publish that is cancelled has sent nothing, and one that returned has sent its message.

In each state of its way a publisher is cancelled at each of its checkpoints in turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from endpoint import Endpoint, Subscriber
from endpoint.pubsub.publishing import YIELD_COUNT
from tests.endpoint.flow.flows import is_held, publish_numbers
from wire.limits import KIB

TOPICS = ("/a", "/b")

STEPS = 12
"""Steps of other tasks before a publisher is cancelled, from none on: more than any wait takes."""


@dataclass
class Attempts:
    """Numbers that were published, as far as ``publish`` has said so."""

    sent: list[int] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    _next: int = 0

    async def one(self, endpoint: Endpoint, size: int, scope: trio.CancelScope) -> None:
        """Publish the next number in a scope that is or will be cancelled."""
        number, self._next = self._next, self._next + 1
        topic = TOPICS[number % len(TOPICS)]
        with scope:
            try:
                await endpoint.publish(topic, number.to_bytes(4) + bytes(size))
            except trio.Cancelled:
                self.cancelled.append(number)
                raise
            self.sent.append(number)


async def in_a_cancelled_scope(endpoint: Endpoint, attempts: Attempts, size: int) -> None:
    scope = trio.CancelScope()
    scope.cancel()
    await attempts.one(endpoint, size, scope)


async def with_a_deadline_that_is_over(endpoint: Endpoint, attempts: Attempts, size: int) -> None:
    await attempts.one(endpoint, size, trio.CancelScope(deadline=trio.current_time()))


async def by_another_task(endpoint: Endpoint, attempts: Attempts, size: int) -> None:
    for steps in range(STEPS):
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempts.one, endpoint, size, scope)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()


How = Callable[[Endpoint, Attempts, int], Awaitable[None]]

HOW: list[How] = [in_a_cancelled_scope, with_a_deadline_that_is_over, by_another_task]


async def numbers_of(subscriber: Subscriber, count: int) -> list[int]:
    return [int.from_bytes((await subscriber.get())[1][:4]) for _ in range(count)]


async def check(publisher: Endpoint, subscriber: Subscriber, attempts: Attempts) -> None:
    """All that was sent comes, in order, and nothing else."""
    await publisher.publish("/a", (2**32 - 1).to_bytes(4))
    assert await numbers_of(subscriber, len(attempts.sent)) == attempts.sent
    assert await numbers_of(subscriber, 1) == [2**32 - 1]
    assert set(attempts.sent).isdisjoint(attempts.cancelled)


@pytest.mark.parametrize("how", HOW)
async def test_with_room_for_it(kit, how: How) -> None:
    async with kit.world() as world:
        publisher, reader = await world.grow(2, [(0, 1)])
        subscriber = reader.subscribe(*TOPICS)
        await world.known()
        attempts = Attempts()
        for _ in range(3 * YIELD_COUNT // (STEPS if how is by_another_task else 1)):
            await how(publisher, attempts, 0)
        await check(publisher, subscriber, attempts)
        assert attempts.sent or attempts.cancelled


@pytest.mark.parametrize("how", HOW)
async def test_while_the_outbox_is_full(kit, how: How) -> None:
    async with kit.world() as world:
        publisher, reader = await world.grow(2, [(0, 1)])
        subscriber = reader.subscribe(*TOPICS)
        await world.known()
        link = publisher.loop.peerings[reader.node_id()].connection.link
        granted, link.credit = link.credit, link.sent
        attempts = Attempts()
        while not link.is_full:
            await attempts.one(publisher, 16 * KIB, trio.CancelScope())
            publisher.loop.publication.cut()
        before = len(attempts.sent)
        for _ in range(20):
            await how(publisher, attempts, 0)
        assert len(attempts.sent) == before, "there was no room"
        # One is cancelled when there is room again, before it goes on.
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempts.one, publisher, 0, scope)
            await trio.testing.wait_all_tasks_blocked()
            link.grant(granted)
            publisher.loop.peerings[reader.node_id()].connection.wake()
            await kit.until(lambda: link.has_room)
            scope.cancel()
        await check(publisher, subscriber, attempts)


@pytest.mark.parametrize("how", HOW)
async def test_while_a_full_place_holds_it(kit, how: How) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher, reader = await world.grow(2, [(0, 1)])
        subscriber = reader.subscribe(*TOPICS, queue_size=16)
        await world.known()
        attempts = Attempts()
        while not all(is_held(publisher, topic) for topic in TOPICS):
            await attempts.one(publisher, 0, trio.CancelScope(deadline=trio.current_time() + 0.01))
        before = len(attempts.sent)
        for _ in range(20):
            await how(publisher, attempts, 0)
        assert len(attempts.sent) == before, "it was held"
        # Some wait while it is read empty, and are cancelled at each moment of that.
        got: list[int] = []

        async def read() -> None:
            while True:
                got.extend(await numbers_of(subscriber, 1))

        for steps in range(STEPS):
            async with trio.open_nursery() as waiting:
                scope = trio.CancelScope()
                waiting.start_soon(attempts.one, publisher, 0, scope)
                await trio.testing.wait_all_tasks_blocked()
                if steps == 0:
                    nursery.start_soon(read)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        last = 2**32 - 1
        await publish_numbers(publisher, "/a", [last])
        await kit.until(lambda: got and got[-1] == last)
        assert got[:-1] == attempts.sent
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("overlap", [False, True], ids=["one", "three"])
async def test_many_publishers_that_are_cancelled_at_any_moment(kit, overlap: bool) -> None:
    async with kit.world() as world, trio.open_nursery() as nursery:
        publisher, relay, reader = await world.grow(3, [(0, 1), (1, 2)])
        subscriber = reader.subscribe(*TOPICS, queue_size=64)
        await world.known()
        attempts, got = Attempts(), set()

        async def publish(first: int) -> None:
            for number in range(400):
                scope = trio.CancelScope()
                async with trio.open_nursery() as each:
                    each.start_soon(attempts.one, publisher, 2 * KIB, scope)
                    for _ in range((first + number) % 7):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

        async def read() -> None:
            while True:
                got.update(await numbers_of(subscriber, 1))

        nursery.start_soon(read)
        async with trio.open_nursery() as publishers:
            for first in range(3 if overlap else 1):
                publishers.start_soon(publish, first)
        await publish_numbers(publisher, "/b", [2**32 - 1])
        await kit.until(lambda: 2**32 - 1 in got)
        assert got - {2**32 - 1} == set(attempts.sent)
        assert attempts.cancelled
        assert relay.statistics().messages_dropped == 0
        nursery.cancel_scope.cancel()
