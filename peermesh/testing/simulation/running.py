"""Runs simulations: one seed, one run, one result; and says how to run a failed one again."""

from __future__ import annotations

import os
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final, Generic, TypeVar

import trio

from peermesh.testing.simulation.network import JITTER_SECONDS, LATENCY_SECONDS
from peermesh.testing.simulation.schedule import Schedule, write
from peermesh.testing.simulation.scheduling import STEPS_MAX, Spinning
from peermesh.testing.simulation.shrinking import shrink
from peermesh.testing.simulation.threads import collection_off, inline_threads
from peermesh.testing.simulation.trace import Trace
from peermesh.testing.simulation.world import MAIN, Simulation

T = TypeVar("T")

Main = Callable[[Simulation], Awaitable[T]]

Faults = Schedule | Callable[[Random], Schedule]
"""A schedule of faults, or what draws one."""

LIMIT_SECONDS: Final = 600.0
"""Virtual time after which a run has failed. Idle endpoints make it some seconds of real time."""

LINES_SHOWN: Final = 30
"""The end of the trace that is shown with an error."""


class TimeLimit(Exception):  # a fact about a test
    """The main function was not done within the limit of virtual time."""


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for all seeds of a test."""

    faults: Faults = ()
    """The schedule that ``simulation.carry_out()`` lets happen; drawn anew for each seed."""
    limit: float = LIMIT_SECONDS
    latency: float = LATENCY_SECONDS
    jitter: float = JITTER_SECONDS
    is_seeded: bool = True
    """False does without seeded scheduling, where this trio does not allow it."""

    def schedule(self, seed: int) -> Schedule:
        """Give the faults of a seed."""
        if isinstance(self.faults, tuple):
            return self.faults
        return self.faults(Random(f"{seed}/faults"))


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """What became of one seed."""

    seed: int
    value: T | None
    """What the main function gave, if it ended well."""
    error: BaseException | None
    """What it raised otherwise."""
    schedule: Schedule
    trace: Trace
    virtual_seconds: float
    steps: int
    """Steps that tasks took."""
    digest: str
    """Equal for runs in which the same happened in the same order, and the same bytes were sent."""


def run(seed: int, main: Main[T], options: Options = Options()) -> Run[T]:
    """Run ``main(simulation)`` once; its error is part of the result."""
    simulation = Simulation(
        seed, schedule=options.schedule(seed), latency=options.latency, jitter=options.jitter
    )
    value: T | None = None
    error: BaseException | None = None
    try:
        with (
            simulation.scheduler.installed(is_needed=options.is_seeded),
            inline_threads(Random(f"{seed}/threads")),
            collection_off(),
        ):
            start = partial(trio.run, clock=simulation.clock)
            here = simulation.host(MAIN).process.context()
            value = here.run(start, _root, simulation, main, options.limit)
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        error = _plain(raised)
    scheduler = simulation.scheduler
    return Run(
        seed=seed,
        value=value,
        error=error,
        schedule=simulation.schedule,
        trace=simulation.trace,
        virtual_seconds=simulation.now,
        steps=scheduler.steps,
        digest=f"{simulation.trace.digest}{scheduler.digest:012x}{simulation.network.checksum:08x}",
    )


def simulate(main: Main[T], *, seed: int, options: Options = Options()) -> T:
    """Run ``main(simulation)`` once; give its value, or raise its error.

    A failure is made small first: steps of its fault schedule that are not needed for it are left
    out. The notes of the error say how to run the rest again.
    """
    result = run(seed, main, options)
    if result.error is None:
        return result.value  # type: ignore[return-value]  # there is a value where there is no error
    raise explain(smallest(result, main, options), main, options)


def smallest(failed: Run[T], main: Main[T], options: Options) -> Run[T]:
    """Give a failed run with as few faults as still make it fail with an error of the same kind."""
    found = failed

    def is_failing(schedule: Schedule) -> bool:
        nonlocal found
        result = run(failed.seed, main, replace(options, faults=schedule))
        is_same = type(result.error) is type(failed.error)
        if is_same:
            found = result
        return is_same

    shrink(failed.schedule, is_failing)
    return found


def explain(
    failed: Run[T], main: Main[T], options: Options, *, replay: str | None = None
) -> BaseException:
    """Give the error of a failed run with notes: how to replay it, and what happened last."""
    error = failed.error
    assert error is not None
    if replay is None:
        replay = f"simulate({getattr(main, '__name__', 'main')}, seed={failed.seed}"
        if options.faults:
            replay += f", options=Options(faults=read({write(failed.schedule)!r}))"
        replay += ")"
    error.add_note(f"replay: {replay}")
    again = run(failed.seed, main, replace(options, faults=failed.schedule))
    if again.digest != failed.digest:
        error.add_note(
            "it did not replay just now: something in the test is not drawn from the seed, as is "
            "the order of a set of strings, the time of day, or a module's own random source"
        )
    error.add_note(
        f"after {failed.virtual_seconds:.6f} s of virtual time, digest {failed.digest}:\n"
        + "\n".join(failed.trace.lines(LINES_SHOWN))
    )
    return error


async def _root(simulation: Simulation, main: Main[T], limit: float) -> T:
    simulation.install()
    value: T
    where = ""
    scheduler = simulation.scheduler
    with trio.move_on_after(limit) as scope:
        scheduler.on_spinning = scope.cancel
        async with trio.open_nursery() as nursery:
            simulation.nursery = nursery
            try:
                value = await main(simulation)
            except BaseException as error:
                where = _place(error)
                raise
            finally:
                simulation.thaw()
                nursery.cancel_scope.cancel()
    simulation.clock.is_over = True
    if scheduler.is_spinning:
        raise Spinning(f"no task waits for time: {STEPS_MAX} batches ran at once; main {where}")
    if scope.cancelled_caught:
        raise TimeLimit(f"main was not done after {limit:g} s of virtual time; it waits {where}")
    return value


def _place(error: BaseException) -> str:
    """Say where a task waited that was cancelled: its innermost line that is not trio's."""
    frames = list(traceback.extract_tb(error.__traceback__))
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        frames += traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}trio{os.sep}" not in frame.filename]
    return "in " + ", in ".join(f"{frame.name} (line {frame.lineno})" for frame in ours[1:])


def _plain(error: BaseException) -> BaseException:
    """Take off what trio wraps around a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, trio.TrioInternalError) and error.__cause__ is not None:
        return error.__cause__
    return error
