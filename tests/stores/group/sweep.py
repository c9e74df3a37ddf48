"""Runs many seeds of the model on all cores, and remembers what is done, so that it can go on."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

from peermesh.testing.swarm.sweep import worker_processes
from tests.stores.group.product import load
from tests.stores.group.rules import RULES

CHUNK = 25
"""Seeds that a process runs before it reports: some seconds."""

ROOT = Path(__file__).parents[3]
PLAYED = ("stores/group/*.py", "channels/*.py", "tests/stores/group/[!_t]*.py")
"""The code that seeds play with: what another one has shown says nothing of it."""


def code_digest():
    """Give a hash of the code that seeds play with."""
    files = sorted(file for pattern in PLAYED for file in ROOT.glob(pattern))
    return hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()[:16]


def run_chunk(first, count, off):
    """Run some seeds; gives failures by seed, and figures."""
    changes = [change for rule in RULES if rule.switch == off for change in rule.changes]
    run_seed = load("tests.stores.group.world", changes).run_seed
    failures, figures = {}, Counter(seeds=count)
    for seed in range(first, first + count):
        failure, found = run_seed(seed)
        figures.update(found)
        if failure is not None:
            failures[seed] = failure
    return failures, figures


def sweep(options):
    """Run all chunks that are not done, and say what came of them."""
    failures, figures, begun = {}, Counter(), time.monotonic()
    done, code, others = set(), code_digest(), 0
    if options.state is not None and options.state.exists():
        for line in options.state.read_text("utf-8").splitlines():
            entry = json.loads(line)
            if entry["off"] != options.off:
                continue
            if entry["code"] != code:
                others += entry["count"]
                continue
            done.add((entry["first"], entry["count"]))
            failures.update({int(seed): text for seed, text in entry["failures"].items()})
            figures.update(entry["figures"])
    if others:
        sys.stderr.write(f"{others:,} seeds were played with other code, and count no more\n")
    end = options.first + options.seeds
    chunks = [(at, min(CHUNK, end - at)) for at in range(options.first, end, CHUNK)]
    todo = [chunk for chunk in chunks if chunk not in done]
    with worker_processes(options.jobs) as pool:
        tasks = [(chunk, pool.submit(run_chunk, *chunk, options.off)) for chunk in todo]
        for (first, count), task in tasks:
            found, more = task.result()
            failures.update(found)
            figures.update(more)
            sys.stderr.write(f"\r{figures['seeds']:,} seeds, {len(failures)} failed")
            if options.state is not None:
                entry = {"code": code, "off": options.off, "first": first, "count": count}
                entry |= {"failures": found, "figures": more}
                with options.state.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")
            if options.off and failures:
                pool.shutdown(cancel_futures=True)
                break
    sys.stderr.write("\n")
    return failures, figures, time.monotonic() - begun
