"""What counts as a mutant, and that the survivors with a reason are still those of the code.

``python -m tests.mutation`` does the rest.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.mutation import registry
from tests.mutation.__main__ import (
    PAGE,
    TABLE,
    chosen,
    drawn,
    has_functions,
    journal_of,
    judge,
    may_have,
    read_table,
    results,
    table_of,
)
from tests.mutation.mutants import (
    ROOT,
    Change,
    Mutant,
    Survivor,
    mutants_of,
    read_suites,
    read_survivors,
)
from tests.mutation.trial import Plan

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
    first, _, last = (each.digest for each in MUTANTS)
    statuses = dict.fromkeys((each.digest for each in MUTANTS), "survived")
    unnamed, counts = judge(MUTANTS, statuses, [])
    assert unnamed == [MUTANTS[0], MUTANTS[2]]
    assert "| all | 2 | 0 (0.0%) | 0 | 0 | 1 |" in table_of(counts)
    named = [Survivor(MUTANTS[2].change, "a reason")]
    statuses[first] = "limit"
    unnamed, counts = judge(MUTANTS, statuses, named)
    assert unnamed == []
    assert "| `house/door.py` | 2 | 1 (50.0%) | 1 | 1 | 1 |" in table_of(counts)
    statuses[last] = "limit"
    assert judge(MUTANTS, statuses, named)[1] == counts, "a busy machine notices nothing"
    statuses[first] = "no tests"
    assert judge(MUTANTS, statuses, named)[0] == [MUTANTS[0]]
    assert judge(MUTANTS, {}, named)[1] == {}, "what was not tried is in no row"


def test_a_table_is_read_as_it_was_written() -> None:
    _, counts = judge(MUTANTS, dict.fromkeys((each.digest for each in MUTANTS), "limit"), [])
    text = f"<!-- figures -->\n{table_of(counts)}<!-- end of figures -->"
    assert read_table(text) == {
        "house/door.py": {"mutants": 2, "noticed": 2, "limit": 2, "named": 0, "wording": 1}
    }


def test_a_journal_goes_on_by_what_a_mutant_changes_and_its_last_result_counts(tmp_path) -> None:
    lines = [("a", "survived"), ("b", "killed"), ("a", "killed")]
    text = "".join(json.dumps({"digest": a, "status": b}) + "\n" for a, b in lines)
    assert results(tmp_path) == {}
    journal_of(tmp_path).write_text(text, encoding="utf-8")
    assert results(tmp_path) == {"a": "killed", "b": "killed"}
    longer = MADE.replace("return True", "return bool(who)")
    assert MUTANTS[0].digest != next(mutants_of("house/door.py", longer, NAMES)).digest
    renamed = MADE.replace("mutmut_1", "mutmut_7")
    assert (
        MUTANTS[0].digest
        == next(mutants_of("house/door.py", renamed, [NAMES[0][:-1] + "7"])).digest
    )


def test_only_files_that_may_match_are_changed() -> None:
    for pattern in ("house.door.*", "house.*", "*", "house.door.x_a__mutmut_1", "hou?e.*"):
        assert may_have("house/door.py", [pattern])
    assert may_have("house/door.py", [])
    assert not may_have("house/door.py", ["house.doors.*", "garden.*"])


def test_a_mutant_takes_the_place_of_its_function_for_all_who_have_it() -> None:
    mutants: registry.MutantDict = {}

    class Counter:
        @classmethod
        @registry.register(mutants, is_classmethod=True)
        def next(cls, number: int = 0) -> int:
            return number + 1

        @classmethod
        def next__mutmut_orig(cls, number: int = 0) -> int:
            return number + 1

        @classmethod
        def next__mutmut_1(cls, number: int = 5) -> int:
            return number - 1

    mutants |= {"_mutmut_orig": Counter.next__mutmut_orig, "next__mutmut_1": Counter.next__mutmut_1}
    before = Counter.next
    assert before() == 1
    assert registry.functions()[f"{__name__}.next__mutmut_1"] is before.__func__
    registry.replace(f"{__name__}.next__mutmut_1")
    assert before() == Counter.next() == 4


def test_functions_are_seen_once_between_looks_and_work_as_before() -> None:
    class Base:
        def first(self, a: int, *, b: int = 2) -> tuple[int, int]:
            return a, b

    class Heir(Base):
        @registry.register({})
        def first(self, a: int, *, b: int = 3) -> tuple[int, int]:
            return super().first(a, b=b)

    @registry.register({})
    def second() -> None:
        """Do nothing."""

    watch = registry.Watch()
    assert [Heir().first(1), Heir().first(1, b=5)] == [(1, 3), (1, 5)]
    assert watch.look() == {Heir.first}
    second()
    assert watch.look() == {second}
    assert watch.look() == set()


TRIED = """
def both(a, b):
    return a and b
