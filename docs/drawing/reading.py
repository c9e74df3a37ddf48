"""Reads the code for its documents: constants, enumerators, fields and methods, with their words.

Python keeps no docstring of an attribute, so that those are read from the source: the string that
stands right below.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from peermesh.names import TRIO

KIB: Final = 1024
MIB: Final = 1024 * KIB
NANOSECONDS: Final = 10**9


class Named(NamedTuple):
    """A name of the code, what it stands for, and its words."""

    name: str
    value: Any
    text: str
    type: str = ""


def module_path(module: str) -> Path:
    """Say where the source of a module is."""
    found = find_spec(module)
    assert found is not None, f"there is no module {module}"
    assert found.origin is not None, f"{module} has no source"
    return Path(found.origin)


@cache
def tree(module: str) -> ast.Module:
    """Parse a module."""
    return ast.parse(module_path(module).read_text("utf-8"))


REFERENCE: Final = re.compile(r" \((?:seed|design)\b[^)]*\)")
"""Where a docstring names what it implements, for those who have that at hand."""


def words(text: str | None) -> str:
    """Give a docstring as one line of Markdown."""
    line = re.sub(r"\s+", " ", (text or "").replace("``", "`")).strip()
    return REFERENCE.sub("", line)


def summary(thing: object) -> str:
    """Give the first paragraph of the docstring of a class or a function."""
    text = inspect.getdoc(thing) or ""
    return words(text.partition("\n\n")[0])


def constants(module: str, names: Iterable[str] = ()) -> list[Named]:
    """Give the public constants of a module that have words, or those with the names."""
    wanted = list(names)
    home = import_module(module)
    found = [
        Named(name, getattr(home, name), text, kind)
        for name, text, kind in _attributes(tree(module).body)
        if (name in wanted if wanted else name.isupper() and name[0] != "_" and text)
    ]
    missing = set(wanted) - {each.name for each in found}
    assert not missing, f"{module} has no {', '.join(sorted(missing))}"
    return found


def home_of(thing: type) -> str:
    """Say which module defines a class: one that users hold names the package they have it from."""
    match thing.__module__:
        case "peermesh":
            return TRIO[thing.__name__]
        case "peermesh.errors":
            return TRIO.get(thing.__name__, "wire.errors")
        case module:
            return module


def attributes(thing: type) -> list[Named]:
    """Give the fields or enumerators of a class, those of its bases left out."""
    body = next(
        node.body
        for node in ast.walk(tree(home_of(thing)))
        if isinstance(node, ast.ClassDef) and node.name == thing.__name__
    )
    return [
        Named(name, getattr(thing, name, None), text, kind)
        for name, text, kind in _attributes(body)
        if not name.startswith("_") and "ClassVar" not in kind
    ]


def methods(thing: type) -> list[Named]:
    """Give the methods that a class, or a protocol, defines itself, with their first paragraph."""
    return [
        Named(name, member, summary(member))
        for name, member in vars(thing).items()
        if inspect.isfunction(member) and not name.startswith("_")
    ]


def modules(package: str) -> list[str]:
    """List the modules of a package, itself first, in the order of the alphabet."""
    folder = module_path(package).parent
    found = [
        ".".join((package, *path.relative_to(folder).with_suffix("").parts))
        for path in folder.rglob("*.py")
    ]
    return sorted(name.removesuffix(".__init__") for name in found)


def dotted_names(module: str) -> Iterator[str]:
    """Give every name with a dot that a module uses, as it is written there."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def figure(constant: Named) -> str:
    """Write a number with its unit, as its name or its words tell it."""
    name, value = constant.name, constant.value
    if name.endswith("_SECONDS"):
        return f"{value:g} s"
    if name.endswith("_NS"):
        seconds, rest = divmod(value, NANOSECONDS)
        return f"{value:,} ns" if rest else f"{seconds:,} s"
    if constant.text.startswith("Bytes"):
        for unit, size in (("MiB", MIB), ("KiB", KIB)):
            if value >= size and value % size == 0:
                return f"{value // size:,} {unit}"
    return f"{value:,}"


def _attributes(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    """Give the name, the words and the annotation of what is assigned."""
    for position, node in enumerate(body):
        match node:
            case ast.Assign(targets=[ast.Name(name)]):
                kind = ""
            case ast.AnnAssign(target=ast.Name(name), annotation=annotation):
                kind = ast.unparse(annotation)
            case _:
                continue
        following = body[position + 1] if position + 1 < len(body) else None
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield name, words(text), kind
            case _:
                yield name, "", kind
