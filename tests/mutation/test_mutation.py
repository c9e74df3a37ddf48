"""What counts as a mutant, and that the survivors with a reason are still those of the code.

``python -m tests.mutation`` does the rest.
"""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.mutation.__main__ import PAGE, TABLE, chosen, judge
from tests.mutation.mutants import (
    ROOT,
    Change,
    Mutant,
    Survivor,
    mutants_of,
    mutated_files,
    read_survivors,
)

MADE = """
class Door:
    def xǁDoorǁopen__mutmut_orig(self, who: str) -> bool:
        if who == "ann":
            raise ValueError(f"{who} is not here: try again" " later")
        return True

    def xǁDoorǁopen__mutmut_1(self, who: str) -> bool:
        if who != "ann":
            raise ValueError(f"{who} is not here: try again" " later")
        return True

    def xǁDoorǁopen__mutmut_2(self, who: str) -> bool:
        if who == "ann":
            raise ValueError(f"{who} is not here: try again" "XX laterXX")
        return True

    def xǁDoorǁopen__mutmut_3(self, who: str) -> bool:
        if who == "ANN":
            raise ValueError(f"{who} is not here: try again" " later")
        return True
"""
NAMES = [f"xǁDoorǁopen__mutmut_{number}" for number in (1, 2, 3)]
MUTANTS = list(mutants_of("house/door.py", MADE, NAMES))
SURVIVORS = read_survivors()


def test_a_mutant_is_known_by_what_it_changes() -> None:
    first, _, last = MUTANTS
    place = "house/door.py Door.open"
    assert first.name == "house.door.xǁDoorǁopen__mutmut_1"
    assert first.change == Change(place, "if who == 'ann':", "if who != 'ann':")
    assert last.change == Change(place, "if who == 'ann':", "if who == 'ANN':")


def test_the_words_of_a_sentence_do_not_count_and_other_texts_do() -> None:
    assert [each.is_wording for each in MUTANTS] == [False, True, False]


def test_who_survives_needs_a_reason() -> None:
    statuses = dict.fromkeys((each.name for each in MUTANTS), "survived")
    unnamed, table = judge(MUTANTS, statuses, [])
    assert unnamed == [MUTANTS[0], MUTANTS[2]]
    assert "| all | 2 | 0 (0.0%) | 0 | 0 | 1 |" in table
    named = [Survivor(MUTANTS[2].change, "a reason")]
    statuses[MUTANTS[0].name] = "timeout"
    unnamed, table = judge(MUTANTS, statuses, named)
    assert unnamed == []
    assert "| `house/door.py` | 2 | 1 (50.0%) | 1 | 1 | 1 |" in table
    statuses[MUTANTS[2].name] = "timeout"
    assert judge(MUTANTS, statuses, named)[1] == table, "a busy machine notices nothing"
    statuses[MUTANTS[0].name] = "no tests"
    assert judge(MUTANTS, statuses, named)[0] == [MUTANTS[0]]
    assert judge(MUTANTS, {}, named)[1].count("\n") == 3, "what was not tried is in no row"


def test_a_sample_is_always_the_same_and_has_only_what_has_to_be_noticed() -> None:
    many = [
        Mutant(f"m{n}", "f.py", Change("f.py f", str(n), ""), is_wording=n % 2 == 0)
        for n in range(100)
    ]
    known = [Survivor(each.change, "a reason") for each in many[:50]]
    sample = chosen(many, known, 20)
    assert sample == chosen(many[::-1], known, 20)
    assert len({each.name for each in sample}) == 20
    assert all(int(each.name[1:]) > 50 and not each.is_wording for each in sample)
    assert len(chosen(many, known, 1_000)) == 25


@pytest.mark.parametrize("survivor", SURVIVORS, ids=lambda each: each.change.place)
def test_a_survivor_is_still_one_of_the_code(survivor: Survivor) -> None:
    file, _, name = survivor.change.place.partition(" ")
    found = [
        node
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == name.rpartition(".")[2]
    ]
    lines = [" ; ".join(map(str.strip, ast.unparse(node).splitlines())) for node in found]
    assert any(survivor.change.before in line for line in lines), "the code went on"
    assert survivor.reason


def test_no_survivor_is_named_twice() -> None:
    assert len({each.change for each in SURVIVORS}) == len(SURVIVORS)


def test_the_page_has_the_figures_of_every_file_and_nearly_all_is_noticed() -> None:
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert table is not None
    *rows, total = table[0].splitlines()[2:]
    assert set(mutated_files()) >= {row.split("`")[1] for row in rows}
    _, _, count, noticed, *_ = (cell.strip().replace(",", "") for cell in total.split("|"))
    assert int(noticed.partition(" ")[0]) >= 0.95 * int(count)


def test_the_command_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--sample" in done.stdout
