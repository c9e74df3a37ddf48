"""What the page of the module broker shows of its tests: the seed's requirements."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drawing.markdown import code, table

TESTS: Final = Path(__file__).resolve().parents[2] / "tests" / "peermesh" / "brokers" / "modules"
REQUIREMENTS: Final = TESTS / "requirements.toml"


def shown_by(source: str) -> Iterator[tuple[str, str]]:
    """Give the tests of a file with each requirement that they are marked with."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                match mark:
                    case ast.Call(ast.Name("requirement"), [ast.Constant(str(name))]):
                        yield node.name, name


def marks() -> dict[str, list[str]]:
    """Give the tests of each requirement that has any."""
    found: dict[str, list[str]] = {}
    for file in sorted(TESTS.glob("test_*.py")):
        for test, name in shown_by(file.read_text("utf-8")):
            found.setdefault(name, []).append(test)
    return found


def requirements() -> str:
    """Draw each requirement of the seed with its meaning, and the tests that show it."""
    tests = marks()
    meanings = tomllib.loads(REQUIREMENTS.read_text("utf-8"))
    rows = [
        (name, meaning, ", ".join(map(code, tests.get(name, ["none"]))))
        for name, meaning in meanings.items()
    ]
    return table(("requirement", "here", "shown by"), rows)
