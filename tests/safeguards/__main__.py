"""``python -m tests.safeguards``: switch off one safeguard after the other; tests have to notice.

Each is switched off in a copy of the tree, where the tests that guard it have to fail. Before that,
the same tests have to pass in the copy as it is. The code is 0 if every one was noticed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from peermesh.testing.time_limits import limit
from tests.safeguards.safeguard import ROOT, Safeguard, Stale
from tests.safeguards.table import SAFEGUARDS

T = TypeVar("T")
R = TypeVar("R")

PAGE = ROOT / "docs" / "testing" / "safeguards.md"
TABLE_HEAD = "| safeguard | without it | noticed by |\n| --- | --- | --- |\n"

SECONDS_MAX = 120
"""For each test of a safeguard, and longer on a slow machine: without it they may well wait for
ever, which is noticed too."""

LEFT_OUT = shutil.ignore_patterns(".*_cache", ".git", ".venv", "__pycache__", "*.egg-info")


class How(Enum):
    """How the suite took it."""

    NOTICED = "noticed"
    UNNOTICED = "NOT NOTICED"
    BROKEN = "BROKEN"
    """The tests could not be run at all, which says nothing."""


class Outcome(NamedTuple):
    """What became of one trial."""

    how: How
    by: str
    seconds: float


def run_tests(tree: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests in a copy of the tree; a run that never ends has the code 1, as a failure has."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE"]
    command += ["-p", "no:cacheprovider", f"--timeout={SECONDS_MAX // 2}", *tests]
    clean = {name: value for name, value in os.environ.items() if name != "CI"}
    most = limit(SECONDS_MAX * len(tests))
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env={**clean, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=most,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"FAILED a run that did not end in {most:.0f} s - "
    return done.returncode, done.stdout + done.stderr


def try_without(safeguard: Safeguard, tree: Path) -> Outcome:
    """Switch a safeguard off, run its tests, and switch it on again."""
    path = tree / safeguard.file
    before = path.read_text(encoding="utf-8")
    path.write_text(safeguard.without(), encoding="utf-8")
    began = time.monotonic()
    try:
        code, output = run_tests(tree, safeguard.tests)
    finally:
        path.write_text(before, encoding="utf-8")
    seconds = time.monotonic() - began
    if code == 0:
        return Outcome(How.UNNOTICED, ", ".join(safeguard.tests), seconds)
    failed = re.search(r"^FAILED (.+?)(?: - .*)?$", output, re.M)
    # A test that hangs has pytest-timeout end the whole run.
    hung = re.search(r"^\+* Timeout \+*|Timeout >", output, re.M)
    if failed is None and hung is None:
        return Outcome(How.BROKEN, output.strip().splitlines()[-1] if output else "", seconds)
    return Outcome(How.NOTICED, failed[1] if failed else "a test that hangs", seconds)


def in_words(by: str) -> str:
    """Say a test as a person would: where it is, and what it says."""
    path, _, name = by.removesuffix("::runTest").partition("::")
    words = name.split("[")[0].removeprefix("test_").replace("_", " ")
    return f"`{path.removeprefix('tests/')}`: {words}" if words else by


def write_page(outcomes: dict[str, Outcome]) -> None:
    """Renew the table at the end of the page; what was not tried now keeps what noticed it."""
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(TABLE_HEAD) + len(TABLE_HEAD)
    cells = (row.strip("| ").split(" | ") for row in text[start:].splitlines())
    known = {name: by for name, _, by in cells}
    rows = []
    for each in SAFEGUARDS:
        outcome = outcomes.get(each.name)
        by = known.get(each.name, "not tried") if outcome is None else in_words(outcome.by)
        rows.append(f"| {each.name} | {each.why} | {by} |\n")
    PAGE.write_text(text[:start] + "".join(rows), encoding="utf-8")


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.safeguards", description=__doc__)
    parser.add_argument("names", nargs="*", help="only safeguards with this in their name or file")
    parser.add_argument(
        "--write", action="store_true", help=f"renew {PAGE.name} if all were noticed"
    )
    parser.add_argument("--workers", type=int, default=1, help="safeguards at a time")
    options = parser.parse_args()
    chosen = [
        each
        for each in SAFEGUARDS
        if not options.names or any(word in each.name + each.file for word in options.names)
    ]
    try:
        for each in chosen:
            each.without()
    except Stale as error:
        print(error, file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="safeguards-") as folder:
        trees = [Path(folder) / f"tree{number}" for number in range(options.workers)]
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
        outcomes = try_all(chosen, Trees(trees))
    missed = [name for name, outcome in outcomes.items() if outcome.how is not How.NOTICED]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} were noticed")
    if options.write and not missed:
        write_page(outcomes)
    return 1 if missed else 0


def file_of(test: str) -> str:
    return test.partition("::")[0]


class Trees:
    """Copies of the tree, each for one run at a time."""

    def __init__(self, trees: Sequence[Path]) -> None:
        self._pool = ThreadPoolExecutor(len(trees))
        self._idle = SimpleQueue[Path]()
        for tree in trees:
            self._idle.put(tree)

    def map(self, run: Callable[[Path, T], R], items: Collection[T]) -> Iterator[tuple[T, R]]:
        """Run something with a tree for each item; give each with what came of it, in order."""

        def in_a_tree(item: T) -> R:
            tree = self._idle.get()
            try:
                return run(tree, item)
            finally:
                self._idle.put(tree)

        return zip(items, self._pool.map(in_a_tree, items), strict=True)


def try_all(chosen: Sequence[Safeguard], trees: Trees) -> dict[str, Outcome]:
    """Try each, and tell. Tests that fail with every safeguard on say nothing."""
    files: dict[str, list[str]] = {}
    for test in sorted({test for each in chosen for test in each.tests}):
        files.setdefault(file_of(test), []).append(test)
    failing = set()
    for tests, (code, output) in trees.map(run_tests, list(files.values())):
        if code:
            failing.add(file_of(tests[0]))
            print(f"with every safeguard on, {file_of(tests[0])} fails:\n{output}", file=sys.stderr)

    def attempt(tree: Path, safeguard: Safeguard) -> Outcome:
        for file in failing.intersection(map(file_of, safeguard.tests)):
            return Outcome(How.BROKEN, f"{file} fails with every safeguard on", 0)
        return try_without(safeguard, tree)

    outcomes: dict[str, Outcome] = {}
    for each, outcome in trees.map(attempt, chosen):
        outcomes[each.name] = outcome
        line = f"{outcome.how.value:11} {outcome.seconds:5.1f} s  {each.name}: {outcome.by}"
        print(line, flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
