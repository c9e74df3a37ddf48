"""Moves packages below another one: rewrites what names them in the source of a module.

The checkout has the layers of the mesh as top-level packages. The wheel has one top-level package,
``peermesh``, and the layers below it, as Java's shade and pip's ``_vendor`` do. The tests that run
against the wheel are moved by the same function.

What names a layer is an import, or a literal that is exactly the dotted name of one of its modules.
A lone word is never moved: ``"stores"`` may be anything. What can not be moved safely is refused,
with file and line, so that no wheel is built that means something else than the checkout. Lines
keep their numbers, so that a traceback out of a wheel can be read beside the checkout.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

MOVED: Final = ("wire", "handshake", "net", "channels", "stores", "endpoint")
"""The packages that the wheel has below ``HOME``. Another one is one more word here."""

FACE: Final = "peermesh"
"""The one name that the wheel occupies."""

HOME: Final = f"{FACE}._mesh"
"""Where the moved packages are in the wheel."""

HOME_TEXT: Final = '"""The layers of the mesh. Private: import from ``peermesh``."""\n'

_WORDS: Final = "|".join(MOVED)

_FROM_IN_TEXT: Final = re.compile(rf"\bfrom +(?=(?:{_WORDS})(?:\.\w+)* +import\b)")
_IMPORT_IN_TEXT: Final = re.compile(rf"((?:^|[;\"'\n]|\\n) *)import +(?=(?:{_WORDS})\b(?! *[.,]))")
"""Imports in a text that is a program: at its beginning, or that of a line or statement."""

_BEGUN: Final = re.compile(rf"(?:{_WORDS})\.(?:\w+\.)*\w*")
"""The beginning of a dotted name, whose end is put together when the program runs."""


class Unmovable(Exception):
    """A source says something that would mean another thing in the wheel."""


class _Edit(NamedTuple):
    """Bytes of a source, and what stands there instead."""

    start: int
    stop: int
    new: bytes


class _Source:
    """A module's text, as the bytes in which ``ast`` counts columns."""

    def __init__(self, text: str, where: str) -> None:
        """Parse it; ``where`` is the file that a refusal names."""
        self.where = where
        self.bytes = text.encode()
        self.tree = ast.parse(text, where)
        self._starts = [0]
        # Not splitlines(): a form feed or a U+2028 in a literal ends no line of Python.
        for line in re.split(rb"(?<=\n)", self.bytes):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """Say where a node stands."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def replace(self, node: ast.stmt | ast.expr, old: str, new: str) -> _Edit:
        """Replace the one place of a node in which a name stands as it is."""
        start, stop = self.span(node)
        words = re.compile(rb"(?<![\w.])" + re.escape(old.encode()) + rb"(?![\w.])")
        found = words.search(self.bytes, start, stop)
        if found is None:
            raise self.refusal(node, f"write {old} in one piece")
        return _Edit(*found.span(), new.encode())

    def refusal(self, node: ast.stmt | ast.expr, advice: str) -> Unmovable:
        """Make the error that names the file and the line."""
        return Unmovable(f"{self.where}:{node.lineno}: {advice}")

    def edited(self, edits: Iterator[_Edit]) -> str:
        """Give the text with all replacements made."""
        data = self.bytes
        for start, stop, new in sorted(edits, reverse=True):
            data = data[:start] + new + data[stop:]
        return data.decode()


def relocate(
    text: str, modules: Collection[str], where: str = "<source>", *, is_test: bool = False
) -> str:
    """Give the source of a module as it has to be where ``MOVED`` lie below ``HOME``.

    ``modules`` are the dotted names of all modules that move. A test may also name them in the
    code of a program that it runs, and with an attribute, as ``monkeypatch.setattr`` takes it.
    Raises ``Unmovable`` for what can not be moved.
    """
    source = _Source(text, where)
    return source.edited(_edits(source, modules, is_test=is_test))


def _edits(source: _Source, modules: Collection[str], *, is_test: bool) -> Iterator[_Edit]:
    pieces = _pieces_of_formats(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            if node.level == 0 and node.module is not None and _is_moved(node.module):
                yield source.replace(node, node.module, f"{HOME}.{node.module}")
        elif isinstance(node, ast.Import):
            if any(_is_moved(alias.name) for alias in node.names):
                yield _import(source, node)
        elif isinstance(node, ast.JoinedStr):
            yield from _format(source, node, is_test=is_test)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in pieces:
            yield from _literal(source, node, node.value, modules, is_test=is_test)


def _pieces_of_formats(tree: ast.Module) -> set[ast.AST]:
    """Find the texts that are parts of f-strings: Python 3.11 does not know where they stand."""
    return {
        piece
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for piece in node.values
        if isinstance(piece, ast.Constant)
    }


def _is_moved(name: str) -> bool:
    return name.partition(".")[0] in MOVED


def _import(source: _Source, node: ast.Import) -> _Edit:
    """Move ``import P`` and ``import P.x as y``; ``import P.x`` would bind another name."""
    if len(node.names) > 1:
        raise source.refusal(node, "import one module a line")
    (alias,) = node.names
    if "." in alias.name and alias.asname is None:
        raise source.refusal(node, f"write 'from {alias.name} import …' or 'import … as …'")
    package, _, name = f"{HOME}.{alias.name}".rpartition(".")
    tail = f" as {alias.asname}" if alias.asname else ""
    start, stop = source.span(node)
    if b"\n" in source.bytes[start:stop]:
        raise source.refusal(node, f"import {alias.name} in one line")
    return _Edit(start, stop, f"from {package} import {name}{tail}".encode())


def _literal(
    source: _Source, node: ast.Constant, text: str, modules: Collection[str], *, is_test: bool
) -> Iterator[_Edit]:
    """Move a literal that is the dotted name of a module, alone or as in ``module:attribute``."""
    if _names_module(text, modules, has_attributes=is_test):
        yield source.replace(node, text, f"{HOME}.{text}")
    elif is_test:
        yield from _program(source, node)
    elif text.endswith(".") and _BEGUN.fullmatch(text):
        raise source.refusal(node, f"{text!r} begins a module's name: write the name in one piece")


def _format(source: _Source, node: ast.JoinedStr, *, is_test: bool) -> Iterator[_Edit]:
    """Refuse an f-string that puts together a module's name; in tests it may be a program."""
    first = node.values[0] if node.values else None
    if is_test:
        yield from _program(source, node)
    elif isinstance(first, ast.Constant) and _BEGUN.fullmatch(str(first.value)):
        raise source.refusal(node, "this may be a module's name: write the name in one piece")


