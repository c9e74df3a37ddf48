"""Reads the blocks of README.md and docs/: programs, commands, and what they print."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from peermesh.testing.time_limits import limit

ROOT = Path(__file__).parent.parent
LANGUAGES = {"python", "console", "text", "toml", "json", "mermaid", "ini", "dockerfile"}
TOP_TO_BOTTOM = "The blocks of Python run from top to bottom"
"""What a document says whose blocks need those before them."""
RUN_SECONDS_MAX = 280  # below the net, so that the document is named

FENCE = re.compile(r"^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\s`]*)")
SEPARATOR = "\x1e"
RUNNER = f"""
import json, sys
namespace = {{"__name__": "__main__"}}
for name, line, source in json.load(sys.stdin):
    exec(compile("\\n" * line + source, name, "exec"), namespace)
    print({SEPARATOR!r}, end="", flush=True)
"""
"""The empty lines in front make a traceback point into the document."""


class Block(NamedTuple):
    """A fenced block of a document."""

    language: str
    line: int
    """The line of the opening fence, counted from one."""
    text: str
    shown: str | None = None
    """What stands right below, as what the block prints."""

    def says(self, printed: str) -> bool:
        """Tell whether this is what the document shows, which may show nothing."""
        return self.shown is None or is_shown_as(printed, self.shown)


def is_shown_as(printed: str, shown: str) -> bool:
    """Compare what was printed with what a document shows, where "…" stands for anything."""
    parts = (re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(".*".join(parts), printed.strip(), re.S) is not None


def blocks(text: str) -> Iterator[Block]:
    """Give the fenced blocks of a document, and raise ``ValueError`` if the last one is open."""
    opening: re.Match[str] | None = None
    start, body = 0, []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        fence = FENCE.match(line)
        if opening is None:
            opening, start, body = fence, number, []
        elif fence and fence["fence"].startswith(opening["fence"]) and not fence["language"]:
            yield Block(opening["language"], start, dedent("".join(body)))
            opening = None
        else:
            body.append(line)
    if opening is not None:
        raise ValueError(f"the block that begins in line {start} does not end")


def documents() -> list[Path]:
    return sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


def of_language(path: Path, language: str) -> list[Block]:
    """Give the blocks in a language, with the text that stands right below as what they print."""
    found = list(blocks(path.read_text("utf-8")))
    lines = path.read_text("utf-8").splitlines()
    for position, block in enumerate(found[:-1]):
        below = found[position + 1]
        between = lines[block.line + block.text.count("\n") + 1 : below.line - 1]
        if below.language == "text" and not any(line.strip() for line in between):
            found[position] = block._replace(shown=below.text)
    return [block for block in found if block.language == language]


def programs(path: Path) -> list[list[Block]]:
    """Give the blocks of Python that run together: each alone, or all of a document."""
    found = of_language(path, "python")
    is_one = TOP_TO_BOTTOM in " ".join(path.read_text("utf-8").split())
    return [found] * bool(found) if is_one else [[block] for block in found]


def run(
    path: Path, program: list[Block], folder: Path, python: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of a document with an empty folder as its own.

    With another ``python`` it uses what is installed there, and nothing of this checkout.
    """
    script = [(path.name, block.line, block.text) for block in program]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PEERMESH_")}
    if any("pyspark" in text for _, _, text in script):
        local = importlib.import_module("peermesh.spark.local")
        clean["SPARK_HOME"] = str(local.link_home(folder.parent / "spark-home"))
        clean["SPARK_SUBMIT_OPTS"] = " ".join(local.JVM_OPTIONS)
    clean["PYTHONPATH"] = str(ROOT) if python is None else ""
    return subprocess.run(
        [python or sys.executable, "-c", RUNNER],
        input=json.dumps(script),
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        timeout=limit(RUN_SECONDS_MAX),
        check=False,
    )
