"""Fault schedules as data: drawn, written, read and made small."""

from __future__ import annotations

from random import Random

import pytest
import trio

from peermesh.testing.faults import Delay, Direction, Partition
from peermesh.testing.simulation import (
    Happen,
    Mend,
    Options,
    Schedule,
    Simulation,
    Skew,
    Step,
    Verb,
    Worsen,
    draw,
    elapse,
    explain,
    read,
    run,
    smallest,
    write,
)
from peermesh.testing.simulation.shrinking import shrink

EVERYTHING: Schedule = (
    Step(0.0, Happen(Verb.KILL, "a")),
    Step(0.5, Worsen("a", "b", Delay(0.25, jitter=0.125), Direction.FORTH)),
    Step(1.25, Worsen("a", "b", Partition())),
    Step(2.0, Mend("a", "b")),
    Step(3.0, Skew("b", -60.0)),
    Step(4.0, Happen(Verb.FAIL_FSYNC, "b")),
)


def test_what_is_written_is_read_again():
    assert read(write(EVERYTHING)) == EVERYTHING
    for seed in range(100):
        drawn = draw(Random(seed), ["a", "b", "c"], count=20)
        assert read(write(drawn)) == drawn


def test_a_drawn_schedule_is_in_order_and_undoes_what_it_does():
    drawn = draw(Random(1), ["a", "b", "c"], count=50)
    times = [step.at for step in drawn]
    assert times == sorted(times)
    verbs = [step.act.verb for step in drawn if isinstance(step.act, Happen)]
    assert verbs.count(Verb.PAUSE) == verbs.count(Verb.RESUME) > 0
    assert verbs.count(Verb.KILL) + verbs.count(Verb.CUT_POWER) == verbs.count(Verb.RESTART) > 0


@pytest.mark.parametrize(
    "text", ["now kill a", "1 explode a", "1 kill", "1 worsen a b both open('x')", "1 skew a much"]
)
def test_what_is_no_schedule_is_refused_with_an_example(text: str):
    with pytest.raises(ValueError, match="no step of a schedule"):
        read(text)


def test_shrinking_leaves_only_what_is_needed():
    schedule = tuple(Step(float(at), Happen(Verb.KILL, f"h{at}")) for at in range(40))
    needed = {7.0, 23.0}
    runs = 0

    def is_failing(candidate: Schedule) -> bool:
        nonlocal runs
        runs += 1
        return needed <= {step.at for step in candidate}

    assert {step.at for step in shrink(schedule, is_failing)} == needed
    assert runs < 200


def test_shrinking_ends_with_its_runs():
    schedule = tuple(Step(float(at), Happen(Verb.KILL, "h")) for at in range(40))
    kept = shrink(schedule, lambda candidate: len(candidate) > 30, runs_max=3)
    assert 30 < len(kept) <= 40


class BothDown(Exception):
    """Two hosts were down at the same time."""


async def never_both_down(simulation: Simulation) -> None:
    hosts = [simulation.host("a"), simulation.host("b")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simulation.carry_out)
        for _ in range(400):
            await elapse(0.1)
            if not any(host.is_up for host in hosts):
                raise BothDown
        nursery.cancel_scope.cancel()


def test_a_failing_seed_comes_with_the_fewest_faults_and_a_line_that_replays_it():
    options = Options(faults=lambda chance: draw(chance, ["a", "b"], count=30, lasting=10))
    failed = next(
        result
        for seed in range(50)
        if isinstance((result := run(seed, never_both_down, options)).error, BothDown)
    )
    small = smallest(failed, never_both_down, options)
    assert len(small.schedule) < len(failed.schedule)
    assert len(small.schedule) == 2
    again = run(small.seed, never_both_down, Options(faults=read(write(small.schedule))))
    assert isinstance(again.error, BothDown)
    assert again.digest == small.digest
    notes = explain(small, never_both_down, options).__notes__
    assert notes[0] == (
        f"replay: simulate(never_both_down, seed={small.seed}, "
        f"options=Options(faults=read({write(small.schedule)!r})))"
    )
    assert not any("did not replay" in note for note in notes)


def test_a_run_that_does_not_replay_says_so():
    runs: list[int] = []

    async def main(simulation: Simulation) -> None:
        runs.append(len(runs))
        simulation.note(runs[-1])
        raise BothDown

    notes = explain(run(1, main), main, Options()).__notes__
    assert any("did not replay" in note for note in notes)


async def carry_out_everything(simulation: Simulation) -> None:
    for name in ("a", "b"):
        simulation.host(name).start(trio.sleep_forever)
    await simulation.carry_out(EVERYTHING)
    assert not simulation.host("a").is_up
    await simulation.heal()
    assert simulation.host("a").is_up
    assert simulation.host("b").skew_ns == 0
    assert simulation.now == pytest.approx(4)


def test_a_schedule_is_carried_out_in_time_and_undone():
    assert run(1, carry_out_everything).error is None
