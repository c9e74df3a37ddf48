"""``python -m tests.stores.group``: many seeds of the model, on all cores.

python -m tests.stores.group --seeds 100000 --state FILE      goes on where FILE says
python -m tests.stores.group --seed 4711                      one seed, with its traceback
python -m tests.stores.group --off two_is_enough --seeds 300  one rule off: the first that notices
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

CHUNK = 25
"""Seeds that a process runs before it reports: some seconds."""

FAILURES_SHOWN = 20


def run_chunk(first, count, off):
    """Run some seeds; gives failures by seed, and figures."""
    from tests.stores.group.product import load
    from tests.stores.group.rules import RULES

    changes = [change for rule in RULES if rule.switch == off for change in rule.changes]
    run_seed = load("tests.stores.group.world", changes).run_seed
    failures, figures = {}, Counter(seeds=count)
    for seed in range(first, first + count):
        failure, found = run_seed(seed)
        figures.update(found)
        if failure is not None:
            failures[seed] = failure
    return failures, figures


def parse(arguments):
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--state", type=Path, help="a file of what is done, to go on from")
    parser.add_argument("--seed", type=int, help="run this one, and raise what goes wrong")
    parser.add_argument("--off", help="a rule to switch off; stops at the first seed that notices")
    return parser.parse_args(arguments)


def sweep(options):
    """Run all chunks that are not done, and say what came of them."""
    failures, figures, begun = {}, Counter(), time.monotonic()
    done = set()
    if options.state is not None and options.state.exists():
        for line in options.state.read_text("utf-8").splitlines():
            entry = json.loads(line)
            done.add((entry["first"], entry["count"]))
            failures.update({int(seed): text for seed, text in entry["failures"].items()})
            figures.update(entry["figures"])
    end = options.first + options.seeds
    chunks = [(at, min(CHUNK, end - at)) for at in range(options.first, end, CHUNK)]
    todo = [chunk for chunk in chunks if chunk not in done]
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        tasks = [(chunk, pool.submit(run_chunk, *chunk, options.off)) for chunk in todo]
        for (first, count), task in tasks:
            found, more = task.result()
            failures.update(found)
            figures.update(more)
            if options.state is not None:
                entry = {"first": first, "count": count, "failures": found, "figures": more}
                with options.state.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
            if options.off and failures:
                pool.shutdown(cancel_futures=True)
                break
    return failures, figures, time.monotonic() - begun


def main(arguments=None):
    options = parse(arguments)
    if options.seed is not None:
        from tests.stores.group.world import World

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
