"""What may happen to a host, and what its tasks, its peers and its disk see of it."""

from __future__ import annotations

import pytest
import trio

from peermesh import Backend, Endpoint
from peermesh.errors import BackendFailure, NoQuorum, ReplicaRegressed
from peermesh.testing.faults import (
    Delay,
    Direction,
    LinkFault,
    Loss,
    Partition,
    RateLimit,
    SlowClose,
)
from peermesh.testing.simulation import (
    Host,
    HostDown,
    Options,
    Simulation,
    Spinning,
    ThreadRefused,
    TimeLimit,
    elapse,
    run,
    simulate,
)

PORT = 7_000


async def serve_echo(host: Host) -> None:
    async def echo(stream: trio.SocketStream) -> None:
        try:
            async for data in stream:
                await stream.send_all(data)
        except trio.BrokenResourceError:
            pass

    host.start(trio.serve_tcp, echo, PORT)
    await trio.testing.wait_all_tasks_blocked()


async def dial(host: Host) -> trio.SocketStream:
    return await trio.open_tcp_stream(host.address, PORT)


async def ask(stream: trio.SocketStream) -> float:
    """Send a byte and wait for it to come back; give the seconds that it took."""
    began = trio.current_time()
    await stream.send_all(b"x")
    assert await stream.receive_some(1) == b"x"
    return trio.current_time() - began


def test_a_host_is_found_by_its_name_from_every_other():
    async def main(simulation: Simulation) -> None:
        await serve_echo(simulation.host("server"))

        async def from_afar() -> float:
            return await ask(await trio.open_tcp_stream("server", PORT))

        assert await simulation.host("client").run(from_afar) > 0

    simulate(main, seed=1)


def test_hosts_share_no_ports_and_no_loopback():
    async def main(simulation: Simulation) -> None:
        for name in ("alpha", "beta"):
            await serve_echo(simulation.host(name))
        with pytest.raises(OSError, match="all attempts"):
            await trio.open_tcp_stream("127.0.0.1", PORT)

        async def at_home() -> None:
            await ask(await trio.open_tcp_stream("127.0.0.1", PORT))

        await simulation.host("beta").run(at_home)

    simulate(main, seed=1)


def test_a_killed_process_is_a_reset_or_an_end_and_a_refusal_afterwards():
    async def main(simulation: Simulation) -> None:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        await ask(stream)
        await server.kill()
        assert not server.is_up
        assert await stream.receive_some(1) == b""
        with pytest.raises(OSError, match="all attempts"):
            await dial(server)
        await server.restart()
        await ask(await dial(server))

    for seed in range(5):
        simulate(main, seed=seed)


def test_a_host_without_power_answers_nobody_and_knows_nobody_afterwards():
    async def main(simulation: Simulation) -> None:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        await ask(stream)
        await server.cut_power()
        await stream.send_all(b"x")
        with trio.move_on_after(100) as scope:
            await stream.receive_some(1)
        assert scope.cancelled_caught
        with trio.move_on_after(100) as scope:
            await dial(server)
        assert scope.cancelled_caught
        await server.restart()
        with pytest.raises(trio.BrokenResourceError, match="reset"):
            await stream.receive_some(1)
        await ask(await dial(server))

    for seed in range(5):
        simulate(main, seed=seed)


def test_nobody_waits_for_ever_for_a_host_that_is_silent():
    async def main(simulation: Simulation) -> float:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        await simulation.link("main", "server").apply(Partition())
        await stream.send_all(b"x")
        with pytest.raises(trio.BrokenResourceError, match="timed out"):
            await stream.receive_some(1)
        began = simulation.now
        with pytest.raises(OSError, match="all attempts"):
            await dial(server)
        return simulation.now - began

    assert simulate(main, seed=1, options=Options(limit=2_000)) == pytest.approx(127)


def test_a_killed_task_takes_no_other_step_not_even_to_clean_up():
    steps: list[str] = []

    async def program() -> None:
        try:
            while True:
                steps.append("step")
                await elapse(1)
        finally:
            steps.append("cleaned up")

    async def main(simulation: Simulation) -> list[str]:
        steps.clear()
        host = simulation.host("a")
        host.start(program)
        await elapse(2.5)
        await host.kill()
        await elapse(10)
        return list(steps)

    assert simulate(main, seed=1) == ["step"] * 3


def test_a_stopped_host_says_goodbye():
    steps: list[str] = []

    async def program() -> None:
        try:
            await trio.sleep_forever()
        finally:
            steps.append("cleaned up")

    async def main(simulation: Simulation) -> list[str]:
        steps.clear()
        host = simulation.host("a")
        host.start(program)
        await elapse(1)
        await host.stop()
        await elapse(1)
        return list(steps)

    assert simulate(main, seed=1) == ["cleaned up"]


