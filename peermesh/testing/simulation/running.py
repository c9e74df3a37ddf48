"""Runs simulations: one seed, one run, one result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Generic, TypeVar

import trio

from peermesh.testing.simulation.network import JITTER_SECONDS, LATENCY_SECONDS
from peermesh.testing.simulation.threads import collection_off, inline_threads
from peermesh.testing.simulation.trace import Trace
from peermesh.testing.simulation.world import MAIN, Simulation

T = TypeVar("T")

LIMIT_SECONDS: Final = 3_600.0
"""Virtual time after which a run has failed: nobody makes a test wait for an hour."""


class TimeLimit(Exception):  # a fact about a test
    """The main function was not done within the limit of virtual time."""


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """What became of one seed."""

    seed: int
    value: T | None
    """What the main function gave, if it ended well."""
    error: BaseException | None
    """What it raised otherwise."""
    trace: Trace
    virtual_seconds: float
    steps: int
    """Steps that tasks took."""
    digest: str
    """Equal for runs in which the same happened in the same order."""


def run(
    seed: int,
    main: Callable[[Simulation], Awaitable[T]],
    *,
    limit: float = LIMIT_SECONDS,
    latency: float = LATENCY_SECONDS,
    jitter: float = JITTER_SECONDS,
) -> Run[T]:
    """Run ``main(simulation)`` once; its error is part of the result."""
    simulation = Simulation(seed, latency=latency, jitter=jitter)
    value: T | None = None
    error: BaseException | None = None
    try:
        with (
            simulation.scheduler.installed(),
            inline_threads(Random(f"{seed}/threads")),
            collection_off(),
        ):
            value = trio.run(_root, simulation, main, limit, clock=simulation.clock)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        error = _plain(raised)
    scheduler = simulation.scheduler
    return Run(
        seed=seed,
        value=value,
        error=error,
        trace=simulation.trace,
        virtual_seconds=simulation.now,
        steps=scheduler.steps,
        digest=f"{simulation.trace.digest}{scheduler.digest:012x}",
    )


def simulate(main: Callable[[Simulation], Awaitable[T]], *, seed: int, **options: Any) -> T:
    """Run ``main(simulation)`` once; give its value, or raise its error with a note on it."""
    result = run(seed, main, **options)
    if result.error is not None:
        result.error.add_note(f"in a simulation with seed={seed}, digest {result.digest}")
        raise result.error
    return result.value  # type: ignore[return-value]  # there is a value where there is no error


async def _root(
    simulation: Simulation, main: Callable[[Simulation], Awaitable[T]], limit: float
) -> T:
    simulation.install()
    value: T
    with simulation.host(MAIN), trio.move_on_after(limit) as scope:
        async with trio.open_nursery() as nursery:
            simulation.nursery = nursery
            try:
                value = await main(simulation)
            finally:
                simulation.thaw()
                nursery.cancel_scope.cancel()
    if scope.cancelled_caught:
        raise TimeLimit(f"main was not done after {limit:g} s of virtual time")
    return value


def _plain(error: BaseException) -> BaseException:
    """Take off what trio wraps around a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, trio.TrioInternalError) and error.__cause__ is not None:
        return error.__cause__
    return error
