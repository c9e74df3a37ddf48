"""Barriers and dialling: both overloads of the seed, reasons that help, callbacks that fail."""

from __future__ import annotations

import logging
import socket
from datetime import timedelta

import pytest
import trio
import trio.testing

from endpoint import Endpoint, StatusCode
from endpoint.outcome import Outcome
from wire.errors import EndpointClosed
from wire.identifiers import EndpointId

STRANGER = EndpointId(b"\x07" * 16)


async def event_of(status, code: StatusCode):
    async for event in status:
        if event.status is code:
            return event
    raise AssertionError("the endpoint ended without it")


@pytest.mark.parametrize("limit", [0.01, 0, timedelta(milliseconds=1)])
async def test_a_number_in_the_second_place_is_the_time_limit(limit, autojump_clock):
    async with Endpoint() as alone:
        outcome = await alone.await_peer(STRANGER, limit)
        assert not outcome
        assert "no peers" in str(outcome)


async def test_a_store_without_a_master_is_not_idle_after_the_limit(autojump_clock):
    async with Endpoint() as alone, alone.attach_clone("cities") as clone:
        outcome = await clone.await_idle(0.3)
        assert not outcome
        assert "not idle after 0.3 s: " in str(outcome)
        assert not str(outcome).endswith(": ")


async def test_a_limit_of_zero_says_what_is_missing(autojump_clock):
    async with Endpoint() as alone, alone.attach_clone("cities") as clone:
        outcome = await clone.await_idle(timeout=0)
        assert not str(outcome).endswith(": ")


async def test_no_limit_waits_as_long_as_it_takes(kit):
    async with kit.world() as world:
        left, right = await world.add(), await world.add()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.peer, left, right)
            assert await left.await_peer(right, None)
            assert await left.await_peer(str(right.node_id()), timeout=None)
            assert await left.await_peer(bytes(right.node_id()), None, None)
        assert await left.await_peer(right, None, 600)


@pytest.mark.parametrize("way", ["second", "second and third", "second and timeout", "by name"])
async def test_a_callback_is_told_later_and_nothing_is_returned(way, autojump_clock):
    told: list[Outcome] = []
    done = trio.Event()

    def tell(outcome: Outcome) -> None:
        told.append(outcome)
        if len(told) == 2:
            done.set()

    ways = {
        "second": ((tell,), {}),
        "second and third": ((tell, 0.1), {}),
        "second and timeout": ((tell,), {"timeout": 0.1}),
        "by name": ((), {"timeout": 0.1, "callback": tell}),
    }
    positional, named = ways[way]
    async with Endpoint() as alone, alone.attach_clone("cities") as clone:
        assert await alone.await_peer(STRANGER, *positional, **named) is None
        assert await clone.await_idle(*positional, **named) is None
        assert not told
        await done.wait()
        assert not any(told)


@pytest.mark.parametrize(
    ("positional", "named", "error"),
    [
        ((1, 2), {}, "one timeout"),
        ((print, print), {}, "one callback"),
        ((print,), {"callback": print}, "one callback"),
        ((1, print, 2), {}, "not 3 values"),
        (("5",), {}, "seconds as a number"),
        ((), {"callback": 5}, "give a function"),
        ((-1,), {}, "0 or more"),
    ],
)
async def test_arguments_that_make_no_barrier_are_refused_at_the_call(positional, named, error):
    async with Endpoint() as alone, alone.attach_log("events") as log:
        async with alone.attach_master("cities") as store:
            with pytest.raises((TypeError, ValueError), match=error):
                await alone.await_peer(STRANGER, *positional, **named)
            for handle in (store, log):
                with pytest.raises((TypeError, ValueError), match=error):
                    await handle.await_idle(*positional, **named)


async def test_a_callback_that_raises_ends_nothing_and_is_told(caplog):
    def callback(outcome: Outcome) -> None:
        raise ZeroDivisionError("what a user's code does")

    async with Endpoint() as endpoint, endpoint.attach_clone("cities") as clone:
        status = endpoint.subscribe_status()
        receipt = await clone.put("vienna", 48.2)
        receipt.when_resolved(lambda: callback(Outcome(reached=False, reason="")))
        await endpoint.await_peer(STRANGER, callback, 0)
        await clone.await_idle(callback, 0)
        for each in range(3):
            if each == 2:
                await clone.close()  # The receipt has its outcome then.
            event = await event_of(status, StatusCode.CALLBACK_FAILED)
            assert event.is_error
            assert "ZeroDivisionError" in event.reason
        assert await endpoint.listen()
    assert "what a user's code does" in caplog.text
    assert all(each.exc_info for each in caplog.records)  # With a traceback for its log.


class Unspeakable(Exception):
    def __repr__(self) -> str:
        raise ArithmeticError("a repr that raises")