def test_a_paused_host_does_nothing_and_its_kernel_goes_on():
    async def main(simulation: Simulation) -> None:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        await server.pause()
        other = await dial(server)
        await stream.send_all(b"x")
        with trio.move_on_after(30) as scope:
            await stream.receive_some(1)
        assert scope.cancelled_caught
        await server.resume()
        assert await stream.receive_some(1) == b"x"
        await ask(other)

    for seed in range(5):
        simulate(main, seed=seed)


def test_timeouts_of_a_paused_host_are_late():
    async def sleeper() -> float:
        await elapse(1)
        return trio.current_time()

    async def main(simulation: Simulation) -> float:
        host = simulation.host("a")
        async with trio.open_nursery() as nursery:
            woke: list[float] = []

            async def wait() -> None:
                woke.append(await host.run(sleeper))

            nursery.start_soon(wait)
            await elapse(0.5)
            await host.pause()
            await elapse(10)
            await host.resume()
        return woke[0]

    assert simulate(main, seed=1) == pytest.approx(10.5)


def test_who_waits_for_a_host_that_is_killed_is_told():
    async def main(simulation: Simulation) -> None:
        host = simulation.host("a")
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(HostDown):
                    await host.run(trio.sleep_forever)

            nursery.start_soon(wait)
            await elapse(1)
            await host.kill()

    simulate(main, seed=1)


def test_a_skewed_clock_is_seen_by_what_runs_there_alone():
    async def main(simulation: Simulation) -> int:
        host = simulation.host("a")
        await host.skew_clock(-3600)
        return simulation.host("b").now_ns() - host.now_ns()

    assert simulate(main, seed=1) == 3600 * 10**9


def test_a_delay_counts_once_each_way_and_one_way_alone():
    async def main(simulation: Simulation) -> list[float]:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        link = simulation.link("main", "server")
        await link.apply(Delay(1.0))
        both = await ask(stream)
        await link.heal()
        await link.apply(Delay(1.0), Direction.FORTH)
        forth = await ask(stream)
        await link.heal()
        return [both, forth, await ask(stream)]

    both, forth, healed = simulate(main, seed=1)
    assert both == pytest.approx(2, abs=0.01)
    assert forth == pytest.approx(1, abs=0.01)
    assert healed < 0.01


def test_a_one_way_partition_lets_the_other_direction_through():
    async def main(simulation: Simulation) -> None:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        link = simulation.link("main", "server")
        await link.apply(Partition(), Direction.BACK)
        await stream.send_all(b"x")
        with trio.move_on_after(10) as scope:
            await stream.receive_some(1)
        assert scope.cancelled_caught
        await link.heal()
        assert await stream.receive_some(1) == b"x"

    for seed in range(5):
        simulate(main, seed=seed)


@pytest.mark.parametrize("fault", [Loss(0.9), Delay(60.0), RateLimit(10)])
def test_what_is_on_its_way_when_a_link_heals_comes_when_tcp_repeats_it(fault: LinkFault):
    async def main(simulation: Simulation) -> None:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        link = simulation.link("main", "server")
        await link.apply(fault, Direction.FORTH)
        for number in range(20):
            await stream.send_all(bytes([number]) * 10)
            await elapse(0.1)
        await link.heal()
        healed = simulation.now
        await stream.send_all(bytes([20]))
        received = b""
        while len(received) < 201:
            received += await stream.receive_some(201)
        assert received == b"".join(bytes([number]) * 10 for number in range(20)) + bytes([20])
        # Whatever was first is less than two seconds old, and its pauses double: 1.6 s at the most.
        assert simulation.now - healed < 1.9

    for seed in range(10):
        simulate(main, seed=seed)


def test_power_hurries_nothing_on_a_slow_link():
    async def main(simulation: Simulation) -> float:
        server, third = simulation.host("server"), simulation.host("third")
        await serve_echo(server)
        stream = await dial(server)
        await simulation.link("main", "server").apply(Delay(5.0), Direction.FORTH)
        began = trio.current_time()
        await stream.send_all(b"x")
        await third.cut_power()
        await third.restart()
        assert await stream.receive_some(1) == b"x"
        return trio.current_time() - began

    assert simulate(main, seed=1) == pytest.approx(5, abs=0.01)


def test_a_limited_rate_takes_its_time():
    async def main(simulation: Simulation) -> float:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        await simulation.link("main", "server").apply(RateLimit(10_000), Direction.FORTH)
        began = simulation.now
        await stream.send_all(bytes(100_000))
        await stream.send_eof()
        size = sum([len(data) async for data in stream])
        assert size == 100_000
        return simulation.now - began

    assert simulate(main, seed=1) == pytest.approx(10, rel=0.05)


def test_a_slow_close_is_seen_late():
    async def main(simulation: Simulation) -> float:
        server = simulation.host("server")
        await serve_echo(server)
        stream = await dial(server)
        await simulation.link("main", "server").apply(SlowClose(5.0), Direction.FORTH)
        began = simulation.now
        await stream.send_eof()
        assert await stream.receive_some(1) == b""
        return simulation.now - began

    assert simulate(main, seed=1) == pytest.approx(5, abs=0.01)


