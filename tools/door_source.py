"""Reads the classes and functions of trio's API from their modules, without importing these."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

LOOP: Final = frozenset({"__aiter__", "__anext__"})

SHOWN: Final = frozenset({"__repr__", "__aenter__", "__aexit__", *LOOP})
"""Methods that are public in spite of their names."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Method:
    """A method of a trio class, or a function."""

    node: Function
    was: str
    """What it is called in trio."""
    is_async: bool
    """Whether it may wait in trio."""
    attaches: str | None
    """The class of the handle that it attaches, if it does."""
    overloads: tuple[Function, ...] = ()
    is_property: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name

    @property
    def is_barrier(self) -> bool:
        """Whether it waits for an outcome, or has a callback told of it."""
        return bool(self.overloads)

    @property
    def returned(self) -> str:
        """The annotation of what it returns."""
        return ast.unparse(self.node.returns) if self.node.returns else "None"

    @property
    def annotations(self) -> list[ast.AST | None]:
        """All that its signatures have."""
        nodes = (self.node, *self.overloads)
        return [part for node in nodes for part in (node.args, node.returns)]

    def passed(self) -> list[str]:
        """Give its arguments as they are passed on."""
        given = self.node.args
        parts = [each.arg for each in (*given.posonlyargs, *given.args) if each.arg != "self"]
        parts += [f"*{given.vararg.arg}"] if given.vararg else []
        parts += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
        parts += [f"**{given.kwarg.arg}"] if given.kwarg else []
        return parts

    def called(self, own: str) -> str:
        """Write a call of it."""
        return f"{own}.{self.name}({', '.join(self.passed())})"

    def handed(self, own: str) -> str:
        """Write the arguments that have something else call it."""
        return ", ".join([f"{own}.{self.name}", *self.passed()])

    def head(self, word: str) -> list[str]:
        """Write the lines of it that stand before its body."""
        lines = ["    @property"] if self.is_property else []
        for each in self.overloads:
            lines += ["    @overload", f"    {word} {signature(each)}: ..."]
        return [*lines, f"    {word} {signature(self.node)}:", docstring(self.node, 2)]

    def copied(self) -> list[str]:
        """Give the lines of its body, without the docstring."""
        return "\n".join(map(ast.unparse, self.node.body[1:])).splitlines()

    def setter(self, own: str) -> list[str]:
        """Write how a property is set; that waits for nothing, and needs no crossing."""
        return [
            f"    @{self.name}.setter",
            f"    def {self.name}(self, {self.name}: {self.returned}) -> None:",
            f"        {own}.{self.name} = {self.name}",
        ]


def signature(node: Function) -> str:
    """Write the signature of a function."""
    returned = ast.unparse(node.returns) if node.returns else "None"
    return f"{node.name}({ast.unparse(node.args)}) -> {returned}"


def method_of(node: Function, *overloads: Function, is_property: bool = False) -> Method:
    """Describe a function as it stands in trio's class or module."""
    is_async = isinstance(node, ast.AsyncFunctionDef)
    match node.returns:
        case ast.Subscript(ast.Name("Attaching"), ast.Name(attaches)):
            return Method(node, node.name, is_async, attaches, overloads, is_property)
        case _:
            return Method(node, node.name, is_async, None, overloads, is_property)


class Module:
    """A module of the description."""

    def __init__(self, path: str) -> None:
        """Read it."""
        self.name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._body = ast.parse((ROOT / path).read_text("utf-8")).body
        self.origins: dict[str, tuple[str, str]] = {}
        """Of each name which module it is from, and what it is called there."""
        for node in ast.walk(ast.Module(self._body, [])):
            if isinstance(node, ast.Import | ast.ImportFrom):
                home = getattr(node, "module", "")
                for each in node.names:
                    self.origins[each.asname or each.name] = home, each.name
        for node in self._body:
            for name in _defined(node):
                self.origins[name] = self.name, name

    def class_of(self, name: str) -> ast.ClassDef:
        """Find a class."""
        found = self._find(name)
        assert isinstance(found, ast.ClassDef)
        return found

    def function_of(self, name: str) -> Method:
        """Find a function."""
        found = self._find(name)
        assert isinstance(found, Function)
        return method_of(found)

    def _find(self, name: str) -> ast.stmt:
        return next(node for node in self._body if name in _defined(node))

    def imported(self, name: str, as_name: str = "") -> str:
        """Give the import of one of its names."""
        home, there = self.origins[name]
        as_name = as_name or name
        start = f"from {home} import {there}" if home else f"import {there}"
        return start if there == as_name else f"{start} as {as_name}"


@cache
def found_at(source: str) -> tuple[Module, str]:
    """Give the module of ``FILE:NAME``, and the name."""
    path, _, name = source.partition(":")
    return Module(path), name


def _defined(node: ast.stmt) -> list[str]:
    """Give the names that a statement of a module defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case _:
            return []


def methods(node: ast.ClassDef) -> Iterator[Method]:
    """Give the public methods of a class, each with its overloads before it."""
    overloads: list[Function] = []
    for each in node.body:
        if not isinstance(each, Function):
            continue
        if each.name.startswith("_") and each.name not in SHOWN:
            continue
        decorators = {one.id for one in each.decorator_list if isinstance(one, ast.Name)}
        if "overload" in decorators:
            overloads.append(each)
        else:
            yield method_of(each, *overloads, is_property="property" in decorators)
            overloads = []


def fields(node: ast.ClassDef, names: frozenset[str]) -> Iterator[Method]:
    """Give annotated attributes of a class as properties; what stands below one is its text."""
    for each, text in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) in names:
            head = ast.parse(f"def {ast.unparse(each.target)}(self): ...").body[0]
            assert isinstance(head, ast.FunctionDef)
            head.returns = each.annotation
            head.body = [text] if isinstance(text, ast.Expr) else head.body
            yield method_of(head, is_property=True)


def constructor(node: ast.ClassDef) -> Method:
    """Find the constructor of a class."""
    found = (each for each in node.body if isinstance(each, Function) and each.name == "__init__")
    return method_of(next(found))


def names_in(nodes: Sequence[ast.AST | None]) -> set[str]:
    """Give the names that code mentions."""
    found = (each for node in nodes if node is not None for each in ast.walk(node))
    return {each.id for each in found if isinstance(each, ast.Name)}


def docstring(node: ast.ClassDef | Function, depth: int) -> str:
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