async def test_what_a_callback_raises_may_have_no_repr():
    def callback(outcome: Outcome) -> None:
        raise Unspeakable

    async with Endpoint() as endpoint:
        status = endpoint.subscribe_status()
        await endpoint.await_peer(STRANGER, callback, 0)
        event = await event_of(status, StatusCode.CALLBACK_FAILED)
        assert "<Unspeakable>" in event.reason


async def test_a_callback_of_a_receipt_that_raises_at_once_is_logged(caplog):
    async with Endpoint() as endpoint, endpoint.attach_master("cities") as store:
        receipt = await store.put("k", 1)
        await receipt.applied()
        receipt.when_resolved(lambda: 1 / 0)
    assert "ZeroDivisionError" in caplog.text


async def test_an_endpoint_lives_once():
    async with Endpoint() as endpoint:
        with pytest.raises(EndpointClosed, match="lives once"):
            await endpoint.__aenter__()
        assert await endpoint.listen()
    with pytest.raises(EndpointClosed, match="lives once"):
        await endpoint.__aenter__()


async def test_a_callback_may_wait_and_use_its_endpoint():
    done = trio.Event()

    async with Endpoint() as endpoint, endpoint.attach_master("cities") as store:

        async def callback(outcome: Outcome) -> None:
            await (await store.put("told", bool(outcome))).applied()
            assert endpoint.peers() == []
            done.set()

        await store.await_idle(callback)
        await done.wait()
        assert await store.get("told") is True


# Dialling.


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def test_a_peer_that_does_not_answer_gives_its_last_reason(caplog):
    port = free_port()
    with caplog.at_level(logging.WARNING):
        async with Endpoint() as alone:
            status = alone.subscribe_status()
            async with trio.open_nursery() as nursery:
                waiting = trio.Event()

                async def dial() -> None:
                    outcome = await alone.peer("127.0.0.1", str(port), timeout=0.3)
                    assert not outcome
                    assert f"no peering with 127.0.0.1:{port} within 0.3 s" in str(outcome)
                    waiting.set()

                nursery.start_soon(dial)
                await event_of(status, StatusCode.PEER_UNAVAILABLE)
                await waiting.wait()
            outcome = await alone.peer("127.0.0.1", port, timeout=0)
            assert "refused" in str(outcome)
            async with Endpoint() as late:  # Attempts went on.
                await late.listen("127.0.0.1", port)
                assert await alone.await_peer(late, None)
    first = [record for record in caplog.records if "peer_unavailable" in record.getMessage()]
    assert len(first) == 1, "the first failure is a warning, its repetitions are not"


async def test_the_address_may_hold_the_port():
    async with Endpoint() as left, Endpoint() as right:
        port = await right.listen()
        assert await left.peer(f"127.0.0.1:{port}")
        assert await left.unpeer(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("127.0.0.1", 0), ValueError),
        (("127.0.0.1", 70_000), ValueError),
        (("127.0.0.1", 9999.0), TypeError),
        (("127.0.0.1", "x"), ValueError),
        ((127, 9999), TypeError),
        (("127.0.0.1", 9999, "x"), TypeError),
        (("127.0.0.1", 9999, -1), ValueError),
        (("127.0.0.1", 9999, 1, "x"), TypeError),
    ],
)
async def test_what_cannot_be_dialled_is_refused_at_the_call(arguments, error):
    async with Endpoint() as alone:
        with pytest.raises(error):
            await alone.peer(*arguments)
        assert await alone.listen()


# Subscriptions.


async def test_subscribers_elsewhere_are_waited_for_over_any_number_of_hops(kit):
    async with kit.world() as world:
        first, _, last = await world.grow(3, [(0, 1), (1, 2)])
        outcome = await first.await_subscribed("/weather/vienna", timeout=0.01)
        assert not outcome
        assert "0 of 1 endpoints" in str(outcome)
        async with trio.open_nursery() as nursery:
            weather = []

            async def subscribe() -> None:
                weather.append(last.subscribe("/weather"))

            nursery.start_soon(subscribe)
            found = await first.await_subscribed("/weather/vienna", timeout=None)
        assert str(last.node_id()) in str(found)
        await first.publish("/weather/vienna", 21.5)
        assert (await weather[0].get()).data == 21.5
        short = await first.await_subscribed("/weather/vienna", 2, timeout=0.01)
        assert not short
        assert "1 of 2" in str(short)
        assert str(last.node_id()) in str(short)


async def test_an_endpoint_does_not_count_itself_as_a_subscriber():
    async with Endpoint() as alone:
        alone.subscribe("/weather", local=True)
        assert not await alone.await_subscribed("/weather", timeout=0)


async def test_an_ended_endpoint_has_no_subscribers():
    async with Endpoint() as alone:
        async with trio.open_nursery() as nursery:
            found = []

            async def wait() -> None:
                found.append(await alone.await_subscribed("/weather", timeout=None))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await alone.shutdown()
        assert "shut down" in str(found[0])
