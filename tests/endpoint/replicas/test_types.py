"""The type checker sees through the drivers of stores and logs: nothing there is taken on trust."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

DRIVERS = Path(__file__).parents[3] / "endpoint" / "replicas"

OPENERS = {"_open"}
"""Methods that hand the options which a user gave for a file to its constructor, which looks at
them."""


@pytest.mark.parametrize("path", sorted(DRIVERS.rglob("*.py")), ids=lambda path: path.stem)
def test_no_driver_casts_or_gives_types_up(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in OPENERS:
            node.args.args.clear()
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"cast", "Any"}
