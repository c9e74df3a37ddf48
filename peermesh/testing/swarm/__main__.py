"""The command line: ``python -m peermesh.testing.swarm``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import monotonic

from peermesh.testing.swarm.drawing import draw
from peermesh.testing.swarm.page import write
from peermesh.testing.swarm.plan import Plan
from peermesh.testing.swarm.running import Report, run_plan
from peermesh.testing.swarm.shrinking import keep, smallest
from peermesh.testing.swarm.sweep import FAILURES_MAX, Totals, sweep
from wire.escaping import escape

COMMAND = "python -m peermesh.testing.swarm"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Run simulated swarms of endpoints through random faults, one for each seed.",
        epilog="The exit code is 1 if a seed failed. Each failure is printed with the line that "
        "replays it.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="processes (default: one for each core)"
    )
    parser.add_argument(
        "--state", type=Path, metavar="FILE", help="remember what is done, and go on from there"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="renew the figures of a page")
    parser.add_argument("--seed", type=int, help="run this one alone, and tell its story")
    parser.add_argument(
        "--keep", metavar="N,N,...", help="with --seed: only these of its faults; '' is none"
    )
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.jobs < 1:
        parser.error("--seeds and --jobs are at least 1")
    if options.keep is not None and options.seed is None:
        parser.error("--keep goes with --seed")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; give 1 if a seed failed."""
    options = parse(arguments)
    if options.seed is not None:
        return _run_one(options.seed, options.keep)
    begin = monotonic()

    def tell(totals: Totals) -> None:
        _show(totals, options.seeds, monotonic() - begin)

    totals = sweep(options.first, options.seeds, jobs=options.jobs, state=options.state, tell=tell)
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    _say(json.dumps({"first": options.first, **asdict(totals)}))
    for seed, failure in totals.failures[:FAILURES_MAX]:
        _say(f"{COMMAND} --seed {seed}  # {failure}")
    if options.write:
        write(options.write, options.first, totals)
    return int(bool(totals.failures))


def _show(totals: Totals, seeds: int, seconds: float) -> None:
    if sys.stderr.isatty():
        done = totals.seeds / seeds
        bar = "#" * round(30 * done)
        left = seconds / done - seconds
        failed = f", {len(totals.failures)} failed" if totals.failures else ""
        line = f"[{bar:30}] {totals.seeds}/{seeds} seeds{failed}, {left:.0f} s left"
        sys.stderr.write(f"\r\x1b[2K{line}")
        sys.stderr.flush()


def _say(line: str) -> None:
    sys.stdout.write(escape(f"{line}\n", kept="\n"))
    sys.stdout.flush()


def _run_one(seed: int, kept: str | None) -> int:
    plan = draw(Random(f"{seed}/plan"), seed)
    if kept is not None:
        plan = keep(plan, tuple(int(number) for number in kept.split(",") if number))
    report = run_plan(plan)
    _tell(plan, report)
    if not report.failure:
        return 0
    if kept is None:
        numbers = smallest(plan, lambda each: run_plan(each).kind == report.kind)
        _say(f"It takes {len(numbers)} of {len(plan.faults)} faults:")
        _say(f"{COMMAND} --seed {seed} --keep {','.join(map(str, numbers)) or repr('')}")
    return 1


def _tell(plan: Plan, report: Report) -> None:
    _say(f"edges: {', '.join(f'{edge.dialler}-{edge.acceptor}' for edge in plan.edges)}")
    for number, member in enumerate(plan.members):
        _say(f"member {number}: {member}{' (master)' if number == plan.master else ''}")
    if plan.groups is not None:
        _say(f"groups: {plan.groups}")
    for number, fault in enumerate(plan.faults):
        _say(f"fault {number}: {fault.begin:g} s to {fault.end:g} s: {fault.trouble}")
    for name, value in asdict(report).items():
        _say(f"{name}: {value}")


if __name__ == "__main__":
    sys.exit(main())
