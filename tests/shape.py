"""``python -m tests.shape``: the shape of the code in numbers, for those who change it.

A number is a lamp, not a judge: no test fails for one. It shows where a file, a function or a
package may have become about more than one thing.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from heapq import nlargest
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("wire", "handshake", "net", "channels", "stores", "endpoint", "peermesh")
SHOWN = 8
"""Lines for each measure."""

SUPPRESSION = re.compile(
    r"#\s*(?:type:\s*ignore(?:\[[^]]*\])?|noqa(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?"
    r"|pragma:\s*no\s*cover)(?P<rest>.*)"
)

_BLOCKS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Try,
    ast.TryStar,
    ast.With,
    ast.AsyncWith,
    ast.Match,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[str]:
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


MODULES = python_files(*PACKAGES)
TESTS = python_files("tests")
EVERYTHING = [*MODULES, *python_files("tools", "benchmarks"), *TESTS]
INITS = [module for module in MODULES if module.endswith("/__init__.py")]


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: str) -> ast.Module:
    return ast.parse(source(path))


def functions(module: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(module) if isinstance(node, _FUNCTIONS))


def code_lines(function: Function, lines: list[str]) -> int:
    docstring: set[int] = set()
    if ast.get_docstring(function) is not None:
        first = function.body[0]
        docstring = set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    numbers = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    code = (lines[number - 1].strip() for number in numbers if number not in docstring)
    return sum(1 for line in code if line and not line.startswith("#"))


def nesting(node: ast.AST, depth: int = 0) -> int:
    deepest = depth
    for child in ast.iter_child_nodes(node):
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        step = int(isinstance(child, _BLOCKS) and not is_elif)
        deepest = max(deepest, nesting(child, depth + step))
    return deepest


def suppressions(text: str) -> Iterator[tuple[int, str]]:
    """Give every comment that silences a tool: its line, and what follows it as a reason."""
    if not SUPPRESSION.search(text):
        return  # Taking a file apart takes a hundred times as long.
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = SUPPRESSION.search(token.string) if token.type == tokenize.COMMENT else None
        if found:
            yield token.start[0], found["rest"].strip(" #:,-—")


def file_sizes() -> Iterator[tuple[int, str]]:
    return ((len(source(path).splitlines()), path) for path in EVERYTHING)


def function_sizes() -> Iterator[tuple[int, str]]:
    for path in MODULES:
        lines = source(path).splitlines()
        for function in functions(tree(path)):
            yield code_lines(function, lines), f"{path}::{function.name}"


def function_depths() -> Iterator[tuple[int, str]]:
    for path in MODULES:
        for function in functions(tree(path)):
            yield nesting(function), f"{path}::{function.name}"


def package_widths() -> Iterator[tuple[int, str]]:
    for path in INITS:
        package = path.removesuffix("/__init__.py").replace("/", ".")
        yield len(getattr(import_module(package), "__all__", ())), package


def tools_silenced() -> Iterator[tuple[int, str]]:
    return ((sum(1 for _ in suppressions(source(path))), path) for path in MODULES)


MEASURES = {
    "lines of a file": file_sizes,
    "lines of code of a function": function_sizes,
    "blocks that a function nests": function_depths,
    "names that a package shows": package_widths,
    "places of a file where a tool is silenced": tools_silenced,
}


def main() -> None:
    """Print the largest of each."""
    for name, measure in MEASURES.items():
        print(f"{name}:")
        for value, where in nlargest(SHOWN, measure()):
            print(f"  {value:5} {where}")


if __name__ == "__main__":
    main()
