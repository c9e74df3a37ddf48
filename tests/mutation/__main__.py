"""``python -m tests.mutation``: change the code in small ways (mutmut); tests have to notice.

Without options every mutant is tried; ``--sample 40`` tries as many of those that count, of a few
files, always the same. Survivors without a reason in ``survivors.toml`` are printed, and make the
code 1.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Final

from tests.mutation.mutants import (
    ROOT,
    Mutant,
    Suite,
    Survivor,
    module_of,
    mutants_of,
    read_suites,
    read_survivors,
)
from tests.mutation.trial import Plan

FOLDER: Final = ROOT / "build" / "mutation"
"""A copy of the tree, and the journal of what was tried, with which a run can go on. Samples have
one of their own."""

PAGE: Final = ROOT / "docs" / "testing" / "mutation.md"
SAMPLE_FILES: Final = 6
"""How many files a sample is drawn of: to make all mutants of all files takes minutes."""

TABLE: Final = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.S)
TABLE_HEAD: Final = (
    "| file | mutants | noticed | of these by a limit | survive with a reason | wording |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)
COLUMNS: Final = ("mutants", "noticed", "limit", "named", "wording")
LEFT_OUT: Final = shutil.ignore_patterns(
    ".*_cache", ".git", ".venv*", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist"
)
SWITCH: Final = (
    "from mutmut.mutation.trampoline import wrap_in_trampoline as _mutmut_mutated, MutantDict",
    "from tests.mutation.registry import MutantDict, register as _mutmut_mutated",
)
"""What mutmut has its files import, and what they import here."""


def generate(files: Sequence[str]) -> tuple[list[Mutant], dict[str, str]]:
    """Have mutmut make all mutants of some files; gives these, and the files that have them."""
    from mutmut.mutation.file_mutation import mutate_file_contents  # an extra

    found, codes = list[Mutant](), dict[str, str]()
    with contextlib.chdir(ROOT):  # for its settings
        for file in files:
            made = mutate_file_contents(file, (ROOT / file).read_text(encoding="utf-8"))
            found += mutants_of(file, made.code, list(made.mutant_names))
            codes[file] = made.code.replace(*SWITCH)
    return found, codes


def may_have(file: str, patterns: Sequence[str]) -> bool:
    """Say whether names of a file's mutants may match; without patterns they do."""
    module = module_of(file) + "."
    begins = ("".join(takewhile(lambda letter: letter not in "*?[", each)) for each in patterns)
    return not patterns or any(
        module.startswith(begin) or begin.startswith(module) for begin in begins
    )


def drawn(groups: Iterable[Iterable[str]], count: int) -> list[str]:
    """Draw files by their names: the first of each group at least, then of all together."""
    ordered = [sorted(files, key=_lot) for files in groups]
    firsts = [file for files in ordered for file in files[:1]]
    others = (file for files in ordered for file in files[1:])
    return firsts + sorted(others, key=_lot)[: max(0, count - len(firsts))]


def _lot(drawn_from: object) -> bytes:
    """Give what decides whether something is drawn: no edit of anything else changes it."""
    return sha256(repr(drawn_from).encode()).digest()


def has_functions(file: str) -> bool:
    """Say whether there is anything in a file that could have a mutant."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return any(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in ast.walk(tree))


def chosen(mutants: Sequence[Mutant], survivors: Sequence[Survivor], count: int) -> list[Mutant]:
    """Choose a sample of the mutants that have to be noticed.

    What a mutant changes decides whether it is chosen: so an edit changes little of the sample.
    """
    known = {each.change for each in survivors}
    counting = (each for each in mutants if not each.is_wording and each.change not in known)
    return sorted(counting, key=lambda each: _lot(each.change))[:count]


def try_all(
    folder: Path, mutants: Sequence[Mutant], codes: Mapping[str, str], workers: int
) -> None:
    """Try some mutants in a copy of the tree that has them."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    for file, code in codes.items():
        (tree / file).write_text(code, encoding="utf-8")
    for suite in read_suites():
        if mine := [each for each in mutants if each.file in suite.files]:
            try_suite(folder, suite, mine, workers)


