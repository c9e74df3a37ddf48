"""Reads the classes and functions of trio's API from their modules, without importing these."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.door_bodies import LOOP, Method

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Module:
    """A module of the description."""

    name: str
    tree: ast.Module

    def class_of(self, name: str) -> ast.ClassDef:
        """Find a class."""
        return next(
            node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == name
        )

    def function_of(self, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
        """Find a function."""
        return next(
            node
            for node in self.tree.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
        )

    def origins(self) -> dict[str, tuple[str, str]]:
        """Say of each name of the module which module it is from, and what it is called there."""
        found: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                home = getattr(node, "module", "")
                found |= {each.asname or each.name: (home, each.name) for each in node.names}
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                found[node.name] = self.name, node.name
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = self.name, node.target.id
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found[target.id] = self.name, target.id
        return found


@cache
def module_of(path: str) -> Module:
    """Read a module."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return Module(name, ast.parse((ROOT / path).read_text("utf-8")))


def methods(node: ast.ClassDef) -> Iterator[Method]:
    """Give the public methods of a class, each with its overloads before it."""
    overloads: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for each in node.body:
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        is_shown = each.name in {"__repr__", "__aenter__", "__aexit__", *LOOP}
        if each.name.startswith("_") and not is_shown:
            continue
        decorators = {one.id for one in each.decorator_list if isinstance(one, ast.Name)}
        if "overload" in decorators:
            overloads.append(each)
        else:
            is_property = "property" in decorators
            yield Method.of(each, tuple(overloads), is_property=is_property)
            overloads = []


def fields(node: ast.ClassDef, names: frozenset[str]) -> Iterator[Method]:
    """Give annotated attributes of a class as properties; what stands below one is its text."""
    for each, text in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) in names:
            head = ast.parse(f"def {ast.unparse(each.target)}(self): ...").body[0]
            assert isinstance(head, ast.FunctionDef)
            head.returns = each.annotation
            head.body = [text] if isinstance(text, ast.Expr) else head.body
            yield Method.of(head, (), is_property=True)


def constructor(node: ast.ClassDef) -> ast.FunctionDef:
    """Find the constructor of a class."""
    return next(
        each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    )


def imported(name: str, origin: tuple[str, str]) -> str:
    """Give the import of a name."""
    home, there = origin
    if not home:
        return f"import {name}"
    return f"from {home} import {there}" + ("" if there == name else f" as {name}")


def names_in(nodes: Sequence[ast.AST | None]) -> set[str]:
    """Give the names that code mentions, also within annotations that are text."""
    found = set()
    for node in nodes:
        for each in ast.walk(node) if node is not None else ():
            if isinstance(each, ast.Name):
                found.add(each.id)
    return found


def docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> str:
    """Give the docstring of a node as it stands in the source."""
    text = ast.get_docstring(node, clean=True) or ""
    indent = "    " * depth
    lines = [f"{indent}{line}" if line else "" for line in text.splitlines()]
    if len(lines) > 1:
        lines.append(indent)
    return f'{indent}"""{chr(10).join(lines).removeprefix(indent)}"""'


def snake(name: str) -> str:
    """Give a class's name as that of an attribute."""
    parts = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    return parts.removeprefix("_")
