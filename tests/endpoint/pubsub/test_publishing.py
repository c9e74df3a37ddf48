"""Publishing: names for what comes, own subscribers, receivers, and cancellation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from endpoint import Endpoint
from endpoint.link.limits import Mark
from endpoint.pubsub.gateway_client import GatewayClient
from endpoint.pubsub.messages import Message, Missed
from endpoint.pubsub.queueing import Overflow, Queueing
from wire.encoding import encode
from wire.errors import EncodeError, EndpointClosed, InvalidTopic, OutboxFull
from wire.limits import GROUP_SIZE
from wire.messages import PackedType

FRAME_CHARGE_MAX = 2 * GROUP_SIZE


async def test_what_comes_has_names_and_is_a_pair():
    async with Endpoint() as endpoint:
        reader = endpoint.subscribe("/a", local=True)
        for number in range(3):
            await endpoint.publish("/a/b", number)
        message = await reader.get()
        assert isinstance(message, Message)
        assert (message.topic, message.data) == ("/a/b", 0) == message
        async for each in reader:
            assert each == ("/a/b", 1)
            break
        assert reader.poll() == [("/a/b", 2)]


async def test_a_local_subscriber_hears_its_own_endpoint_and_others_do_not():
    async with Endpoint() as endpoint:
        local, usual = endpoint.subscribe("/a", local=True), endpoint.subscribe("/a")
        await endpoint.publish("/a/1", "text")
        await endpoint.publish("/a/1", b"bytes")
        await endpoint.publish("/b/1", "elsewhere")
        endpoint.publish_nowait("/a/2", 3)
        await endpoint.publish_batch([("/a/3", b"x"), ("/a/3", b"y"), ("/a/4", "z"), ("/c", 1)])
        publisher = endpoint.publisher("/a/5")
        await publisher.publish(1)
        await publisher.publish_batch([2, 3])
        expected = [
            *[("/a/1", "text"), ("/a/1", b"bytes"), ("/a/2", 3)],
            *[("/a/3", b"x"), ("/a/3", b"y"), ("/a/4", "z")],
            *[("/a/5", 1), ("/a/5", 2), ("/a/5", 3)],
        ]
        assert local.poll() == expected
        assert usual.poll() == []


async def test_a_client_of_a_gateway_hears_all_but_itself(kit):
    async with kit.world() as world:
        here, there = await world.grow(2, [(0, 1)])

        def client() -> GatewayClient:
            return GatewayClient(here.loop, ["/a"], Queueing(Overflow.DROP_OLDEST, 2), repr, "x")

        with client() as first, client() as second, here.subscribe("/a", local=True) as beside:
            remote = there.subscribe("/a")
            assert await here.await_subscribed("/a", timeout=None)
            for _ in range(2):  # The second time on a way that is known.
                await first.publish("/a/1", encode("text"))
                assert (await second.subscriber.get()) == ("/a/1", repr(encode("text")))
                assert (await beside.get()) == ("/a/1", "text")
                assert (await remote.get()) == ("/a/1", "text")
                assert first.subscriber.available() == 0
            await there.publish("/a/2", b"bytes")
            for each in (first, second):
                assert (await each.subscriber.get()) == ("/a/2", b"bytes")
            for number in range(5):  # The queue has room for two of them, and no call waits.
                await first.publish("/a/1", encode(number))
            assert isinstance((await second.subscriber.get()).data, Missed)
            assert second.subscriber.available() == 2
        await here.publish("/a/1", "gone")
        assert first.subscriber.available() == 0
        with pytest.raises(InvalidTopic):
            await first.publish("/<$>/a", encode(1))


async def test_a_local_subscriber_and_a_remote_one_get_the_same(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        here = left.subscribe("/a", local=True, queue_size=10_000)
        there = right.subscribe("/a", queue_size=10_000)
        assert await left.await_subscribed("/a", timeout=None)
        for number in range(3000):
            await left.publish("/a", number)
        await left.publish_batch([("/a", bytes(2))] * 3000)
        wanted = [*range(3000), *[bytes(2)] * 3000]
        assert [(await there.get()).data for _ in wanted] == wanted
        assert [(await here.get()).data for _ in wanted] == wanted
        await right.publish("/a", "from there")
        assert (await here.get()).data == "from there"


async def test_a_local_subscriber_may_come_and_go_while_its_topic_is_published_on():
    async with Endpoint() as endpoint:
        await endpoint.publish("/a", 1)
        reader = endpoint.subscribe("/a", local=True)
        await endpoint.publish("/a", 2)
        reader.close()
        await endpoint.publish("/a", 3)
        assert reader.poll() == [("/a", 2)]


async def test_publishers_wait_for_a_slow_reader_of_their_own_endpoint():
    async with Endpoint() as endpoint:
        reader = endpoint.subscribe("/a", local=True, queue_size=4)
        sent: list[int] = []

        async def publish() -> None:
            for number in range(10):
                await endpoint.publish("/a", number)
                sent.append(number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish)
            await trio.testing.wait_all_tasks_blocked()
            assert sent == [0, 1, 2, 3]
            with pytest.raises(OutboxFull, match="a subscriber of this endpoint is full"):
                endpoint.publish_nowait("/a", 11)
            assert [(await reader.get()).data for _ in range(10)] == list(range(10))
        assert sent == list(range(10))


@pytest.mark.parametrize("values", [[b"x" * 200] * 500, [1] * 500], ids=["bytes", "values"])
async def test_batches_wait_for_room_in_a_link(values, kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        reader = right.subscribe("/t", queue_size=100_000)
        assert await left.await_subscribed("/t", timeout=None)
        (peering,) = left.loop.peerings.values()
        data = peering.connection.link.data
        data.limits = replace(data.limits, own=Mark(1_000, 500))
        most = 0
        for _ in range(20):
            await left.publish_batch([("/t", value) for value in values])
            most = max(most, data.own)
        assert 0 < most < 2 * FRAME_CHARGE_MAX, "no more than a frame or two"
        for _ in range(20 * len(values)):
            assert (await reader.get()).data == values[0]


async def test_publishers_go_on_when_their_topic_is_not_wanted_any_more():
    async with Endpoint() as endpoint:
        reader = endpoint.subscribe("/a", "/b", local=True, queue_size=1)
        await endpoint.publish("/a", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(endpoint.publish, "/a", 2)
            await trio.testing.wait_all_tasks_blocked()
            reader.remove_topic("/a")
        assert reader.poll() == [("/a", 1)]


async def test_publishers_wait_no_longer_than_the_stall_time(autojump_clock):
    async with Endpoint() as endpoint:
        reader = endpoint.subscribe("/a", local=True, queue_size=2)
        for number in range(5):
            await endpoint.publish("/a", number)
        assert isinstance((await reader.get()).data, Missed)


async def test_a_message_to_one_endpoint_reaches_its_local_subscriber():
    async with Endpoint() as endpoint:
        reader = endpoint.subscribe("/a", local=True)
        await endpoint.publish("/a", "mine", to=endpoint)
        await endpoint.publish("/a", "another's", to=bytes(15) + b"\x01")
        assert reader.poll() == [("/a", "mine")]


@pytest.mark.parametrize("form", ["id", "text", "bytes", "endpoint"])
async def test_a_receiver_is_an_id_its_text_its_bytes_or_an_endpoint(form, kit):
    async with kit.world() as world:
        left, right, other = await world.grow(3, [(0, 1), (0, 2)])
        wanted, unwanted = right.subscribe("/job"), other.subscribe("/job")
        assert await left.await_subscribed("/job", 2, timeout=None)
        node = right.node_id()
        to = {"id": node, "text": str(node), "bytes": bytes(node), "endpoint": right}[form]
        await left.publish("/job", 1, to=to)
        left.publish_nowait("/job", 2, to=to)
        await left.publisher("/job").publish(3, to=to)
        await left.publish("/job", "all")
        assert [(await wanted.get()).data for _ in range(4)] == [1, 2, 3, "all"]
        assert (await unwanted.get()).data == "all"


@pytest.mark.parametrize("wrong", [5, b"short", "x", [1], {}, 1.5, object()])
async def test_a_receiver_that_is_none_is_refused_at_the_call(wrong):
    async with Endpoint() as endpoint:
        reader = endpoint.subscribe("/a", local=True)
        publisher = endpoint.publisher("/a")
        with pytest.raises((TypeError, ValueError), match="to="):
            await endpoint.publish("/a", 1, to=wrong)
        with pytest.raises((TypeError, ValueError), match="to="):
            endpoint.publish_nowait("/a", 1, to=wrong)
        with pytest.raises((TypeError, ValueError), match="to="):
            await publisher.publish(1, to=wrong)
        assert reader.poll() == []


@pytest.mark.parametrize("wrong", [5, None, b"/a", ["/a"], {}, "\ud800"])
async def test_a_topic_that_is_none_is_refused_at_the_call(wrong):
    async with Endpoint() as endpoint:
        with pytest.raises(InvalidTopic):
            await endpoint.publish(wrong, 1)
        with pytest.raises(InvalidTopic):
            endpoint.publish_nowait(wrong, 1)
        with pytest.raises(InvalidTopic):
            endpoint.publisher(wrong)


@pytest.mark.parametrize(
    "wrong", [[("/a", 1), 5], ["/a"], [("/a",)], [("/a", 1, 2)], [5], [{}], ["abc"]]
)
async def test_a_batch_of_no_pairs_is_refused_at_the_call(wrong):
    async with Endpoint() as endpoint:
        with pytest.raises(TypeError, match="no pair of topic and value"):
            await endpoint.publish_batch(wrong)


async def test_a_value_of_no_type_is_refused_at_the_call():
    async with Endpoint() as endpoint:
        with pytest.raises(EncodeError):
            await endpoint.publish("/a", object())


# Cancellation: a call acts, or raises; never both.


@pytest.mark.parametrize("topics", [1, 2])
async def test_what_is_cancelled_has_published_nothing(topics, kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        reader = right.subscribe("/t", "/end", queue_size=10_000)
        assert await left.await_subscribed("/t", timeout=None)
        returned: list[int] = []
        for number in range(3000):
            with trio.CancelScope() as scope:
                scope.cancel()
                await left.publish(f"/t/{number % topics}", number)
                returned.append(number)
        await left.publish("/end", "end")
        came = []
        async for topic, data in reader:
            if topic == "/end":
                break
            came.append(data)
        assert came == returned


async def test_a_publisher_cancelled_while_it_waits_has_published_nothing(kit):
    async with kit.world() as world:
        left, right = await world.grow(2, [(0, 1)])
        # However long it takes until it is full, the reader, which reads nothing, loses nothing.
        reader = right.subscribe("/t", queue_size=8, stall_seconds=None)
        assert await left.await_subscribed("/t", timeout=None)
        returned: list[int] = []

        async def publish(scope: trio.CancelScope) -> None:
            with scope:
                for number in range(1_000_000):
                    await left.publish("/t", (number, bytes(50_000)))
                    returned.append(number)

        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(publish, scope)
            await kit.until(lambda: kit.is_held(left, "/t", PackedType.DATA))
            await trio.testing.wait_all_tasks_blocked(0.01)
            scope.cancel()
        came = [(await reader.get()).data[0] for _ in returned]
        assert came == returned
        await left.publish("/t", "last")
        assert (await reader.get()).data == "last"


async def test_a_mutation_that_is_cancelled_was_not_asked_for():
    async with Endpoint() as endpoint, endpoint.attach_master("counts") as store:
        returned = 0
        for _ in range(3000):
            with trio.CancelScope() as scope:
                scope.cancel()
                await store.increment("all")
                returned += 1
        with trio.CancelScope() as scope:
            scope.cancel()
            await store.put_unique("unique", 1)
        assert scope.cancelled_caught
        assert not await store.exists("unique")
        async with endpoint.attach_log("events") as log:
            appended = 0
            for _ in range(3000):
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await log.append("x")
                    appended += 1
            assert await log.await_idle()
            assert (await log.offsets())[0].end == appended
        assert await store.await_idle()
        assert await store.get("all") == returned
        assert 0 < returned <= 3000
        assert 0 < appended <= 3000


# The end.


async def test_a_reader_at_its_end_is_told_that_the_endpoint_is_closed():
    async with Endpoint() as endpoint:
        reader, status = endpoint.subscribe("/a", local=True), endpoint.subscribe_status()
        await endpoint.publish("/a", 1)
        await endpoint.shutdown(None)
        assert (await reader.get()).data == 1
        for handle in (reader, status):
            with pytest.raises(EndpointClosed):
                await handle.get()
            assert [each async for each in handle] == []
