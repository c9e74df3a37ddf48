"""Variants in rounds: run each, take the medians, and compare with the floor of the same round.

Absolute figures of a shared machine move by a tenth and more from minute to minute. So all variants
of a benchmark run once before any of them runs again, ratios are taken within a round, and medians
over the rounds. What others took of the machine meanwhile stands beside each figure.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from benchmarks.processes import ForeignLoad, RoleProcess, RunFailed

START_SECONDS: Final = 20
"""How long a process may take until it is ready: an import and a connection."""

RUN_SECONDS: Final = 100
"""How long a run may take. The slowest takes a few seconds on a quiet machine."""

PACKAGES: Final = {
    "redis-server": "redis-server",
    "etcd": "etcd-server",
    "mosquitto": "mosquitto",
    "java": "openjdk-17-jre-headless",
}
"""Debian's packages of the programs that variants need."""

QUICK_COUNT: Final = 200
"""Messages of a run that is only to show that it works."""

Facts = Mapping[str, Any]
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing to measure: which processes it takes, and what becomes of what they report."""

    name: str
    roles: Sequence[str]
    """``module:function`` each, in the order in which they start; each meets those before it."""
    measure: Callable[[Facts], Figures]
    """Turns all that the processes reported into figures, the main one first."""
    unit: str
    count: int
    size: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: str | None = None
    """A module without which it is left out."""
    program: str | None = None
    """A program without which it is left out."""
    start_seconds: int = START_SECONDS
    """How long each process may take until it is ready."""

    @property
    def missing(self) -> str | None:
        """Say why it cannot run here; ``None`` if it can."""
        if self.program is not None and shutil.which(self.program) is None:
            return f"{self.program} is not installed: apt install {PACKAGES[self.program]}"
        if self.needs is None or importlib.util.find_spec(self.needs) is not None:
            return None
        return f"{self.needs} is not installed: pip install 'peermesh[bench,spark]'"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that we want, as a ratio to another variant of the same round, or by itself."""

    variant: str
    against: str | None = None
    """The variant to divide by; ``None`` for a figure that stands for itself."""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def text(self) -> str:
        """Name what is compared."""
        return self.variant if self.against is None else f"{self.variant} / {self.against}"

    @property
    def wanted(self) -> str:
        """Say what would be good; empty where the comparison is only for information."""
        if self.at_least is not None:
            return f"at least {self.at_least:,g}"
        return "" if self.at_most is None else f"at most {self.at_most:,g}"

    def is_reached(self, value: float) -> bool | None:
        """Judge a value; ``None`` where there is nothing to judge."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Variants that belong together, and what is wanted of them."""

    name: str
    title: str
    variants: Sequence[Variant]
    goals: Sequence[Goal]


