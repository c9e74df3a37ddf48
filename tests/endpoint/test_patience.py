"""Busy polling: in a conversation a reader stays awake for the answer, and nowhere else."""

from __future__ import annotations

from math import log2

import pytest
import trio
from hypothesis import given, strategies as st

from endpoint import Endpoint
from endpoint.connection import CONVERSATION_SIZE, Connection
from endpoint.patience import PAUSE_MAX, Patience
from endpoint.transport import cores
from handshake.secret import ClusterSecret
from peermesh.testing.simulation import simulate
from tests.endpoint.conftest import World, open_world, until

SHORT, LONG = 0.0001, 0.0003
ROUNDS = 300

# What is learnt.


def eager() -> Patience:
    patience = Patience(0.0002)
    patience.slept(SHORT)
    return patience


def test_one_short_wait_is_reason_enough_to_stay_awake() -> None:
    patience = Patience(0.0002)
    assert patience.seconds == 0
    patience.slept(LONG)
    assert patience.seconds == 0
    patience.slept(SHORT)
    assert patience.seconds == 0.0002
    patience.found()
    assert patience.seconds == 0.0002


def test_who_looked_in_vain_sleeps_until_waits_are_short_again() -> None:
    patience = eager()
    patience.missed()
    patience.slept(LONG)
    patience.slept(SHORT)
    assert patience.seconds == 0
    patience.slept(SHORT)
    assert patience.seconds == 0.0002


def test_whoever_finds_something_needs_less_reason_the_next_time() -> None:
    patience = eager()
    for _ in range(3):
        patience.missed()
        while not patience.seconds:
            patience.slept(SHORT)
    for _ in range(3):
        patience.found()
    patience.missed()
    patience.slept(SHORT)
    patience.slept(SHORT)
    assert patience.seconds


def test_nobody_stays_awake_for_nothing() -> None:
    patience = Patience(0)
    patience.slept(0)
    assert patience.seconds == 0


@given(st.integers(1, 20_000))
def test_where_it_never_pays_it_is_hardly_ever_tried(waits: int) -> None:
    patience, tried = Patience(0.0002), 0
    for _ in range(waits):
        if patience.seconds:
            tried += 1
            patience.missed()
        patience.slept(SHORT)
    assert tried <= log2(PAUSE_MAX) + waits / PAUSE_MAX


# Who stays awake.


async def converse(asker: Endpoint, server: Endpoint, size: int = 100) -> tuple[int, int]:
    """Ask and answer many times; count for both ends the waits for which they stayed awake."""
    ends = connection(asker, server), connection(server, asker)
    before = [end.patience.found_count for end in ends]
    with server.subscribe("/request") as requests, asker.subscribe("/answer") as answers:
        await until(lambda: asker.loop.core.digest() == server.loop.core.digest())

        async def serve() -> None:
            for _ in range(ROUNDS):
                _, data = await requests.get()
                await server.publish("/answer", data)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            for number in range(ROUNDS):
                text = bytes([number % 256]) * size
                await asker.publish("/request", text)
                assert await answers.get() == ("/answer", text)
    asked, served = (
        end.patience.found_count - seen for end, seen in zip(ends, before, strict=True)
    )
    return asked, served


def connection(here: Endpoint, there: Endpoint) -> Connection:
    return here.loop.peerings[there.node_id()].connection


async def two(world: World, seconds: float = 0.01, **settings: object) -> tuple[Endpoint, Endpoint]:
    """Start two peers that stay awake for long: a machine with other things to do answers late.

    On one core they would not, and the tests have to see it all the same.
    """
    left, right = await world.add(**settings), await world.add(**settings)
    await world.peer(left, right)
    await world.known()
    for end in (connection(left, right), connection(right, left)):
        assert end.patience.seconds == 0
        end.patience = Patience(seconds)
    return left, right


async def test_both_ends_of_a_conversation_stay_awake() -> None:
    async with open_world() as world:
        asked, served = await converse(*await two(world))
        assert asked > 0
        assert served > 0


async def test_they_do_over_tls_too() -> None:
    async with open_world() as world:
        asked, served = await converse(*await two(world, secret=ClusterSecret.generate()))
        assert asked > 0
        assert served > 0


async def test_who_wants_to_sleep_sleeps() -> None:
    async with open_world() as world:
        assert await converse(*await two(world, 0)) == (0, 0)


@pytest.mark.parametrize("microseconds", [0, 7])
async def test_the_setting_says_how_long(microseconds: int) -> None:
    async with open_world() as world:
        left, right = [await world.add(busy_poll_microseconds=microseconds) for _ in range(2)]
        await world.peer(left, right)
        end = connection(left, right)
        assert end.transport.polls == (cores() > 1)
        end.patience.slept(0)
        assert end.patience.seconds == (microseconds / 1e6 if cores() > 1 else 0)


async def test_one_connection_at_a_time_keeps_an_endpoint_awake() -> None:
    async with open_world() as world:
        left, right = await two(world)
        left.loop.is_polling = True
        asked, served = await converse(left, right)
        assert asked == 0
        assert served > 0


async def test_a_stream_lets_its_reader_sleep() -> None:
    """Also right after a conversation, when both are ready to stay awake."""
    async with open_world() as world:
        left, right = await two(world)
        await converse(left, right)
        stream = right.subscribe("/stream")
        await world.known()
        end = connection(right, left)
        found = end.patience.found_count
        async with trio.open_nursery() as nursery:

            async def publish() -> None:
                for number in range(20_000):
                    await left.publish("/stream", number)

            nursery.start_soon(publish)
            for number in range(20_000):
                assert await stream.get() == ("/stream", number)
        assert end.patience.found_count == found
        assert end.patience.seconds == 0


async def test_what_is_large_is_no_conversation() -> None:
    async with open_world() as world:
        left, right = await two(world)
        assert await converse(left, right, CONVERSATION_SIZE) == (0, 0)


def test_nobody_stays_awake_on_a_simulated_network() -> None:
    """There time passes only while everybody sleeps."""

    async def story(_: object) -> None:
        async with Endpoint() as left, Endpoint() as right:
            assert await left.peer("127.0.0.1", await right.listen())
            end = connection(left, right)
            assert not end.transport.polls
            end.patience.slept(0)
            assert end.patience.seconds == 0

    simulate(story, seed=1)
