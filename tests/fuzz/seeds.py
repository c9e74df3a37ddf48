"""Where fuzzing begins: the golden vectors of the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent.parent / "wire" / "golden.json"


def golden(part: str) -> list[dict[str, Any]]:
    """Give a part of the golden vectors."""
    vectors: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))[part]
    return vectors