@dataclass(slots=True)
class Outcome:
    """What the rounds of one variant gave."""

    variant: Variant
    rounds: list[Figures | None] = field(default_factory=list)
    """``None`` for a round that failed, so that ratios still pair up."""
    foreign_cores: list[float] = field(default_factory=list)
    problem: str | None = None
    """Why it was left out, or what went wrong the last time."""

    def values(self, name: str) -> list[float]:
        """Give one figure of all rounds that worked."""
        return [figures[name] for figures in self.rounds if figures]

    @property
    def names(self) -> list[str]:
        """Name the figures, the main one first."""
        return next((list(figures) for figures in self.rounds if figures), [])

    def main(self, number: int) -> float | None:
        """Give the main figure of one round."""
        figures = self.rounds[number] if number < len(self.rounds) else None
        return next(iter(figures.values())) if figures else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A goal and what came of it."""

    goal: Goal
    values: list[float]

    @property
    def median(self) -> float:
        """Give the middle value."""
        return median(self.values)


@dataclass(frozen=True, slots=True)
class Result:
    """A whole benchmark, measured."""

    benchmark: Benchmark
    outcomes: list[Outcome]
    judgements: list[Judgement]


def run_benchmark(
    benchmark: Benchmark, rounds: int, *, quick: bool, match: str = "", say: Callable[[str], object]
) -> Result:
    """Run all variants whose name contains ``match``, round by round."""
    chosen = [variant for variant in benchmark.variants if match in variant.name]
    outcomes = [Outcome(variant, problem=variant.missing) for variant in chosen]
    for number in range(rounds):
        for outcome in outcomes:
            if outcome.variant.missing is None:
                say(f"{benchmark.name}, round {number + 1} of {rounds}: {outcome.variant.name}")
                _run_round(outcome, quick=quick)
    return Result(benchmark, outcomes, _judge(benchmark.goals, outcomes, rounds))


def _run_round(outcome: Outcome, *, quick: bool) -> None:
    load = ForeignLoad()
    try:
        outcome.rounds.append(run_once(outcome.variant, quick=quick))
    except RunFailed as error:
        outcome.rounds.append(None)
        outcome.problem = str(error)
        print(f"{outcome.variant.name}: {error}", file=sys.stderr)
        return
    cores = load.cores()
    if cores is not None:
        outcome.foreign_cores.append(cores)


def run_once(variant: Variant, *, quick: bool = False) -> Figures:
    """Start the processes of a variant, hear them out, and measure; raises ``RunFailed``."""
    task = {
        "count": min(variant.count, QUICK_COUNT) if quick else variant.count,
        "size": variant.size,
        "seconds_max": 2 * variant.start_seconds + RUN_SECONDS,
        "options": {**variant.options, "quick": quick},
    }
    facts: dict[str, Any] = dict(task)
    met: list[Facts] = []
    with ExitStack() as stack:
        processes: list[RoleProcess] = []
        for role in variant.roles:
            process = stack.enter_context(RoleProcess(role, {**task, "met": met}))
            processes.append(process)
            met.append(process.hear(variant.start_seconds))
        for process in processes:
            facts |= process.hear(RUN_SECONDS)
        # The one that was started last talks to those before it: it leaves first.
        taken = [process.dismiss()["cpu_seconds"] for process in reversed(processes)]
    facts["cpu_seconds"] = taken[::-1]
    return variant.measure(facts)


def _judge(goals: Sequence[Goal], outcomes: Sequence[Outcome], rounds: int) -> list[Judgement]:
    by_name = {outcome.variant.name: outcome for outcome in outcomes}
    judgements = []
    for goal in goals:
        values = [value for number in range(rounds) if (value := _value(goal, by_name, number))]
        if values:
            judgements.append(Judgement(goal, values))
    return judgements


def _value(goal: Goal, outcomes: Mapping[str, Outcome], number: int) -> float | None:
    """Give the value of one round; ``None`` unless all that it takes was measured in that round."""
    outcome = outcomes.get(goal.variant)
    value = outcome.main(number) if outcome else None
    if value is None or goal.against is None:
        return value
    floor = outcomes.get(goal.against)
    divisor = floor.main(number) if floor else None
    return value / divisor if divisor else None


# Measures that more than one benchmark uses.


def rate(facts: Facts) -> Figures:
    """Messages a second, from the first call to the last message; and what both sides worked."""
    seconds = (facts["ended_ns"] - facts["began_ns"]) / 1e9
    count = facts["taken"]
    assert count == facts["count"], f"{count} messages of {facts['count']} came"
    return {"per second": count / seconds, **work(facts, count)}


def alone(facts: Facts) -> Figures:
    """Rate of a process that works alone, and what it worked for one message, in microseconds."""
    seconds = (facts["ended_ns"] - facts["began_ns"]) / 1e9
    (taken,) = facts["cpu_seconds"]
    return {"per second": facts["taken"] / seconds, "cpu µs out": taken * 1e6 / facts["taken"]}


def rate_of_last(facts: Facts) -> Figures:
    """Rate, and what the process that asks worked for one, in microseconds."""
    return alone({**facts, "cpu_seconds": facts["cpu_seconds"][-1:]})


def work(facts: Facts, count: int) -> Figures:
    """Give the processor time of each process for one message, in microseconds."""
    reader, *between, writer = (seconds * 1e6 / count for seconds in facts["cpu_seconds"])
    figures = {"cpu µs out": writer, "cpu µs in": reader}
    return figures | ({"cpu µs between": between[0]} if between else {})


def round_trip(facts: Facts) -> Figures:
    """Give the middle and the slow end of all round trips, in microseconds."""
    trips = sorted(facts["trips_ns"])
    assert len(trips) == facts["count"], f"{len(trips)} round trips of {facts['count']} came"
    middle, slow = trips[len(trips) // 2], trips[len(trips) * 99 // 100]
    return {"p50 µs": middle / 1e3, "p99 µs": slow / 1e3, **work(facts, len(trips))}
