"""``python -m tests.jepsen``: real processes under every failure, until enough leaders fell.

python -m tests.jepsen --failures 500             in stretches, each with a group of its own
python -m tests.jepsen --failures 20 --seed 7     another order of failures
"""

from __future__ import annotations

import argparse
import sys

import trio

from tests.jepsen.run import Found, run, tell

STRETCH = 20
"""Failures of one group: a history that is longer takes longer to check than to record."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--failures", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the first stretch (default: 0)")
    options = parser.parse_args(arguments)
    found = Found()
    for number, first in enumerate(range(0, options.failures, STRETCH)):
        count = min(STRETCH, options.failures - first)
        try:
            trio.run(run, count, options.seed + number, found)
        except BaseException:
            sys.stdout.write(f"seed {options.seed + number} failed\n")
            raise
        sys.stderr.write(f"\r{first + count} of {options.failures} failures")
    sys.stderr.write("\n")
    tell(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
