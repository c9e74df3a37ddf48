"""``python -m tests.stores.group``: many seeds of the model, on all cores.

python -m tests.stores.group --seeds 100000 --state FILE      goes on where FILE says
python -m tests.stores.group --seed 4711                      one seed, with its traceback
python -m tests.stores.group --off two_is_enough --seeds 300  one rule off: the first that notices
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.stores.group.rules import RULES
from tests.stores.group.sweep import sweep
from tests.stores.group.world import World

FAILURES_SHOWN = 20


def parse(arguments):
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--state", type=Path, help="a file of what is done, to go on from")
    parser.add_argument("--seed", type=int, help="run this one, and raise what goes wrong")
    parser.add_argument(
        "--off",
        choices=[rule.switch for rule in RULES],
        help="a rule to switch off; stops at the first seed that notices",
    )
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    if options.seed is not None:
        World(options.seed).whole()
        return 0
    failures, figures, seconds = sweep(options)
    for seed, text in sorted(failures.items())[:FAILURES_SHOWN]:
        print(f"seed {seed}: {text[:300]}")
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(figures.items()))
    print(f"{len(failures)} seeds failed; {counts}; {seconds:.0f} s")
    return int(bool(failures) != bool(options.off))


if __name__ == "__main__":
    sys.exit(main())
