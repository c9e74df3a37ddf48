"""Every requirement of the seed stands in the page's table, with a test that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[3] / "docs" / "brokers" / "modules.md"

REQUIREMENTS = [
    "13_001",
    "13_003",
    "13_067",
    "13_007",
    "13_023",
    "17_001",
    "17_002",
    "17_003",
    "17_004",
    "13_108",
    "13_109",
    "13_026",
    "13_089",
    "02_004",
    "13_068",
    "13_091",
    "17_016",
    "17_005",
    "17_006",
    "17_024",
    "17_017",
    "17_018",
    "13_092",
    "13_093",
    "17_019",
    "13_030",
    "17_022",
    "17_007",
    "17_008",
    "17_025",
    "17_026",
    "17_027",
    "17_010",
    "17_011",
    "17_012",
    "17_023",
    "13_037",
    "99_013",
    "13_107",
    "17_013",
    "17_014",
    "13_099",
    "17_020",
    "17_028",
    "13_102",
    "13_039",
    "13_045",
    "13_046",
    "13_047",
    "99_014",
    "13_048",
    "13_088",
    "13_049",
    "13_050",
    "13_052",
    "13_054",
    "17_021",
    "02_001",
    "17_015",
    "02_003",
    "13_104",
    "13_057",
    "13_053",
    "17_029",
    "17_030",
    "17_031",
    "17_041",
    "17_032",
    "17_033",
    "17_034",
    "17_035",
    "17_036",
    "17_037",
    "17_042",
    "17_038",
    "17_039",
    "17_040",
    "13_058",
    "13_111",
    "13_112",
    "13_113",
]
"""All that the seed's module-broker-api lists, in its order."""


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| SRS_BROKER_(\S+) \| (.+?) \| `(\w+)` \|$", PAGE.read_text(), re.M)
    return {number: (meaning, test) for number, meaning, test in found}


def names_of_tests() -> set[str]:
    trees = [ast.parse(file.read_text()) for file in HERE.glob("test_*.py")]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_requirement_has_its_meaning_here_and_its_test() -> None:
    table, known = rows(), names_of_tests()
    assert list(table) == REQUIREMENTS
    for number, (meaning, test) in table.items():
        assert meaning.strip(), number
        assert test in known, f"SRS_BROKER_{number} names {test}, which is not there"