def both__mutmut_1(a, b):
    return a or b
def both__mutmut_2(a, b):
    return b and a
def both__mutmut_3(a, b):
    while a: pass
def both__mutmut_4(a, b):
    return [b] * 10**12 and a
def far():
    return 1
"""


def test_mutants_are_tried_until_a_test_notices_and_those_that_hang_end(tmp_path) -> None:
    """Have a tree of one module and one file of tests, and read the journal."""
    folder = tmp_path / "house"
    folder.mkdir()
    names = [f"both__mutmut_{number}" for number in range(1, 5)]
    (folder / "door.py").write_text(
        "from tests.mutation.registry import register\nmutants, others = {}, {}\n"
        + TRIED.replace("def both(", "@register(mutants)\ndef both(").replace(
            "def far(", "@register(others)\ndef far("
        )
        + "".join(f"mutants['{name}'] = {name}\n" for name in names)
        + "others['far__mutmut_1'] = both\n",
        encoding="utf-8",
    )
    (folder / "test_door.py").write_text(
        "from house.door import both\n"
        "def test_true(): assert both(True, True)\n"
        "def test_false(): assert not both(True, False)\n"
        "def test_left_out(): assert False\n",
        encoding="utf-8",
    )
    journal = tmp_path / "journal"
    plan: Plan = {
        "mutants": {f"house.door.{name}": name for name in [*names, "far__mutmut_1"]},
        "tests": [str(folder / "test_door.py")],
        "left_out": [f"{folder.name}/test_door.py::test_left_out"],
        "journal": str(journal),
        "workers": 2,
    }
    (tmp_path / "plan").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "conftest.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation.trial", "plan"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    entries = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    assert {entry["digest"]: entry["status"] for entry in entries} == {
        "both__mutmut_1": "killed",
        "both__mutmut_2": "survived",
        "both__mutmut_3": "limit",
        "both__mutmut_4": "killed",
        "far__mutmut_1": "no tests",
    }
    tests = {entry["digest"]: entry["test"] for entry in entries}
    assert tests["both__mutmut_1"] == "house/test_door.py::test_false"


def test_a_sample_is_always_the_same_and_has_only_what_has_to_be_noticed() -> None:
    many = [
        Mutant(f"m{n}", "f.py", Change("f.py f", str(n), ""), n % 2 == 0, str(n))
        for n in range(100)
    ]
    known = [Survivor(each.change, "a reason") for each in many[:50]]
    sample = chosen(many, known, 20)
    assert sample == chosen(many[::-1], known, 20)
    assert len({each.name for each in sample}) == 20
    assert all(int(each.name[1:]) > 50 and not each.is_wording for each in sample)
    assert len(chosen(many, known, 1_000)) == 25


def test_a_sample_is_of_a_few_files_always_the_same_and_one_of_each_suite_at_least() -> None:
    groups = [[f"house/{n}.py" for n in range(50)], ["garden/gate.py", "garden/wall.py"], []]
    files = drawn(groups, 8)
    assert len(set(files)) == len(files) == 8
    assert {file.partition("/")[0] for file in files} == {"house", "garden"}
    assert set(files) == set(drawn([files[::-1] for files in groups[::-1]], 8))
    fewer = [[file for file in files if file != "house/7.py"] for files in groups]
    assert len(set(files) & set(drawn(fewer, 8))) >= 7, "an edit changes little of the sample"
    assert [len(drawn(groups, count)) for count in (1, 2, 3, 100)] == [2, 2, 3, 52]


def test_a_sample_has_no_file_that_could_have_no_mutant() -> None:
    assert has_functions("tests/mutation/mutants.py")
    assert not has_functions("stores/group/__init__.py")


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
    files = [file for suite in read_suites() for file in suite.files]
    assert set(files) >= {row.split("`")[1] for row in rows}
    _, _, count, noticed, *_ = (cell.strip().replace(",", "") for cell in total.split("|"))
    assert int(noticed.partition(" ")[0]) >= 0.95 * int(count)


def test_a_file_is_of_one_suite_and_its_tests_are_there() -> None:
    suites = read_suites()
    files = [file for suite in suites for file in suite.files]
    assert len(set(files)) == len(files)
    for suite in suites:
        assert all((ROOT / each.partition("::")[0]).exists() for each in suite.tests)
        assert all((ROOT / each.partition("::")[0]).exists() for each in suite.left_out)


def test_the_command_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--sample" in done.stdout
