"""``python -m tests.mutation``: change the code in small ways (mutmut); tests have to notice.

Without options every mutant is tried, which takes two hours or more; ``--sample 40`` tries as many
of those that count, always the same. Survivors without a reason in ``survivors.toml`` are printed,
and make the code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.mutation.mutants import (
    ROOT,
    Mutant,
    Survivor,
    mutants_of,
    mutated_files,
    read_survivors,
)

FOLDER: Final = ROOT / "build" / "mutation"
"""A copy of the tree, and what mutmut knows of it: a run that was interrupted can go on there.
Samples have a copy of their own."""

PAGE: Final = ROOT / "docs" / "testing" / "mutation.md"
TABLE: Final = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.S)
TABLE_HEAD: Final = (
    "| file | mutants | noticed | of these by a time limit | survive with a reason | wording |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)
LEFT_OUT: Final = shutil.ignore_patterns(
    ".*_cache", ".git", ".venv*", ".hypothesis", "__pycache__", "*.egg-info", "build", "dist"
)
SURE: Final = {"killed", "segfault", "caught by type check"}
NOTICED: Final = SURE | {"timeout"}


def generate() -> list[Mutant]:
    """Have mutmut make all mutants, without running any."""
    from mutmut.mutation.file_mutation import mutate_file_contents  # an extra

    found: list[Mutant] = []
    with contextlib.chdir(ROOT):  # for its settings
        for file in mutated_files():
            made = mutate_file_contents(file, (ROOT / file).read_text(encoding="utf-8"))
            found += mutants_of(file, made.code, list(made.mutant_names))
    return found


def chosen(mutants: Sequence[Mutant], survivors: Sequence[Survivor], count: int) -> list[Mutant]:
    """Choose a sample of the mutants that have to be noticed.

    What a mutant changes decides whether it is chosen: so an edit changes little of the sample.
    """
    known = {each.change for each in survivors}
    counting = (each for each in mutants if not each.is_wording and each.change not in known)
    return sorted(counting, key=lambda each: sha256(repr(each.change).encode()).digest())[:count]


def try_all(
    folder: Path, names: Sequence[str], workers: int, *, is_resumed: bool
) -> dict[str, str]:
    """Try some mutants in a copy of the tree, or all; give what became of each.

    What survived an earlier run is tried again, since there may be a test for it now.
    """
    if not is_resumed:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT, dirs_exist_ok=True)
    known = results(folder) if is_resumed else {}
    # Which tests reach which function: of tests that are known mutmut would not look again.
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    command = ("run", "--max-children", str(workers))
    mutmut(folder, *command, *names)
    if again := [name for name, status in known.items() if status in ("survived", "no tests")]:
        mutmut(folder, *command, *again)
    return results(folder)


def results(folder: Path) -> dict[str, str]:
    """Ask mutmut what became of each mutant."""
    pairs = (line.strip().rpartition(": ") for line in mutmut(folder, "results", "--all", "true"))
    return {name: status for name, _, status in pairs if name}


def mutmut(folder: Path, *arguments: str) -> list[str]:
    """Run mutmut on the copy of the tree, and give the lines that it prints."""
    clean = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=folder,
        env={**clean, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"mutmut could not run:\n{done.stdout[-2000:]}")
    return done.stdout.splitlines()


def judge(
    mutants: Sequence[Mutant], statuses: dict[str, str], survivors: Sequence[Survivor]
) -> tuple[list[Mutant], str]:
    """Give the survivors without a reason, and the table of all that were tried."""
    known = {each.change for each in survivors}
    unnamed, counts = [], dict[str, Counter[str]]()
    for mutant in mutants:
        status = statuses.get(mutant.name, "not checked")
        if status in ("not checked", "skipped"):
            continue
        count = counts.setdefault(mutant.file, Counter())
        if mutant.is_wording:
            count["wording"] += 1
            continue
        count["mutants"] += 1
        if mutant.change in known and status not in SURE:  # The machine was busy.
            count["named"] += 1
        elif status in NOTICED:
            count["noticed"] += 1
            count["timeout"] += status == "timeout"
        else:
            unnamed.append(mutant)
    total: Counter[str] = sum(counts.values(), Counter())
    rows = [_row(f"`{file}`", count) for file, count in counts.items()]
    return unnamed, TABLE_HEAD + "".join([*rows, _row("all", total)])


def _row(name: str, count: Counter[str]) -> str:
    share = f" ({count['noticed'] / count['mutants']:.1%})" if count["mutants"] else ""
    cells = [
        name,
        f"{count['mutants']:,}",
        f"{count['noticed']:,}{share}",
        *(f"{count[each]:,}" for each in ("timeout", "named", "wording")),
    ]
    return f"| {' | '.join(cells)} |\n"


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
    mutants, survivors = generate(), read_survivors()
    names = list(options.names)
    if options.sample:
        names += [each.name for each in chosen(mutants, survivors, options.sample)]
    folder = FOLDER.with_name("mutation-sample") if options.sample else FOLDER
    statuses = try_all(folder, names, options.workers, is_resumed=options.resume)
    unnamed, table = judge(mutants, statuses, survivors)
    print(table, end="")
    noticed = {each.change for each in mutants if statuses.get(each.name) in SURE}
    for each in survivors:
        if each.change in noticed:
            print(f"\nnoticed now, so needs no reason: {each.change}")
    for mutant in unnamed:
        print(f"\n{statuses[mutant.name]}: {mutant.name}\n    {mutant.change.place}")
        print(f"    before: {mutant.change.before}\n    after:  {mutant.change.after}")
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(TABLE.sub(lambda _: table, text), encoding="utf-8")
    print(f"\n{len(unnamed)} survived without a reason")
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
