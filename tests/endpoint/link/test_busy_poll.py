"""Busy polling: in a conversation a reader stays awake for the answer, and nowhere else."""

from __future__ import annotations

import os
from math import log2

import pytest
import trio
from hypothesis import given, strategies as st

from endpoint import Endpoint
from endpoint.link.busy_poll import (
    CONVERSATION_SIZE,
    LOOKS_MIN,
    PAUSE_MAX,
    SLEPT_FACTOR,
    WORKED_MIN,
    BusyPoll,
)
from endpoint.link.connection import Connection
from handshake.secret import ClusterSecret
from net.transport import cores
from peermesh.testing.simulation import simulate
from peermesh.testing.time_limits import limit
from tests.endpoint.conftest import World, open_world, until
from wire.errors import ErrorCode

SECONDS, SHORT, LONG = 0.0002, 0.0001, 0.0005
SAID = 100
ROUNDS = 300

# What is learnt. Each wait begins at 0.


def doze(busy_poll: BusyPoll, seconds: float, said: int = SAID) -> None:
    assert busy_poll.begin(0) is False
    busy_poll.slept(seconds, said)


def eager() -> BusyPoll:
    busy_poll = BusyPoll(SECONDS)
    doze(busy_poll, SHORT)
    assert busy_poll.begin(0)
    return busy_poll


def fail(busy_poll: BusyPoll) -> None:
    assert busy_poll.begin(0)
    assert not busy_poll.may_look(SECONDS, SAID)


def test_one_short_wait_is_reason_enough_to_stay_awake() -> None:
    busy_poll = BusyPoll(SECONDS)
    doze(busy_poll, LONG)
    doze(busy_poll, SHORT)
    assert busy_poll.begin(0)
    busy_poll.found(SHORT, SAID, WORKED_MIN * SHORT)
    busy_poll.found(SHORT, 1, SHORT)
    assert busy_poll.begin(0)
    assert busy_poll.success_count == 2


@pytest.mark.parametrize(("share", "is_tried"), [(0.99, True), (1, False)])
def test_a_wait_may_take_longer_where_both_ends_were_woken(share: float, is_tried: bool) -> None:
    busy_poll = BusyPoll(SECONDS)
    doze(busy_poll, share * SLEPT_FACTOR * SECONDS)
    assert busy_poll.begin(0) is is_tried


@pytest.mark.parametrize("said", [0, CONVERSATION_SIZE])
def test_it_is_learnt_in_a_conversation_only(said: int) -> None:
    busy_poll = BusyPoll(SECONDS)
    doze(busy_poll, SHORT, said)
    doze(busy_poll, SHORT, said)
    busy_poll = eager()
    busy_poll.found(SHORT, said, SHORT)
    assert not busy_poll.begin(0)
    assert busy_poll.success_count == 0


def test_whoever_lost_the_core_while_looking_lets_others_have_it() -> None:
    busy_poll = eager()
    busy_poll.found(SHORT, SAID, WORKED_MIN * SHORT * 0.9)
    assert not busy_poll.begin(0)


def test_it_is_time_to_sleep_when_the_time_is_over() -> None:
    busy_poll = eager()
    for part in (0, 0.5, 0.9):
        assert busy_poll.may_look(part * SECONDS, SAID)
    assert not busy_poll.may_look(SECONDS, SAID)
    assert not busy_poll.begin(0)


def test_it_is_time_to_sleep_when_nobody_says_anything() -> None:
    busy_poll = eager()
    for _ in range(LOOKS_MIN):
        assert busy_poll.may_look(0, 0)
    assert not busy_poll.may_look(0, 0)
    assert not busy_poll.begin(0)


def test_who_looked_in_vain_sleeps_until_waits_are_short_again() -> None:
    busy_poll = eager()
    fail(busy_poll)
    doze(busy_poll, LONG)
    doze(busy_poll, SHORT)
    doze(busy_poll, SHORT)
    assert busy_poll.begin(0)


def test_whoever_finds_something_needs_less_reason_the_next_time() -> None:
    busy_poll = eager()
    for _ in range(3):
        fail(busy_poll)
        while not busy_poll.begin(0):
            busy_poll.slept(SHORT, SAID)
    for _ in range(3):
        busy_poll.found(SHORT, SAID, SHORT)
    fail(busy_poll)
    doze(busy_poll, SHORT)
    doze(busy_poll, SHORT)
    assert busy_poll.begin(0)


def waits_before_the_next_look(busy_poll: BusyPoll) -> int:
    count = 0
    while busy_poll.begin(0) is False:
        busy_poll.slept(SHORT, SAID)
        count += 1
    return count


