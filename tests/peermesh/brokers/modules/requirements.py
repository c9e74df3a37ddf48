"""The requirements of the seed, and the mark of a test that shows one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

FILE: Final = Path(__file__).with_suffix(".toml")

MEANINGS: Final[dict[str, str]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
"""What each requirement means here, in the seed's order."""

Test = TypeVar("Test", bound=Callable[..., object])


def requirement(name: str) -> Callable[[Test], Test]:
    """Mark a test that shows a requirement: it stands in the page's table then."""
    assert name in MEANINGS, f"the seed has no {name}"
    return lambda test: test