async def keep(simulation: Simulation, kind: str, how: str, *, lies: bool) -> list[object]:
    """Acknowledge one entry, end the host in some way, and give what is there then."""
    host = simulation.host("server")
    if lies:
        host.disk.lie_fsync()

    async def put() -> None:
        async with Endpoint() as endpoint:
            async with endpoint.attach_master("s", Backend.SQLite, path="s.db") as store:
                async with endpoint.attach_log("l", (), 1, Backend.SQLite, path="l.db") as log:
                    receipt = store.put("key", 1) if kind == "store" else log.append("key")
                    await (await receipt).applied()
                    host.start(trio.sleep_forever)
                    await getattr(host, how)()

    async def look() -> list[object]:
        async with Endpoint() as endpoint:
            if kind == "store":
                async with endpoint.attach_master("s", Backend.SQLite, path="s.db") as store:
                    return list(await store.keys())
            async with endpoint.attach_log("l", (), 1, Backend.SQLite, path="l.db") as log:
                return [entry.value for entry in await log.read(0, 0)]

    with pytest.raises(HostDown):
        await host.run(put)
    await host.restart()
    return await host.run(look)


by_kind = pytest.mark.parametrize("kind", ["store", "log"])


@by_kind
@pytest.mark.parametrize("how", ["kill", "cut_power"])
def test_what_was_acknowledged_is_there_after_a_crash(how: str, kind: str):
    for seed in range(20):
        assert run(seed, lambda simulation: keep(simulation, kind, how, lies=False)).value == [
            "key"
        ]


@by_kind
def test_a_disk_that_lies_loses_with_the_power_what_was_acknowledged_and_not_before(kind: str):
    def is_kept(how: str, seed: int) -> bool:
        try:
            found = simulate(lambda simulation: keep(simulation, kind, how, lies=True), seed=seed)
        except (BackendFailure, NoQuorum, ReplicaRegressed):  # Promises are gone, too.
            return False
        return bool(found)

    assert {is_kept("kill", seed) for seed in range(20)} == {True}
    assert False in {is_kept("cut_power", seed) for seed in range(20)}


@pytest.mark.parametrize("fault", ["fail_fsync", "full"])
def test_a_failing_disk_closes_the_store_and_acknowledges_nothing(fault: str):
    async def main(simulation: Simulation) -> None:
        host = simulation.host("server")
        with host:
            endpoint = Endpoint()
        async with endpoint:
            store = await endpoint.attach_master("s", Backend.SQLite, path="s.db")
            await (await store.put(1, 1)).applied()
            getattr(host.disk, fault)()
            receipt = await store.put(2, 2)
            with pytest.raises(Exception, match=r"s\.db"):
                await receipt.applied()

    simulate(main, seed=1)


def test_work_for_threads_is_done_in_a_step_and_threads_are_refused():
    async def main(simulation: Simulation) -> None:
        assert await trio.to_thread.run_sync(max, 1, 2) == 2
        assert simulation.now > 0
        with pytest.raises(ThreadRefused):
            trio.lowlevel.start_thread_soon(max, print)

    simulate(main, seed=1)


def test_a_run_that_does_not_end_says_where_it_waits():
    async def wait_in_vain() -> None:
        await trio.sleep_forever()

    async def main(simulation: Simulation) -> None:
        await wait_in_vain()

    with pytest.raises(TimeLimit, match="wait_in_vain"):
        simulate(main, seed=1)


def test_a_run_that_spins_ends():
    async def main(simulation: Simulation) -> None:
        while True:
            await trio.lowlevel.checkpoint()

    with pytest.raises(Spinning):
        simulate(main, seed=1)


def test_a_simulation_inside_of_another_is_refused():
    async def main(simulation: Simulation) -> None:
        simulate(main, seed=2)

    with pytest.raises(RuntimeError):
        simulate(main, seed=1)


def test_a_dial_that_is_given_up_on_the_way_never_becomes_a_connection():
    async def main(simulation: Simulation) -> int:
        accepted: list[trio.SocketStream] = []

        async def remember(stream: trio.SocketStream) -> None:
            accepted.append(stream)

        server = simulation.host("server")
        server.start(trio.serve_tcp, remember, PORT)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.0001) as scope:
            await dial(server)
        assert scope.cancelled_caught
        await elapse(1)
        return len(accepted)

    assert {run(seed, main).value for seed in range(10)} == {0}


def test_tasks_may_be_on_one_host_at_a_time_and_leave_it_in_any_order():
    async def main(simulation: Simulation) -> list[str]:
        host, where = simulation.host("a"), []

        async def visit(seconds: float) -> None:
            with host:
                await elapse(seconds)
                where.append(trio.socket.socket()._bare.process.stack.name)
            where.append(trio.socket.socket()._bare.process.stack.name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(visit, 1)
            nursery.start_soon(visit, 2)
        return where

    assert simulate(main, seed=1) == ["a", "main"] * 2
