"""Phrases for programmers that the command line replaces are still those of the library."""

from __future__ import annotations

import re
from pathlib import Path

from peermesh.cli.wording import WORDS

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("endpoint", "handshake", "net", "stores")


def test_what_is_said_to_programmers_is_what_the_library_says() -> None:
    """A phrase that the library does not use any more would be replaced in vain."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    joined = re.sub(r'"\s*f?"', "", "".join(path.read_text("utf-8") for path in files))
    assert [api for api, _ in WORDS if api not in joined] == []
