"""``python -m tests.jepsen``: real processes under every failure, until enough leaders fell.

python -m tests.jepsen --failures 500             in stretches, each with a group of its own
python -m tests.jepsen --fail-overs 500           until so many took the lead away
python -m tests.jepsen --failures 20 --seed 7     another order of failures
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import trio

from tests.jepsen.run import Found, run, tell

STRETCH = 20
"""Failures of one group: a history that is longer takes longer to check than to record."""


def stretches(failures: int, fail_overs: int | None, found: Found) -> Iterator[int]:
    """Give how many failures each group has, until what was ``found`` is as much as is wanted."""
    if fail_overs is None:
        for first in range(0, failures, STRETCH):
            yield min(STRETCH, failures - first)
    else:
        while found.fail_overs.total() < fail_overs:
            yield STRETCH


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--failures", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--fail-overs", type=int, help="go on until so many took the lead away")
    parser.add_argument("--seed", type=int, default=0, help="of the first stretch (default: 0)")
    options = parser.parse_args(arguments)
    found = Found()
    for number, count in enumerate(stretches(options.failures, options.fail_overs, found)):
        try:
            trio.run(run, count, options.seed + number, found)
        except BaseException:
            sys.stdout.write(f"seed {options.seed + number} failed\n")
            raise
        sys.stderr.write(
            f"\r{found.failures.total()} failures, {found.fail_overs.total()} fail-overs"
        )
    sys.stderr.write("\n")
    tell(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
