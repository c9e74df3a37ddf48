"""Trio's private names: what happens without them, and who else uses trio meanwhile."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from peermesh.testing.simulation import (
    Options,
    SchedulerUnavailable,
    Simulation,
    elapse,
    run,
    scheduling,
    simulate,
)


async def order(simulation: Simulation) -> list[int]:
    """Give the order in which eight tasks run that all may."""
    done: list[int] = []

    async def task(number: int) -> None:
        done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(task, number)
    return done


def test_the_seed_decides_in_which_order_tasks_run():
    orders = [simulate(order, seed=seed) for seed in range(20)]
    assert orders == [simulate(order, seed=seed) for seed in range(20)]
    assert len({tuple(order) for order in orders}) == 20


def test_a_trio_without_the_names_is_refused_and_time_is_simulated_if_that_is_enough(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(scheduling, "PROBLEM", "trio 99 has no _r")
    with pytest.raises(SchedulerUnavailable, match="trio 99"):
        simulate(order, seed=1)

    async def wait(simulation: Simulation) -> float:
        await elapse(500)
        return simulation.now

    assert simulate(wait, seed=1, options=Options(is_seeded=False)) == 500


def test_trio_is_left_as_it_was_found():
    before = vars(trio._core._run)["_r"]
    run(1, order)
    assert vars(trio._core._run)["_r"] is before


def test_the_trio_of_another_thread_goes_its_own_way():
    begun, ended = threading.Event(), threading.Event()

    async def real_work() -> None:
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        assert await trio.to_thread.run_sync(threading.get_ident) != threading.get_ident()
        begun.set()
        while not ended.is_set():
            await trio.lowlevel.checkpoint()

    thread = threading.Thread(target=trio.run, args=(real_work,))
    before = [run(seed, order).digest for seed in range(5)]
    thread.start()
    try:
        assert begun.wait(30)
        assert [run(seed, order).digest for seed in range(5)] == before
    finally:
        ended.set()
        thread.join(30)


def test_time_stands_while_somebody_waits_for_all_others_to_block():
    async def main(simulation: Simulation) -> float:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)
            await trio.testing.wait_all_tasks_blocked()
            stood.append(simulation.now)
        return simulation.now

    stood: list[float] = []
    assert simulate(main, seed=1) == 5
    assert stood == [0]