def _names_module(text: str, modules: Collection[str], *, has_attributes: bool) -> bool:
    """Tell whether a literal names a module; with attributes also a function or method there."""
    name = text.partition(":")[0]
    if "." not in name or not _is_moved(name):
        return False
    if name in modules or not has_attributes:
        return name in modules
    parent = name.rpartition(".")[0]
    is_dotted = all(part.isidentifier() for part in name.split("."))
    return is_dotted and (parent in modules or parent.rpartition(".")[0] in modules)


def _program(source: _Source, node: ast.Constant | ast.JoinedStr) -> Iterator[_Edit]:
    """Move the imports in a text that is a program."""
    start, stop = source.span(node)
    text = source.bytes[start:stop].decode()
    moved = _FROM_IN_TEXT.sub(f"from {HOME}.", text)
    moved = _IMPORT_IN_TEXT.sub(rf"\1from {HOME} import ", moved)
    if moved != text:
        yield _Edit(start, stop, moved.encode())


def modules_of(root: Path) -> frozenset[str]:
    """Name every module of the packages that move."""
    return frozenset(
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for package in MOVED
        for path in (root / package).rglob("*.py")
    )


def write_wheel(root: Path, target: Path) -> None:
    """Write the one package of the wheel, from a checkout or an unpacked sdist."""
    modules = modules_of(root)
    _write(root / FACE, target / FACE, root, modules)
    home = target.joinpath(*HOME.split("."))
    for package in MOVED:
        _write(root / package, home / package, root, modules)
        (home / package / "py.typed").unlink()  # That of the one package holds for all below it.
    (home / "__init__.py").write_text(HOME_TEXT, "utf-8")


def write_tests(root: Path, target: Path) -> None:
    """Write the tests as they run against an installed wheel."""
    _write(root / "tests", target / "tests", root, modules_of(root), is_test=True)


def _write(
    source: Path, target: Path, root: Path, modules: Collection[str], *, is_test: bool = False
) -> None:
    """Copy a tree, with its modules relocated."""
    for path in sorted(source.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        data = path.read_bytes()
        if path.suffix == ".py":
            where = path.relative_to(root).as_posix()
            data = relocate(data.decode(), modules, where, is_test=is_test).encode()
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
