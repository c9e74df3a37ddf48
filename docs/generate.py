"""Renew what the documents show of the code: tables and diagrams drawn from the code itself.

Run ``.venv/bin/python docs/generate.py`` after a change of a state, a message, a limit or a
docstring. A document marks the places like this::

    <!-- generated: name -->
    whatever the drawing of that name gives
    <!-- end -->

With ``--check`` nothing is written; the answer is 1 if something would be. Documents that are named
are looked at instead of all.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
REGION: Final = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.S
)
MARKER: Final = re.compile(r"<!-- (?:generated: [\w-]+|end) -->")

Regions = Mapping[str, Callable[[], str]]


def load_regions() -> Regions:
    """Import the drawings, and the code that lies beside these documents, installed or not."""
    sys.path.insert(0, str(ROOT))
    from drawing.regions import REGIONS

    return REGIONS


def documents() -> list[Path]:
    """Give the README and all of ``docs/``."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def renewed(text: str, regions: Regions) -> str:
    """Give the document with every region drawn anew; raises ``ValueError`` for a bad marker."""

    def draw(found: re.Match[str]) -> str:
        if found["name"] not in regions:
            raise ValueError(f"nobody draws {found['name']!r}; there are {', '.join(regions)}")
        return f"{found['begin']}{regions[found['name']]().strip()}\n{found['end']}"

    if len(MARKER.findall(text)) != 2 * len(REGION.findall(text)):
        raise ValueError("a region does not begin or does not end: markers stand alone in a line")
    return REGION.sub(draw, text)


def check_all_asked_for(texts: Sequence[str], regions: Regions) -> None:
    """Raise ``ValueError`` if no document asks for a drawing: a document lost it."""
    asked = {found["name"] for text in texts for found in REGION.finditer(text)}
    idle = [name for name in regions if name not in asked]
    if idle:
        raise ValueError(f"no document asks for {', '.join(idle)}")


def main(arguments: Sequence[str]) -> int:
    """Renew, or check, and say what is different."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    parser.add_argument("documents", nargs="*", type=Path, help="instead of all")
    options = parser.parse_args(arguments)
    regions, is_stale = load_regions(), False
    if not options.documents:
        check_all_asked_for([path.read_text("utf-8") for path in documents()], regions)
    for path in options.documents or documents():
        before = path.read_text("utf-8")
        after = renewed(before, regions)
        if before == after:
            continue
        is_stale = True
        name = path.name
        lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(*lines, name, f"{name}, renewed", n=0))
        if not options.check:
            path.write_text(after, "utf-8")
    return int(is_stale and options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
