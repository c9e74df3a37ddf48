"""``python -m benchmarks.against TREE NAME``: the same benchmark here and in an older checkout.

Rounds alternate between the two trees, so that what else the machine does meets both alike. Each
figure is a ratio, this tree's to the other's: of a rate more is better, of a time less is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final

HERE: Final = Path(__file__).parent.parent
ROUNDS: Final = 7

Figures = dict[tuple[str, str], float]
"""What one round found: by the names of the variant and of the figure."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against",
        description="Compare a benchmark with the one of an older checkout, round by round.",
        epilog="Make the checkout with: git worktree add ../older COMMIT",
    )
    parser.add_argument("tree", type=Path, metavar="TREE", help="the older checkout")
    parser.add_argument("name", metavar="NAME", help="a benchmark that both have, as pubsub")
    parser.add_argument(
        "--quick", action="store_true", help="shows that it works, measures nothing"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"(default: {ROUNDS})")
    parser.add_argument("--match", default="", metavar="TEXT", help="variants with TEXT in a name")
    options = parser.parse_args(arguments)
    if not (options.tree / "benchmarks").is_dir():
        parser.error(f"{options.tree} is no checkout of peermesh: it has no benchmarks")
    if options.rounds < 1:
        parser.error("--rounds has to be at least 1")
    return options


def run(tree: Path, name: str, match: str, *, quick: bool) -> Figures:
    """Run one round of a benchmark with the code of a tree; raises ``CalledProcessError``."""
    command = [sys.executable, "-m", "benchmarks", name, "--rounds", "1", "--json"]
    if quick:
        command.append("--quick")
    if match:
        command += ["--match", match]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    facts = json.loads(done.stdout.splitlines()[-1])
    return {
        (variant["name"], figure): value
        for variant in facts["variants"]
        for figure, value in variant["figures"].items()
        if value
    }


def main() -> int:
    """Run the rounds, and print the ratios."""
    options = parse()
    tree = options.tree.resolve()
    ratios: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        older, newer = (
            run(each, options.name, options.match, quick=options.quick) for each in (tree, HERE)
        )
        for each in older.keys() & newer.keys():
            ratios[each].append(newer[each] / older[each])
    for (variant, figure), found in sorted(ratios.items()):
        spread = f"{min(found):.2f}..{max(found):.2f}"
        print(f"{variant:<40} {figure:<16} {median(found):5.2f}  ({spread})")
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
