"""Every requirement of the seed has its meaning here, and a test that shows it."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from tests.peermesh.brokers.modules.requirements import MEANINGS, requirement

HERE = Path(__file__).parent
ROOT = HERE.parents[3]

FUNCTIONS = {
    "13_001 13_003 13_067 13_007 13_023 17_001 17_002 17_003 17_004": "Broker_Create",
    "13_108 13_109": "Broker_IncRef",
    "13_026 13_089 02_004 13_068 13_091 17_016 17_005 17_006 17_024 17_017 17_018 13_092 13_093"
    " 17_019": "module_worker",
    "13_030 17_022 17_007 17_008 17_025 17_026 17_027 17_010 17_011 17_012 17_023 13_037": (
        "Broker_Publish"
    ),
    "99_013 13_107 17_013 17_014 13_099 17_020 17_028 13_102 13_039 13_045 13_046 13_047 99_014": (
        "Broker_AddModule"
    ),
    "13_048 13_088 13_049 13_050 13_052 13_054 17_021 02_001 17_015 02_003 13_104 13_057 13_053": (
        "Broker_RemoveModule"
    ),
    "17_029 17_030 17_031 17_041 17_032 17_033 17_034": "Broker_AddLink",
    "17_035 17_036 17_037 17_042 17_038 17_039 17_040": "Broker_RemoveLink",
    "13_058 13_111 13_112": "Broker_Destroy",
    "13_113": "Broker_DecRef",
}
"""All that the seed's module-broker-api lists, in its order, by its functions."""

REQUIREMENTS = [f"SRS_BROKER_{number}" for numbers in FUNCTIONS for number in numbers.split()]

REQUIREMENTS_OF_A_TEST_MAX = 2
"""A test that shows more of them shows none of them in particular."""


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    return import_module("drawing.module_page")


def test_the_list_is_the_seed_s() -> None:
    assert len(REQUIREMENTS) == 81
    assert list(MEANINGS) == REQUIREMENTS
    assert all(meaning.strip() for meaning in MEANINGS.values())


def test_each_requirement_has_a_test_and_no_test_has_many(page) -> None:
    tests = page.marks()
    assert [name for name in REQUIREMENTS if name not in tests] == []
    assert [name for name in tests if name not in REQUIREMENTS] == []
    shown = Counter(test for found in tests.values() for test in found)
    assert [test for test, count in shown.items() if count > REQUIREMENTS_OF_A_TEST_MAX] == []


def test_the_page_shows_the_table_of_today(page) -> None:
    """The test of all documents says the same; this one says which line."""
    text = (ROOT / "docs" / "brokers" / "modules.md").read_text("utf-8")
    rows = re.findall(r"^\| SRS_BROKER_.*$", text, re.M)
    assert rows == page.requirements().splitlines()[2:]


def test_marks_are_read_from_the_tests_and_unknown_ones_are_refused(page) -> None:
    source = '@requirement("SRS_BROKER_1")\n@requirement("SRS_BROKER_2")\ndef test_a(): pass\n'
    assert list(page.shown_by(source)) == [("test_a", "SRS_BROKER_1"), ("test_a", "SRS_BROKER_2")]
    with pytest.raises(AssertionError, match="SRS_BROKER_1"):
        requirement("SRS_BROKER_1")
