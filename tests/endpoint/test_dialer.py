"""Dialling again: soon at first, then less and less often, and never in a storm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import trio
import trio.testing

from endpoint.dialer import BACKOFF_FIRST_SECONDS, CONNECT_TIMEOUT_SECONDS, STOOD_SECONDS, Dialer
from endpoint.loop import EndpointLoop
from endpoint.mesh.core import EndpointCore
from endpoint.mesh.status import StatusCode
from endpoint.settings import Settings
from net.transport import StreamTransport, Transport
from wire.errors import ErrorCode, MeshError
from wire.identifiers import EndpointId

ADDRESS = ("peer.example", 4040)
HERE, THERE = EndpointId(b"\1" * 16), EndpointId(b"\2" * 16)


def make_loop(local: EndpointId) -> EndpointLoop:
    return EndpointLoop(EndpointCore(local), Settings(), first_sequence=0)


def make_dialer(
    loop: EndpointLoop, connect: Callable[[], Awaitable[Transport]], retry: float
) -> Dialer:
    return Dialer(loop, connect, ADDRESS, retry=retry, chance=lambda: 1.0)


def pauses(times: list[float]) -> list[float]:
    return [round(after - before, 6) for before, after in pairwise(times)]


async def test_pauses_double_up_to_the_retry_interval(autojump_clock) -> None:
    loop, times = make_loop(HERE), []

    async def refuse() -> Transport:
        times.append(trio.current_time())
        raise ConnectionRefusedError("refused")

    status = loop.status.subscribe()
    dialer = make_dialer(loop, refuse, retry=2.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dialer.run, pytest.fail)
        for _ in range(8):
            event = await status.get()
            assert event.status is StatusCode.PEER_UNAVAILABLE
            assert event.address == ADDRESS
        assert not dialer.settled.is_set()
        dialer.stop()
    first = BACKOFF_FIRST_SECONDS
    assert pauses(times) == [first, 2 * first, 4 * first, 8 * first, 16 * first, 2.0, 2.0]
    assert dialer.first == False  # noqa: E712 - it stands for a truth
    assert "no longer wanted" in str(dialer.first)


async def test_retry_zero_is_one_attempt(autojump_clock) -> None:
    loop, times = make_loop(HERE), []

    async def refuse() -> Transport:
        times.append(trio.current_time())
        raise ConnectionRefusedError("refused")

    dialer = make_dialer(loop, refuse, retry=0)
    await dialer.run(pytest.fail)
    assert len(times) == 1
    assert dialer.first is not None
    assert dialer.first.error is not None
    assert "check the address" in str(dialer.first)


async def test_nobody_waits_for_an_address_that_swallows_everything(autojump_clock) -> None:
    dialer = make_dialer(make_loop(HERE), trio.sleep_forever, retry=0)
    await dialer.run(pytest.fail)
    assert trio.current_time() == CONNECT_TIMEOUT_SECONDS
    assert "no answer within 10 s" in str(dialer.first)


@pytest.mark.parametrize(
    "error",
    [
        OSError("x"),
        UnicodeError("x"),
        OverflowError("x"),
        trio.BrokenResourceError(),
        MeshError("x"),
    ],
)
async def test_whatever_keeps_it_from_connecting_is_an_outcome(autojump_clock, error) -> None:
    async def fail() -> Transport:
        raise error

    dialer = make_dialer(make_loop(HERE), fail, retry=0)
    await dialer.run(pytest.fail)
    assert isinstance(dialer.first.error, MeshError)


class Pair:
    """Two loops, and a network between them that is memory."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.here, self.there = make_loop(HERE), make_loop(THERE)
        self.times: list[float] = []

    async def connect(self) -> Transport:
        self.times.append(trio.current_time())
        near, far = trio.testing.memory_stream_pair()
        greeting = self.there.prepare(StreamTransport(far), None, dialled=False)
        self.nursery.start_soon(self.there.run, greeting)
        return StreamTransport(near)

    def throw_out(self) -> None:
        peering = self.there.peerings[HERE]
        self.there.part(peering, StatusCode.PEER_REMOVED, ErrorCode.UNSPECIFIED, "not welcome")


@pytest.mark.parametrize("stands_for", [0.0, 2 * STOOD_SECONDS])
async def test_who_is_thrown_out_at_once_does_not_come_back_in_a_storm(
    autojump_clock, stands_for: float
) -> None:
    async with trio.open_nursery() as nursery:
        pair = Pair(nursery)
        status = pair.there.status.subscribe()
        dialer = make_dialer(pair.here, pair.connect, retry=5.0)
        start = lambda greeting: nursery.start_soon(pair.here.run, greeting)  # noqa: E731 - it is passed on
        nursery.start_soon(dialer.run, start)
        for _ in range(8):
            while (await status.get()).status is not StatusCode.PEER_ADDED:
                pass
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(stands_for):
                await trio.sleep_forever()
            pair.throw_out()
        assert dialer.first
        dialer.stop()
        nursery.cancel_scope.cancel()
    times = pauses(pair.times)
    if stands_for:
        assert max(times) <= stands_for + BACKOFF_FIRST_SECONDS
    else:
        assert times[-1] == 5.0
        assert times == sorted(times)


async def test_a_dialler_that_is_stopped_in_the_handshake_closes_its_connection(
    autojump_clock,
) -> None:
    async with trio.open_nursery() as nursery:
        loop = make_loop(HERE)
        near, _ = trio.testing.memory_stream_pair()

        async def connect() -> Transport:
            return StreamTransport(near)

        dialer = make_dialer(loop, connect, retry=5.0)
        start = lambda greeting: nursery.start_soon(loop.run, greeting)  # noqa: E731 - it is passed on
        nursery.start_soon(dialer.run, start)
        await trio.testing.wait_all_tasks_blocked()
        assert len(loop.greeter) == 1
        dialer.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert len(loop.greeter) == 0
        assert not loop._connections
