"""One seed, one run: the same every time, in every process."""

from __future__ import annotations

import pytest
import trio

from peermesh import Endpoint
from peermesh.testing.simulation import Simulation, elapse, run, simulate


async def echo(stream: trio.SocketStream) -> None:
    async for data in stream:
        await stream.send_all(data)


async def echo_once(simulation: Simulation) -> bytes:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, echo, 0)
        port = listeners[0].socket.getsockname()[1]
        stream = await trio.open_tcp_stream("localhost", port)
        await stream.send_all(b"hello")
        answer = b""
        while len(answer) < 5:
            answer += await stream.receive_some()
        nursery.cancel_scope.cancel()
    return answer


async def line_of_three(simulation: Simulation) -> list[object]:
    hosts = [simulation.host(name) for name in ("alpha", "beta", "gamma")]
    endpoints = []
    for host in hosts:
        with host:
            endpoints.append(Endpoint())
    first, second, third = endpoints
    async with first, second, third:
        port = await second.listen(hosts[1].address)
        subscriber = third.subscribe("news")
        assert await first.peer(hosts[1].address, port)
        assert await third.peer(hosts[1].address, port)
        assert await first.await_peer(third.node_id())
        for number in range(10):
            await first.publish("news/today", number)
        return [(await subscriber.get())[1] for _ in range(10)]


def test_trio_code_runs_over_the_simulated_network_as_it_is():
    assert simulate(echo_once, seed=1) == b"hello"


def test_a_mesh_of_endpoints_runs_over_it_as_it_is():
    assert simulate(line_of_three, seed=1) == list(range(10))


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    digests = [run(seed, line_of_three).digest for seed in range(10)]
    assert digests == [run(seed, line_of_three).digest for seed in range(10)]
    assert len(set(digests)) == 10


def test_time_that_is_real_is_not_let_pass():
    with pytest.raises(RuntimeError, match="wait for what has to become true"):
        trio.run(elapse, 0)