def test_each_success_halves_the_pause_and_each_failure_doubles_it() -> None:
    busy_poll, pauses = eager(), []
    for successes in (0, 0, 0, 0, 1, 2, 0):
        for _ in range(successes):
            busy_poll.found(SHORT, SAID, SHORT)
        fail(busy_poll)
        pauses.append(waits_before_the_next_look(busy_poll))
    assert pauses == [2, 4, 8, 16, 16, 8, 16]


def test_nobody_stays_awake_for_nothing() -> None:
    busy_poll = BusyPoll(0)
    doze(busy_poll, 0)
    doze(busy_poll, 0)


@given(st.integers(1, 20_000))
def test_where_it_never_pays_it_is_hardly_ever_tried(waits: int) -> None:
    busy_poll, tried = BusyPoll(SECONDS), 0
    for _ in range(waits):
        if busy_poll.begin(0):
            tried += 1
            fail(busy_poll)
        busy_poll.slept(SHORT, SAID)
    assert tried <= log2(PAUSE_MAX) + waits / PAUSE_MAX


# Who stays awake.


async def converse(asker: Endpoint, server: Endpoint, size: int = 100) -> tuple[int, int]:
    """Ask and answer many times; count for both ends the waits for which they stayed awake."""
    ends = connection(asker, server), connection(server, asker)
    before = [end.busy_poll.success_count for end in ends]
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
        end.busy_poll.success_count - seen for end, seen in zip(ends, before, strict=True)
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
        end.busy_poll = BusyPoll(seconds)
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


def learns(end: Connection) -> bool:
    """Tell whether it would stay awake after one wait that was very short."""
    end.busy_poll.begin(0)
    end.busy_poll.slept(0, SAID)
    return end.busy_poll.is_eager


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not tell")
async def test_nobody_stays_awake_on_a_single_core() -> None:
    allowed = os.sched_getaffinity(0)
    async with open_world() as world:
        os.sched_setaffinity(0, {min(allowed)})
        try:
            left, right = await world.grow(2, [(0, 1)])
        finally:
            os.sched_setaffinity(0, allowed)
        assert not learns(connection(left, right))


@pytest.mark.parametrize("ending", ["abort", "part", "shutdown"])
async def test_a_connection_ends_while_its_reader_looks(ending: str) -> None:
    async with open_world() as world:
        left, right = await two(world, limit(60))
        questions, answers = right.subscribe("/question"), left.subscribe("/answer")
        await world.known()
        connection(right, left).busy_poll.is_eager = True
        await left.publish("/question", b"?")
        await questions.get()
        await right.publish("/answer", b"!")
        await answers.get()
        for _ in range(3 * LOOKS_MIN):
            await trio.lowlevel.checkpoint()
        assert right.loop.is_polling
        if ending == "abort":
            left.loop.abort()
        elif ending == "part":
            right.loop.part_all(ErrorCode.UNSPECIFIED, "enough")
        else:
            await left.shutdown()
        await until(lambda: not right.loop.peerings and not right.loop.is_polling)


@pytest.mark.parametrize("microseconds", [0, 7])
async def test_the_setting_says_how_long(microseconds: int) -> None:
    async with open_world() as world:
        left, right = [await world.add(busy_poll_microseconds=microseconds) for _ in range(2)]
        await world.peer(left, right)
        end = connection(left, right)
        assert end.transport.polls == (cores() > 1)
        assert learns(end) == (microseconds > 0 and cores() > 1)


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
        found = end.busy_poll.success_count
        async with trio.open_nursery() as nursery:

            async def publish() -> None:
                for number in range(20_000):
                    await left.publish("/stream", number)

            nursery.start_soon(publish)
            for number in range(20_000):
                assert await stream.get() == ("/stream", number)
        assert end.busy_poll.success_count == found
        assert not end.busy_poll.is_eager


async def test_who_streams_waits_for_no_answer() -> None:
    """Its first message leaves at once, as a question does; the others in one write."""
    async with open_world() as world:
        left, right = await two(world)
        stream = right.subscribe("/stream")
        await world.known()
        await left.publish("/stream", bytes(100))
        await left.publish_batch([("/stream", bytes(100))] * 300)
        for _ in range(301):
            await stream.get()
        end = connection(left, right)
        end.busy_poll.begin(0)
        end.busy_poll.slept(0, end._said)
        assert not end.busy_poll.is_eager


async def test_what_is_large_is_no_conversation() -> None:
    async with open_world() as world:
        left, right = await two(world)
        assert await converse(left, right, CONVERSATION_SIZE) == (0, 0)


def test_nobody_stays_awake_on_a_simulated_network() -> None:
    """There time passes only while everybody sleeps."""

    async def story(_: object) -> None:
        async with Endpoint() as left, Endpoint() as right:
            assert await left.peer("127.0.0.1", await right.listen(), timeout=limit())
            end = connection(left, right)
            assert not end.transport.polls
            assert not learns(end)

    simulate(story, seed=1)
