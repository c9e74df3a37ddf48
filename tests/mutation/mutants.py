"""Which files have mutants, what these change, which count, and which survive with a reason."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent.parent
SUITES: Final = Path(__file__).parent / "suites.toml"
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
    digest: str
    """Of the function without and with the change: names it in journals, as mutmut's number is
    another one after each edit."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test notices, and why that is right."""

    change: Change
    reason: str


@dataclass(frozen=True, slots=True)
class Suite:
    """Files that are changed, and the tests that have to notice."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...]
    """Tests of these that would cost too much."""
    is_complete: bool
    """False while not all of its mutants were tried: then they are tried if they are named, and no
    sample has them."""


def read_suites() -> list[Suite]:
    """Read which files are changed, and with which tests."""
    tables: list[dict[str, Any]] = tomllib.loads(SUITES.read_text("utf-8"))["suite"]
    return [
        Suite(
            tuple(_found(each["files"])),
            tuple(each["tests"]),
            tuple(each["left_out"]),
            each.get("is_complete", True),
        )
        for each in tables
    ]


def _found(patterns: list[str]) -> list[str]:
    paths = {path for pattern in patterns for path in ROOT.glob(pattern)}
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def mutants_of(file: str, code: str, names: list[str]) -> Iterator[Mutant]:
    """Read what mutmut made of a file: each mutant is a function beside the original one."""
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    texts = {name: _lines(node) for name, node in functions.items()}
    wordless = {name: _without_sentences(node) for name, node in functions.items()}
    module = module_of(file)
    for name in names:
        stem = name.partition("__mutmut_")[0]
        original = f"{stem}__mutmut_orig"
        place = f"{file} {stem.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"
        change = Change(place, *_difference(texts[original], texts[name]))
        whole = repr((place, texts[original], texts[name]))
        digest = sha256(whole.encode()).hexdigest()
        is_wording = wordless[original] == wordless[name]
        yield Mutant(f"{module}.{name}", file, change, is_wording, digest)


def module_of(file: str) -> str:
    """Give the name by which a file is imported."""
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


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
    """Dump a function, in which this leaves out all texts of more than a word."""
    return "".join(ast.dump(_Sentences().visit(each)) for each in function.body)


def read_survivors() -> list[Survivor]:
    """Read the survivors that have a reason."""
    tables: list[Mapping[str, str]] = tomllib.loads(SURVIVORS.read_text("utf-8")).get("mutant", [])
    return [
        Survivor(Change(each["place"], each["before"], each["after"]), each["reason"])
        for each in tables
    ]
