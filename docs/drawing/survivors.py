"""Mutants that no test notices, with the reason why that is right."""

from __future__ import annotations

import tomllib
from itertools import takewhile
from pathlib import Path
from typing import Final

from drawing.markdown import table

FILE: Final = Path(__file__).resolve().parents[2] / "tests" / "mutation" / "survivors.toml"
CODE_SIZE_MAX: Final = 90
"""Characters of a line that a cell shows as a whole."""

AROUND: Final = 40
"""Characters that a cell shows of a longer one, before and after what is changed."""


def survivors() -> str:
    """Draw each with what it changes."""
    found = tomllib.loads(FILE.read_text("utf-8"))["mutant"]
    rows = [
        (f"`{each['place']}`", *_codes(each["before"], each["after"]), each["reason"])
        for each in found
    ]
    return table(("where", "before", "after", "why no test can or should notice"), rows)


def _codes(before: str, after: str) -> tuple[str, str]:
    """Write both lines; of long ones what is around their difference."""
    if max(len(before), len(after)) <= CODE_SIZE_MAX:
        return _code(before), _code(after)
    alike = _alike(before, after)
    begin = max(alike - AROUND, 0)
    end = max(_alike(before[alike:][::-1], after[alike:][::-1]) - AROUND, 0)
    return _code(before, begin, end), _code(after, begin, end)


def _alike(one: str, two: str) -> int:
    """Count the characters that both begin with."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False))
    return sum(1 for _ in pairs)


def _code(text: str, begin: int = 0, end: int = 0) -> str:
    """Write a line without so many characters at its two ends."""
    if not text:
        return "(nothing)"
    marks = "\u2026" if begin else "", "\u2026" if end else ""
    return f"`{marks[0]}{text[begin : len(text) - end]}{marks[1]}`"
