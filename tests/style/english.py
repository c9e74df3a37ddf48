"""Finds prose that breaks the rules of English which a regular expression can see.

Looked at are the docstrings of all Python files, those of attributes too, and all Markdown outside
of its generated regions, which show docstrings once more. What stands between backquotes is code.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent.parent
ALLOWED: Final = Path(__file__).with_name("allowed.txt")
RULES: Final = {
    "a program is `it`, a user `the caller` or `you`": re.compile(r"(?i)\b(?:he|his|him)\b"),
    "name the part: `the peer`, `the reader`": re.compile(r"(?i)\b(?:somebody|whoever|nobody)\b"),
}
"""Rules for each line of prose."""
FIRST_LINE_RULE: Final = re.compile(r"(?:Be|Begin)\b")
"""How no docstring begins: it says what is done, by a verb that does something."""
NEEDLESS: Final = {"build", "dist", "node_modules"}
"""Folders that are made by tools, beside those whose names begin with a dot."""
CODE: Final = re.compile(r"``.*?``|`[^`]*`")
GENERATED: Final = re.compile(r"<!-- generated: [\w-]+ -->\n.*?<!-- end -->", re.S)
SEPARATOR: Final = ": "


class Line(NamedTuple):
    """A line of prose, wherever in its file it stands."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}{SEPARATOR}{self.text}"


def breaks_a_rule(line: str) -> bool:
    """Tell whether a line of prose has one of the words that name no part."""
    prose = CODE.sub("", line)
    return any(rule.search(prose) for rule in RULES.values())


def in_docstrings(source: str) -> Iterator[str]:
    """Give the lines of docstrings that break a rule."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                lines = text.splitlines()
                for number, line in enumerate(lines):
                    is_weak = number == 0 and FIRST_LINE_RULE.match(line)
                    if is_weak or breaks_a_rule(line):
                        yield line.strip()


def in_markdown(text: str) -> Iterator[str]:
    """Give the lines of a document that break a rule, generated regions left out."""
    for line in GENERATED.sub("", text).splitlines():
        if breaks_a_rule(line):
            yield line.strip()


def files(root: Path, ending: str) -> list[Path]:
    """List the files of the project that end so."""

    def is_ours(path: Path) -> bool:
        folders = path.relative_to(root).parts[:-1]
        return not any(name.startswith(".") or name in NEEDLESS for name in folders)

    return sorted(path for path in root.rglob(f"*{ending}") if is_ours(path))


@cache
def found(root: Path = ROOT) -> Counter[Line]:
    """Count the lines of the project that break a rule."""
    lines: Counter[Line] = Counter()
    for ending, look in ((".py", in_docstrings), (".md", in_markdown)):
        for path in files(root, ending):
            name = path.relative_to(root).as_posix()
            lines.update(Line(name, text) for text in look(path.read_text("utf-8")))
    return lines


def read_allowed(text: str) -> Counter[Line]:
    """Read the list of lines that are allowed for now, each as often as it stands there."""
    parts = (line.partition(SEPARATOR) for line in text.splitlines())
    return Counter(Line(path, words) for path, _, words in parts)


def write_allowed(lines: Iterable[Line]) -> str:
    """Write such a list, in the order of the alphabet."""
    return "".join(f"{line}\n" for line in sorted(lines))
