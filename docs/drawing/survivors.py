"""Mutants that no test notices, with the reason why that is right."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from drawing.markdown import table

FILE: Final = Path(__file__).resolve().parents[2] / "tests" / "mutation" / "survivors.toml"
CODE_SIZE_MAX: Final = 90
"""Characters of a line that a cell shows."""


def survivors() -> str:
    """Draw each with what it changes."""
    found = tomllib.loads(FILE.read_text("utf-8"))["mutant"]
    rows = [
        (f"`{each['place']}`", _code(each["before"]), _code(each["after"]), each["reason"])
        for each in found
    ]
    return table(("where", "before", "after", "why no test can or should notice"), rows)


def _code(text: str) -> str:
    short = text if len(text) <= CODE_SIZE_MAX else f"{text[: CODE_SIZE_MAX - 1]}…"
    return f"`{short}`" if short else "(nothing)"
