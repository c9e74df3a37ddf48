"""Each effect in the union that drivers match is made by a core."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from endpoint.replicas.parts import AnyEffect

STORES = Path(__file__).parents[2] / "stores"


def made() -> set[str]:
    """Give the names of all that is called in the room of the cores."""
    found: set[str] = set()
    for path in STORES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found.add(node.func.id)
    return found


@pytest.mark.parametrize("effect", get_args(AnyEffect))
def test_each_effect_is_made_by_a_core(effect: type) -> None:
    assert effect.__name__ in made()
