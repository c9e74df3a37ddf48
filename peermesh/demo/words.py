"""The input where none is named: the words of a real text that comes with pyspark."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Final

from handshake.private_files import open_private
from peermesh.demo.errors import RequirementError

TEXT_NAME: Final = "pyspark/sql/functions/builtin.py"
"""The reference of Spark's SQL functions, as its Python source: a megabyte, mostly English."""

WORD_KEY: Final = "word"
"""The field that holds the word, in lower case; ``line`` is where in the text it stands."""

_WORD: Final = re.compile(r"[A-Za-z]+")


def find_text() -> Path:
    """Find the text where pyspark is installed; raises ``RequirementError``."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RequirementError("Spark is not installed: pip install 'peermesh[spark]'")
    path = Path(spec.origin).parent.parent / TEXT_NAME
    if not path.is_file():
        raise RequirementError(f"this pyspark has no {TEXT_NAME}: name another file with --input")
    return path


def write_words(text: Path, target: Path) -> None:
    """Write each word of a text as an event, one a line."""
    with (
        text.open(encoding="utf-8", errors="replace") as source,
        open_private(target, "w") as events,
    ):
        for number, line in enumerate(source, start=1):
            for word in _WORD.findall(line):
                events.write(json.dumps({WORD_KEY: word.lower(), "line": number}) + "\n")
