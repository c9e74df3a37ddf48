"""The table of safeguards fits the code; ``python -m tests.safeguards`` does the rest."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.safeguards.__main__ import PAGE, How, try_without
from tests.safeguards.safeguard import ROOT, Safeguard, Stale
from tests.safeguards.table import SAFEGUARDS

ROWS = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]


def test_a_safeguard_can_be_switched_off_and_the_rest_is_still_code():
    for safeguard in SAFEGUARDS:
        compile(safeguard.without(), f"{safeguard.file} without: {safeguard.name}", "exec")
    assert not [each.name for each in SAFEGUARDS if each.replacement == each.text]


def test_the_tests_of_a_safeguard_exist():
    named = {test.partition("::")[0] for safeguard in SAFEGUARDS for test in safeguard.tests}
    assert not [file for file in named if not (ROOT / file).is_file()]


def test_a_safeguard_is_on_the_page_with_what_noticed_it():
    found = {tuple(row.removeprefix("| ").split(" | ")[:2]): row for row in ROWS}
    missing = [each.name for each in SAFEGUARDS if (each.name, each.why) not in found]
    assert not missing, "python -m tests.safeguards writes the page"
    seen = re.compile(r"\.py`: |hangs|did not end")
    assert not [row for row in ROWS[2:] if not seen.search(row)]


def test_names_are_unique_and_the_page_has_no_others():
    names = {safeguard.name for safeguard in SAFEGUARDS}
    assert len(names) == len(SAFEGUARDS)
    shown = [row.split(" | ")[0].removeprefix("| ") for row in ROWS[2:]]
    assert sorted(shown) == sorted(names)


@pytest.mark.parametrize("text", ["nowhere in this file", "a"])
def test_a_text_that_is_not_there_exactly_once_is_stale(text):
    stale = replace(SAFEGUARDS[0], text=text)
    with pytest.raises(Stale, match="not once"):
        stale.without()


def tiny(tree, replacement: str) -> Safeguard:
    (tree / "wire").mkdir()
    (tree / "wire/framing.py").write_text("value = 1\n")
    test = "import pathlib\ndef test_it():\n    assert pathlib.Path('wire/framing.py').read_text()"
    (tree / "test_tiny.py").write_text(f"{test}.count('self.ttl - 1,))') == 1\n")
    known = next(each for each in SAFEGUARDS if each.name.startswith("TTL: one less"))
    return replace(known, replacement=replacement, tests=("test_tiny.py",))


@pytest.mark.parametrize(
    ("replacement", "how"),
    [("bytes((self.ttl,))", How.NOTICED), ("bytes(( self.ttl - 1,))", How.UNNOTICED)],
)
def test_a_trial_says_whether_it_was_noticed_and_leaves_the_tree_as_it_was(
    tmp_path, replacement, how
):
    outcome = try_without(tiny(tmp_path, replacement), tmp_path)
    assert outcome.how is how
    assert (tmp_path / "wire/framing.py").read_text() == "value = 1\n"


def test_tests_that_cannot_run_notice_nothing(tmp_path):
    safeguard = replace(tiny(tmp_path, "x"), tests=("missing.py",))
    assert try_without(safeguard, tmp_path).how is How.BROKEN


def test_the_command_explains_itself():
    done = subprocess.run(
        [sys.executable, "-m", "tests.safeguards", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "switch off one safeguard" in done.stdout