def try_suite(folder: Path, suite: Suite, mutants: Sequence[Mutant], workers: int) -> None:
    """Try mutants with the tests of their suite."""
    plan: Plan = {
        "mutants": {each.name: each.digest for each in mutants},
        "tests": list(suite.tests),
        "left_out": list(suite.left_out),
        "journal": str(journal_of(folder)),
        "workers": workers,
    }
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation.trial", str(folder / "plan.json")],
        cwd=folder / "tree",
        env={name: value for name, value in os.environ.items() if name != "CI"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the tests could not run:\n{done.stdout[-2000:]}")


def journal_of(folder: Path) -> Path:
    """Give the file that has a line for each mutant that was tried."""
    return folder / "journal.jsonl"


def results(folder: Path) -> dict[str, str]:
    """Give what became of each mutant in the end, by its digest."""
    if not journal_of(folder).exists():
        return {}
    lines = journal_of(folder).read_text(encoding="utf-8").splitlines()
    return {entry["digest"]: entry["status"] for entry in map(json.loads, lines)}


def judge(
    mutants: Sequence[Mutant], statuses: Mapping[str, str], survivors: Sequence[Survivor]
) -> tuple[list[Mutant], dict[str, Counter[str]]]:
    """Give the survivors without a reason, and the figures of each file that was tried."""
    known = {each.change for each in survivors}
    unnamed, counts = [], dict[str, Counter[str]]()
    for mutant in mutants:
        status = statuses.get(mutant.digest)
        if status is None:
            continue
        count = counts.setdefault(mutant.file, Counter())
        if mutant.is_wording:
            count["wording"] += 1
            continue
        count["mutants"] += 1
        if mutant.change in known and status != "killed":  # The machine was busy.
            count["named"] += 1
        elif status in ("killed", "limit"):
            count["noticed"] += 1
            count["limit"] += status == "limit"
        else:
            unnamed.append(mutant)
    return unnamed, counts


def table_of(counts: Mapping[str, Counter[str]]) -> str:
    """Write the figures of files, and their sum."""
    total: Counter[str] = sum(counts.values(), Counter())
    rows = [_row(f"`{file}`", count) for file, count in sorted(counts.items())]
    return TABLE_HEAD + "".join([*rows, _row("all", total)])


def read_table(text: str) -> dict[str, Counter[str]]:
    """Read the figures of files from a page."""
    table = TABLE.search(text)
    assert table is not None, "the page has a table"
    counts = {}
    for row in table[0].splitlines()[2:-1]:
        _, name, *cells, _ = (cell.strip().replace(",", "") for cell in row.split("|"))
        numbers = (int(cell.partition(" ")[0]) for cell in cells)
        counts[name.strip("`")] = Counter(dict(zip(COLUMNS, numbers, strict=True)))
    return counts


def _row(name: str, count: Counter[str]) -> str:
    numbers = {each: f"{count[each]:,}" for each in COLUMNS}
    if count["mutants"]:
        numbers["noticed"] += f" ({count['noticed'] / count['mutants']:.1%})"
    return f"| {' | '.join([name, *numbers.values()])} |\n"


def write_table(mutants: Sequence[Mutant], statuses: Mapping[str, str]) -> None:
    """Renew the rows of files of which every mutant that counts was tried."""
    text = PAGE.read_text(encoding="utf-8")
    open_files = {
        each.file for each in mutants if not each.is_wording and each.digest not in statuses
    }
    _, counts = judge(mutants, statuses, read_survivors())
    renewed = {file: count for file, count in counts.items() if file not in open_files}
    table = table_of(read_table(text) | renewed)
    PAGE.write_text(TABLE.sub(lambda _: table, text), encoding="utf-8")


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("names", nargs="*", help="patterns of mutmut's names: 'handshake.roles.*'")
    parser.add_argument("--sample", type=int, metavar="N", help="try N of them, always the same")
    parser.add_argument("--workers", type=int, default=1, help="mutants at a time")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    parser.add_argument("--write", action="store_true", help=f"renew the table in {PAGE.name}")
    options = parser.parse_args()
    if importlib.util.find_spec("mutmut") is None:
        print("this needs mutmut: pip install 'peermesh[mutation]'")
        return 3
    suites = [each for each in read_suites() if each.is_complete or options.names]
    groups = [[file for file in each.files if may_have(file, options.names)] for each in suites]
    if options.sample:
        groups = [drawn((filter(has_functions, files) for files in groups), SAMPLE_FILES)]
    made, codes = generate([file for files in groups for file in files])
    survivors = read_survivors()
    mutants = [
        each
        for each in made
        if not options.names or any(fnmatchcase(each.name, name) for name in options.names)
    ]
    if options.sample:
        mutants = chosen(mutants, survivors, options.sample)
    folder = FOLDER.with_name("mutation-sample") if options.sample else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if not options.resume:
        journal_of(folder).unlink(missing_ok=True)
    # What survived is tried again, since there may be a test for it now.
    known = results(folder)
    todo = [each for each in mutants if known.get(each.digest) not in ("killed", "limit")]
    counting = [each for each in todo if not each.is_wording]
    try_all(folder, counting, codes, options.workers)
    statuses = results(folder) | {each.digest: "wording" for each in made if each.is_wording}
    unnamed, counts = judge(mutants, statuses, survivors)
    print(table_of(counts), end="")
    noticed = {each.change for each in mutants if statuses.get(each.digest) == "killed"}
    for survivor in survivors:
        if survivor.change in noticed:
            print(f"\nnoticed now, so needs no reason: {survivor.change}")
    for mutant in unnamed:
        print(f"\n{statuses[mutant.digest]}: {mutant.name}\n    {mutant.change.place}")
        print(f"    before: {mutant.change.before}\n    after:  {mutant.change.after}")
    if options.write:
        write_table(made, statuses)
    print(f"\n{len(unnamed)} survived without a reason")
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
