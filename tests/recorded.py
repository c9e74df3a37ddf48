"""Where recorded days of real traffic are: beside this tree, or in the folder ZEEK_LOGS names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[1].parent / "shared" / "data"


def recorded(name: str) -> Path:
    """Find a recorded day; without it, the test is skipped."""
    path = Path(os.environ.get("ZEEK_LOGS") or BESIDE) / name
    if not path.is_file():
        pytest.skip(f"there is no {name}, neither beside this tree nor where ZEEK_LOGS points")
    return path
