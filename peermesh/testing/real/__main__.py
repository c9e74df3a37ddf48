"""``python -m peermesh.testing.real``: real faults, for as many rounds as wanted."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

import trio

from peermesh.testing.faults import Unsupported
from peermesh.testing.real.fleet import Violation
from peermesh.testing.real.scenarios import SCENARIOS, Run, Tally


def main(arguments: Sequence[str]) -> int:
    """Run scenarios; give 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m peermesh.testing.real",
        description="Break a mesh of three real processes, and look for what was lost.",
        epilog="\n".join(f"{name:8} {each.text}" for name, each in SCENARIOS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios, instead of all")
    parser.add_argument("--rounds", type=int, help="rounds of each, instead of a few")
    parser.add_argument("--seed", type=int, help="of what happens when; drawn if not given")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown or (options.rounds is not None and options.rounds < 1):
        parser.error(f"there is no {unknown[0]}" if unknown else "--rounds is at least 1")
    seed = Random().randrange(1 << 32) if options.seed is None else options.seed
    verdicts = [
        play(name, options.rounds or SCENARIOS[name].rounds_few, seed)
        for name in options.names or SCENARIOS
    ]
    return int("broken" in verdicts)


def play(name: str, rounds: int, seed: int) -> str:
    """Run one scenario, tell of it on stderr, and write its line of JSON; give the verdict."""
    began, tally, reason = time.monotonic(), Tally(), None

    def notice(tally: Tally) -> None:
        text = f"round {tally.rounds} of {rounds}, {tally.acknowledged:,} acknowledged"
        print(f"{name}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - it is a program

    with tempfile.TemporaryDirectory(prefix="peermesh-real-") as directory:
        run = Run(rounds, Random(f"{seed} {name}"), Path(directory), tally, notice)
        try:
            trio.run(SCENARIOS[name].run, run)
            verdict = "held"
        except Unsupported as error:
            verdict, reason = "skipped", str(error)
        except Violation as error:
            verdict, reason = "broken", str(error)
    seconds = round(time.monotonic() - began, 1)
    line = {"scenario": name, "verdict": verdict, "reason": reason, "seed": seed}
    print(json.dumps({**line, **asdict(tally), "seconds": seconds}), flush=True)  # noqa: T201 - it is a program
    return verdict


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
