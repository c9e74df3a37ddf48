"""What the mutants change, which of them count, and the survivors that have a reason."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
SURVIVORS: Final = Path(__file__).parent / "survivors.toml"


@dataclass(frozen=True, slots=True)
class Change:
    """What a mutant changes: this identifies it, since mutmut numbers them anew after each edit."""

    place: str
    """The file, and the function with its class."""
    before: str
    """The lines that it changes, in one line."""
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small change of one function."""

    name: str
    """As mutmut calls it."""
    file: str
    change: Change
    is_wording: bool
    """Whether it only changes the wording of a sentence: no test has to notice that."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test notices, and why that is right."""

    change: Change
    reason: str


def mutated_files(root: Path = ROOT) -> list[str]:
    """Give the files that ``[tool.mutmut]`` has mutated."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    patterns: list[str] = settings["mutmut"]["only_mutate"]
    parents = {pattern.partition("/")[0] for pattern in patterns}
    paths = (path for each in parents for path in (root / each).rglob("*.py"))
    files = (path.relative_to(root).as_posix() for path in paths)
    return sorted(file for file in files if any(fnmatch(file, each) for each in patterns))


def mutants_of(file: str, code: str, names: list[str]) -> Iterator[Mutant]:
    """Read what mutmut made of a file: each mutant is a function beside the original one."""
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    for name in names:
        stem = name.partition("__mutmut_")[0]
        original, mutated = functions[f"{stem}__mutmut_orig"], functions[name]
        place = f"{file} {stem.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"
        change = Change(place, *_difference(_lines(original), _lines(mutated)))
        is_wording = _without_sentences(original) == _without_sentences(mutated)
        yield Mutant(f"{module}.{name}", file, change, is_wording)


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Write a function in one form, without the name that mutmut gave it."""
    return ast.unparse(function.args).splitlines() + [
        line for statement in function.body for line in ast.unparse(statement).splitlines()
    ]


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """Give the lines that differ; all lines around them are equal."""
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    joined = [" ; ".join(line.strip() for line in lines) for lines in (before, after)]
    return joined[0], joined[1]


class _Sentences(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        is_sentence = isinstance(node.value, str) and " " in node.value.strip()
        return ast.Constant("") if is_sentence else node


def _without_sentences(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Dump a function with all texts of more than a word left out."""
    return "".join(
        ast.dump(_Sentences().visit(ast.parse(ast.unparse(each)))) for each in function.body
    )


def read_survivors() -> list[Survivor]:
    """Read the survivors that have a reason."""
    tables: list[Mapping[str, str]] = tomllib.loads(SURVIVORS.read_text("utf-8")).get("mutant", [])
    return [
        Survivor(Change(each["place"], each["before"], each["after"]), each["reason"])
        for each in tables
    ]
